package rack

import (
	"errors"
	"fmt"
	"sync"
)

// Host is a host as its power controller knows it.
type Host struct {
	Name     string
	On       bool
	Cluster  string // that it is assigned to, "" = none
	Claim    string // free text of whoever uses it, "" = nobody does
	Revision uint64 // rises with each change of the claim
}

// ErrRevision is returned for a claim that was changed since it was read.
var ErrRevision = errors.New("the claim was changed meanwhile")

// ErrNoHost is returned for a host that the rack does not have.
var ErrNoHost = errors.New("there is no such host")

// Rack is the power controller of hosts. Safe for concurrent use.
type Rack struct {
	// Before is called before each request with the name of its method; an error refuses it. nil = none is refused.
	Before func(request string) error

	mu    sync.Mutex
	hosts map[string]*Host
	order []string
}

// NewRack returns a rack of hosts that are off.
func NewRack(names ...string) *Rack {
	r := &Rack{hosts: map[string]*Host{}, order: names}
	for _, name := range names {
		r.hosts[name] = &Host{Name: name}
	}
	return r
}

// List returns all hosts in the order of NewRack.
func (r *Rack) List() (out []Host, err error) {
	err = r.request("List", func() error {
		for _, name := range r.order {
			out = append(out, *r.hosts[name])
		}
		return nil
	})
	return out, err
}

// Get returns a host.
func (r *Rack) Get(name string) (out Host, err error) {
	err = r.change("Get", name, func(h *Host) error { out = *h; return nil })
	return out, err
}

// SetClaim replaces a claim, if it is still the one of a revision.
func (r *Rack) SetClaim(name, claim string, revision uint64) error {
	return r.change("SetClaim", name, func(h *Host) error {
		if h.Revision != revision {
			return fmt.Errorf("host %s: %w", name, ErrRevision)
		}
		h.Claim = claim
		h.Revision++
		return nil
	})
}

// SetPower turns a host on or off.
func (r *Rack) SetPower(name string, on bool) error {
	return r.change("SetPower", name, func(h *Host) error { h.On = on; return nil })
}

// Assign has a host join a cluster with what it starts with; "" takes it out of its cluster.
func (r *Rack) Assign(name, cluster string, _ []byte) error {
	return r.change("Assign", name, func(h *Host) error {
		if cluster != "" && h.Cluster != "" && h.Cluster != cluster {
			return fmt.Errorf("host %s is in cluster %q", name, h.Cluster)
		}
		if cluster != "" && !h.On {
			return fmt.Errorf("host %s has no power", name)
		}
		h.Cluster = cluster
		return nil
	})
}

// ByHand changes a host as a person does who walks up to it: past Before and revisions.
func (r *Rack) ByHand(name string, do func(*Host)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hosts[name]
	if h == nil {
		return fmt.Errorf("host %q: %w", name, ErrNoHost)
	}
	do(h)
	h.Revision++
	return nil
}

// Look returns a host as a person sees it who walks up to it; the zero one if it is not there.
func (r *Rack) Look(name string) (out Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.hosts[name]; h != nil {
		out = *h
	}
	return out
}

func (r *Rack) change(request, name string, do func(*Host) error) error {
	return r.request(request, func() error {
		h := r.hosts[name]
		if h == nil {
			return fmt.Errorf("host %q: %w", name, ErrNoHost)
		}
		return do(h)
	})
}

func (r *Rack) request(request string, do func() error) error {
	if r.Before != nil {
		if err := r.Before(request); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return do()
}
