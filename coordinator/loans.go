package coordinator

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// A machine that has changed its shard still lies in a domain of the one that
// gave it. Both shards know that, but a third one that were assigned the domain
// could not: it would take the machine up as well. Two things keep it from that.
//
// The shard that gave machines away does not give up their domain: it answers
// FAILED until all of them are back, and nobody is told of an assignment before
// the last shard has given the domain up. It decides in one step with its
// releases, so that no order of events gets past it.
//
// And the loans are durable here. They make an assignment that could not be
// carried out an error at once, and stay when the shard that gave is removed, and
// can answer nothing any more.

// Loan is a machine that another shard has than the one whose domain it lies in.
type Loan struct {
	Home   string `json:"home"`
	Holder string `json:"holder"`
	Kind
}

// Kind is what is known of the domains that a machine lies in.
type Kind struct {
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Labels are those that all machines of the offer had. A label that is not
	// among them may have any value.
	Labels map[string]string `json:"labels,omitempty"`
}

// in tells whether a machine of the kind lies in a domain; known is false when
// that cannot be told.
func (k *Kind) in(d Domain) (in, known bool) {
	value, known := k.machine().Attribute(d.Key)
	return value == d.Value, known && value != ""
}

func (k *Kind) machine() *model.Machine {
	return &model.Machine{InstanceType: k.InstanceType, Zone: k.Zone, Labels: k.Labels}
}

func loanKey(machine string) string { return keyLoan + url.PathEscape(machine) }

func (c *Core) takeLoan(name string, value []byte) error {
	machine, err := url.PathUnescape(name)
	if err != nil {
		return err
	}
	if value == nil {
		delete(c.loans, machine)
		return nil
	}
	l := &Loan{}
	if err := json.Unmarshal(value, l); err != nil {
		return err
	}
	c.loans[machine] = l
	return nil
}

// lend returns the loans that a move begins or hands on. They are to be written
// before the move is adopted: written again, they are the same.
func (c *Core) lend(m *Move) (out []Write) {
	for _, id := range m.Machines {
		home, old := m.Donor, c.loans[id]
		if old != nil && old.Home != m.Donor {
			home = old.Home
		}
		if home != m.Receiver {
			out = append(out, put(loanKey(id), Loan{Home: home, Holder: m.Receiver, Kind: m.Kind}))
		}
	}
	return out
}

// comeHome returns the ends of loans of machines that a move brought home. They
// are to be written after the move is adopted, and once more when it is settled:
// a commit may have been cut short in between.
func (c *Core) comeHome(m *Move) (out []Write) {
	for _, id := range m.Machines {
		if l := c.loans[id]; l != nil && l.Home == m.Receiver && l.Holder == m.Donor {
			out = append(out, del(loanKey(id)))
		}
	}
	return out
}

// conflict says why a domain cannot be a shard's: machines of it are with
// another. Where it is not known which domain a machine lies in, its own shard
// knows, as long as there is one.
func (c *Core) conflict(a Assignment) error {
	var lent []string
	for id, l := range c.loans {
		in, known := l.in(a.Domain)
		orphan := c.shards[l.Home] == nil
		switch {
		case known && !in, !known && !orphan:
		case l.Home == a.Shard, orphan && l.Holder == a.Shard:
		default:
			lent = append(lent, id)
		}
	}
	if len(lent) == 0 {
		return nil
	}
	first := slices.Min(lent)
	l := c.loans[first]
	remedy := fmt.Sprintf("assign it to %q until they have come home", l.Home)
	if c.shards[l.Home] == nil {
		remedy = fmt.Sprintf("assign it to %q, or remove that shard when it is gone", l.Holder)
	}
	return fmt.Errorf("%w: %d machines of domain %s are with other shards than it would be, such as %s of %q with %q, and shard %q would take them up too; %s",
		ErrExists, len(lent), a.Domain, first, l.Home, l.Holder, a.Shard, remedy)
}

// gaveUp returns the ends of loans that cannot be true: their shard says that no
// machine of the domains is away. Machines that are gone altogether end so.
func (c *Core) gaveUp(shard string, domains map[Domain]bool) (out []Write) {
	if len(domains) == 0 {
		return nil
	}
	keys := map[string]bool{}
	for d := range domains {
		keys[d.Key] = true
	}
	for id, l := range c.loans {
		if l.Home != shard {
			continue
		}
		for key := range keys {
			if value, known := l.machine().Attribute(key); known && domains[Domain{key, value}] {
				out = append(out, del(loanKey(id)))
				break
			}
		}
	}
	return out
}

// orphanLoans returns the ends of the loans that a shard has that is gone for
// good: its machines are nobody's. What it lent stays lent.
func (c *Core) orphanLoans(shard string) (out []Write) {
	for id, l := range c.loans {
		if l.Holder == shard {
			out = append(out, del(loanKey(id)))
		}
	}
	return out
}

// Loans returns the machines that are with another shard than the one whose
// domain they lie in.
func (c *Core) Loans() map[string]Loan {
	out := make(map[string]Loan, len(c.loans))
	for id, l := range c.loans {
		out[id] = *l
	}
	return out
}

// LoanCount is how many there are.
func (c *Core) LoanCount() int { return len(c.loans) }
