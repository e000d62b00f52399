package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Mode says what rebalancing may do.
type Mode string

// The modes: nothing, decide and explain, or move.
const (
	RebalanceOff    Mode = "off"
	RebalanceDryRun Mode = "dry-run"
	RebalanceOn     Mode = "on"
)

// ParseMode reads the value of a flag.
func ParseMode(text string) (Mode, error) {
	m := Mode(text)
	if m != RebalanceOff && m != RebalanceDryRun && m != RebalanceOn {
		return "", fmt.Errorf("must be off, dry-run or on, got %q", text)
	}
	return m, nil
}

// The reasons for which a command is refused. Errors of Step wrap one of them.
var (
	ErrInvalid  = errors.New("invalid")
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already taken")
	ErrFull     = errors.New("limit reached")
)

// Core is the coordinator's state and all of its decisions. It is not safe for
// use by several goroutines at once.
type Core struct {
	mode Mode

	// Durable; take is the only writer.
	sequence  int64 // last that was given out
	shards    map[string]*Shard
	clusters  map[string]string
	domains   map[Domain]string
	domainsOf map[string]int // how many domains a shard has
	moves     map[string]*Move
	// instructions by sequence number, and in order for each shard.
	instructions map[int64]*DomainInstruction
	pending      map[string]*queue
	losing       map[string]int // how many domains a shard has yet to give up
	// about holds the pending instructions of each domain: nobody is given one
	// before the shard that lost it has acknowledged that, and a newer instruction
	// to the same shard replaces an older one.
	about map[Domain][]int64
	loans map[string]*Loan // by machine

	// Soft.
	soft    map[string]*soft
	rest    map[string]int64 // of a move that is over: reports of its receiver until its pair may move again
	passes  int64
	waited  int64            // passes that count against donors: see giveUp
	news    bool             // a shard has reported since the last of them
	asked   map[string]int64 // what waited was when a move was asked for
	shapes  shapes
	lastRun Pass
}

// soft is what is known of a shard from its reports to this leader.
type soft struct {
	heard      bool // a report of this leader's time has come in
	heartbeat  int64
	epoch      int64
	cycle      int64
	stamp      int64
	reports    int64
	summary    *Summary
	shortfalls []Shortfall
	seen       map[uint64]int32 // by shortfall's key: reports in a row that had it
	offers     []Offer
	idle       *int32          // machines, as of the last offer; nil = it is not known
	offered    bool            // it takes part in hand-overs
	mentions   map[string]bool // moves that it has released and not been told are settled
}

// New returns an empty core.
func New(mode Mode) *Core {
	c := &Core{mode: mode, soft: map[string]*soft{}}
	c.clearDurable()
	return c
}

func (c *Core) clearDurable() {
	c.sequence = 0
	c.shards, c.clusters = map[string]*Shard{}, map[string]string{}
	c.domains, c.domainsOf = map[Domain]string{}, map[string]int{}
	c.moves = map[string]*Move{}
	c.instructions, c.pending = map[int64]*DomainInstruction{}, map[string]*queue{}
	c.about = map[Domain][]int64{}
	c.loans, c.losing = map[string]*Loan{}, map[string]int{}
	c.rest, c.asked = map[string]int64{}, map[string]int64{}
}

// Loader takes over a whole durable state, record by record.
type Loader struct{ c *Core }

// Load begins to replace the durable state; soft state stays. Sequence numbers
// are given out from floor+1 on, or from where the durable state stands if that
// is further.
func (c *Core) Load(floor int64) Loader {
	c.clearDurable()
	c.sequence = floor
	return Loader{c}
}

// Add takes over one record.
func (l Loader) Add(key string, value []byte) error { return l.c.take(Write{key, value}) }

// Forget drops all soft state: this replica no longer leads, and what it heard
// will be old when it does again.
func (c *Core) Forget() {
	clear(c.soft)
	c.lastRun, c.passes, c.waited, c.news = Pass{}, 0, 0, false
	c.shapes = shapes{state: c.shapes.state}
}

// Apply takes over what was committed.
func (c *Core) Apply(writes []Write) error {
	for _, w := range writes {
		if err := c.take(w); err != nil {
			return err
		}
	}
	return nil
}

// Effects is what an event asks for.
type Effects struct {
	// Writes are to be committed together and then applied. Each is a key of its
	// own. When there are more than one transaction holds they are committed in
	// order, in several: every prefix is a valid state, and the event may be
	// given again.
	Writes []Write
	// Dropped: the report was out of order or from a replaced process.
	Dropped string
	// Notices are for the log: one line each.
	Notices []string
}

// Event is what may happen to the coordinator.
type Event interface{ event() }

// AssignDomain gives a domain to a shard.
type AssignDomain struct{ Assignment }

// UnassignDomain takes a domain from whoever has it.
type UnassignDomain struct{ Domain }

// RemoveShard forgets a shard that is gone for good, with its domains and
// clusters.
type RemoveShard struct{ Shard string }

// BindCluster records that a cluster belongs to a shard.
type BindCluster struct{ Cluster, Shard string }

func (AssignDomain) event()   {}
func (UnassignDomain) event() {}
func (RemoveShard) event()    {}
func (BindCluster) event()    {}

// Step decides about one event that happened at now, in Unix nanoseconds.
func (c *Core) Step(now int64, e Event) (Effects, error) {
	switch e := e.(type) {
	case AssignDomain:
		return c.assign(e.Assignment)
	case UnassignDomain:
		return c.unassign(e.Domain)
	case RemoveShard:
		return c.remove(e.Shard)
	case BindCluster:
		return c.bind(e)
	case *Report:
		return c.report(now, e)
	case *Offering:
		return c.offering(now, e)
	case Rebalance:
		return c.rebalance(now), nil
	}
	return Effects{}, fmt.Errorf("%w: no such event %T", ErrInvalid, e)
}

// checkName refuses what does not pass model.CheckName.
func checkName(what, name string) error { return invalid(what, model.CheckName(name)) }

// checkOptional refuses what does not pass model.CheckOptionalName.
func checkOptional(what, name string) error { return invalid(what, model.CheckOptionalName(name)) }

// checkKnown refuses a name that nothing can have. What holds a control character
// may be known from a state that an earlier version wrote, and can be removed.
func checkKnown(what, name string) error {
	if name == "" || len(name) > NameBytesMax {
		return checkName(what, name)
	}
	return nil
}

// invalid says what is wrong with what; nil when err is.
func invalid(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s %w", ErrInvalid, what, err)
}

func (c *Core) assign(a Assignment) (Effects, error) {
	if err := errors.Join(checkName("topology_key", a.Key), checkName("topology_value", a.Value), checkName("shard_id", a.Shard)); err != nil {
		return Effects{}, err
	}
	if c.shards[a.Shard] == nil {
		return Effects{}, fmt.Errorf("%w: no shard %q has reported; `tonnage ctl list-shards` shows those that have", ErrNotFound, a.Shard)
	}
	switch owner := c.domains[a.Domain]; {
	case owner == a.Shard:
		return Effects{}, nil
	case owner != "":
		return Effects{}, fmt.Errorf("%w: domain %s belongs to shard %q; unassign it first", ErrExists, a.Domain, owner)
	case len(c.domains) >= DomainsMax:
		return Effects{}, fmt.Errorf("%w: %d domains are assigned, and no more can be", ErrFull, DomainsMax)
	}
	if err := c.conflict(a); err != nil {
		return Effects{}, err
	}
	n := c.sequence + 1
	i := &DomainInstruction{Sequence: n, Shard: a.Shard, Assign: true, Domain: a.Domain}
	writes := append(c.replaced(a.Domain, a.Shard), put(domainKey(a.Domain), a.Shard), put(instructionKey(n), i), putSequence(n))
	return Effects{Writes: writes}, nil
}

func (c *Core) unassign(d Domain) (Effects, error) {
	if err := errors.Join(checkKnown("topology_key", d.Key), checkKnown("topology_value", d.Value)); err != nil {
		return Effects{}, err
	}
	owner, ok := c.domains[d]
	if !ok {
		return Effects{}, nil
	}
	n := c.sequence + 1
	i := &DomainInstruction{Sequence: n, Shard: owner, Domain: d}
	// It is never nobody's without its shard being told.
	writes := append(c.replaced(d, owner), put(instructionKey(n), i), putSequence(n), del(domainKey(d)))
	return Effects{Writes: writes}, nil
}

func (c *Core) bind(b BindCluster) (Effects, error) {
	if err := errors.Join(checkName("cluster", b.Cluster), checkName("shard", b.Shard)); err != nil {
		return Effects{}, err
	}
	if c.shards[b.Shard] == nil {
		return Effects{}, fmt.Errorf("%w: no shard %q has reported", ErrNotFound, b.Shard)
	}
	switch owner := c.clusters[b.Cluster]; owner {
	case b.Shard:
		return Effects{}, nil
	case "":
		return Effects{Writes: []Write{put(clusterKey(b.Cluster), b.Shard)}}, nil
	default:
		return Effects{}, fmt.Errorf("%w: cluster %q belongs to shard %q", ErrExists, b.Cluster, owner)
	}
}

// remove cascades. The shard's own record goes last, so that a removal that was
// cut short can be given again.
func (c *Core) remove(id string) (Effects, error) {
	if err := checkKnown("shard_id", id); err != nil {
		return Effects{}, err
	}
	if c.shards[id] == nil {
		return Effects{}, fmt.Errorf("%w: no shard %q", ErrNotFound, id)
	}
	writes := append(c.orphanMoves(id), c.orphanLoans(id)...)
	for _, d := range c.DomainsOf(id) {
		writes = append(writes, del(domainKey(d)))
	}
	for cluster, shard := range c.clusters {
		if shard == id {
			writes = append(writes, del(clusterKey(cluster)))
		}
	}
	for n, i := range c.instructions {
		if i.Shard == id {
			writes = append(writes, del(instructionKey(n)))
		}
	}
	return Effects{Writes: append(writes, del(shardKey(id)))}, nil
}

// Shards returns all shards by id.
func (c *Core) Shards() []Shard {
	out := make([]Shard, 0, len(c.shards))
	for _, id := range slices.Sorted(maps.Keys(c.shards)) {
		out = append(out, *c.shards[id])
	}
	return out
}

// DomainsOf returns the domains of a shard, in no order.
func (c *Core) DomainsOf(shard string) []Domain {
	out := make([]Domain, 0, c.domainsOf[shard])
	for d, s := range c.domains {
		if s == shard {
			out = append(out, d)
		}
	}
	return out
}

// Assignments returns all domains with their shards, in no order.
func (c *Core) Assignments() []Assignment {
	out := make([]Assignment, 0, len(c.domains))
	for d, s := range c.domains {
		out = append(out, Assignment{d, s})
	}
	return out
}

func (c *Core) reportsOf(shard string) int64 {
	if s := c.soft[shard]; s != nil {
		return s.reports
	}
	return 0
}

// DomainCount is how many domains are assigned.
func (c *Core) DomainCount() int { return len(c.domains) }

// PhaseCounts says how many moves are in each phase.
func (c *Core) PhaseCounts() map[Phase]int {
	out := map[Phase]int{}
	for _, m := range c.moves {
		out[m.Phase]++
	}
	return out
}
