package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// Report is what a shard says of itself every few seconds.
type Report struct {
	Shard   string
	Address string
	Epoch   int64
	Cycle   int64 // counts the reports of one process of the shard
	Stamp   int64 // Unix nanoseconds by the shard's clock
	// Summary is nil when the report has none; the last one then stays.
	Summary    *Summary
	Shortfalls []Shortfall
	Acks       []Ack
}

func (*Report) event() {}

// Summary is a shard in a few numbers.
type Summary struct {
	Machines, Free  int32 // free are Idle or Speculative
	ByType, ByZone  map[string]int32
	ProviderAddress string
}

// Shortfall is demand of one profile that a shard could not meet.
type Shortfall struct {
	Requirements []model.Requirement
	Deficit      model.Resources
	Priority     int32
	Bucket       model.Bucket // interruption penalty
	// AgeCycles is how long it has been short: what the shard says, or the
	// reports in a row that had it, if that is more.
	AgeCycles int32

	same     bool   // what Same says
	required uint64 // identifies the requirements
	key      uint64 // identifies the shortfall from report to report
	// fits are the kinds that meet the requirements, as of a state of all kinds.
	fits   []int32
	fitsAt int64
}

// Same tells whether the machines must share a domain. Topology does not cross
// shards: no machine of another shard would help.
func (s *Shortfall) Same() bool {
	return slices.ContainsFunc(s.Requirements, func(r model.Requirement) bool { return r.Operator == model.Same })
}

// identify sets the keys of a shortfall. The order of requirements and of their
// values does not matter.
func (s *Shortfall) identify() {
	sum := uint64(0)
	s.same = s.Same()
	for i := range s.Requirements {
		r := &s.Requirements[i]
		values := uint64(0)
		for _, v := range r.Values {
			values += hash(hashSeed, v)
		}
		sum += (hash(hashSeed, r.Key)*hashPrime ^ uint64(r.Operator)*mixer) * (values | 1)
	}
	s.required = sum
	s.key = (sum ^ uint64(uint32(s.Priority))<<8 ^ uint64(s.Bucket)) * mixer
}

// FNV-1a, and an odd number to spread small ones.
const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
	mixer     = 0x9e3779b97f4a7c15
)

func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * hashPrime
	}
	return h
}

// String puts what is required into words.
func (s *Shortfall) String() string {
	var parts []string
	for _, r := range s.Requirements {
		part := r.Key[strings.LastIndexByte(r.Key, '/')+1:] + " " + r.Operator.String()
		if len(r.Values) > 0 {
			part += " " + strings.Join(r.Values, "|")
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "any machine"
	}
	return strings.Join(parts, ", ")
}

// note adds a line for the log.
func (e *Effects) note(format string, args ...any) {
	if len(e.Notices) < AcksMax {
		e.Notices = append(e.Notices, fmt.Sprintf(format, args...))
	}
}

func (c *Core) softOf(shard string) *soft {
	s := c.soft[shard]
	if s == nil {
		s = &soft{}
		c.soft[shard] = s
	}
	return s
}

// report takes a shard's report: the first one registers it.
func (c *Core) report(now int64, r *Report) (Effects, error) {
	var e Effects
	if err := r.check(); err != nil {
		return e, err
	}
	known := c.shards[r.Shard]
	if known == nil && len(c.shards) >= ShardsMax {
		return e, fmt.Errorf("%w: %d shards are registered, and no more can be; remove those that are gone", ErrFull, ShardsMax)
	}
	if known != nil {
		if e.Dropped = c.outOfOrder(known, r); e.Dropped != "" {
			return e, nil
		}
	}
	switch {
	case known == nil:
		e.Writes = append(e.Writes, put(shardKey(r.Shard), Shard{ID: r.Shard, Address: r.Address, RegisteredAt: now, Epoch: r.Epoch}))
		e.note("shard %q registers, at %q", r.Shard, r.Address)
	case r.Epoch > known.Epoch:
		next := *known
		next.Epoch = r.Epoch
		e.Writes = append(e.Writes, put(shardKey(r.Shard), next))
	}
	s := c.softOf(r.Shard)
	if r.Epoch > s.epoch {
		s.offered, s.offers, s.idle = false, nil, nil // of a process that is gone
	}
	s.heard, s.heartbeat, s.epoch, s.cycle, s.stamp = true, now, r.Epoch, r.Cycle, r.Stamp
	s.reports++
	c.news = true
	if r.Summary != nil {
		s.summary = r.Summary
	}
	s.age(r.Shortfalls, &e, r.Shard)
	c.acknowledge(now, r.Shard, r.Acks, &e)
	return e, nil
}

func (r *Report) check() error {
	if err := checkName("shard_id", r.Shard); err != nil {
		return err
	}
	if err := checkOptional("shard_address", r.Address); err != nil {
		return err
	}
	if err := r.Summary.check(); err != nil {
		return err
	}
	if len(r.Shortfalls) > ShortfallsMax {
		r.Shortfalls = r.Shortfalls[:ShortfallsMax]
	}
	for i := range r.Shortfalls {
		values := 0
		for _, q := range r.Shortfalls[i].Requirements {
			values += len(q.Values)
			if err := invalid(fmt.Sprintf("shortfall %d: a requirement's key", i), model.CheckName(q.Key)); err != nil {
				return err
			}
			for _, v := range q.Values {
				if err := invalid(fmt.Sprintf("shortfall %d: a value of the requirement on %q", i, q.Key), model.CheckText(v)); err != nil {
					return err
				}
			}
		}
		if n := len(r.Shortfalls[i].Requirements); n > RequirementsMax || values > RequirementValuesMax {
			return fmt.Errorf("%w: shortfall %d has %d requirements with %d values; at most %d and %d are accepted",
				ErrInvalid, i, n, values, RequirementsMax, RequirementValuesMax)
		}
	}
	return nil
}

// check refuses names that break the rule; nil has none.
func (s *Summary) check() error {
	if s == nil {
		return nil
	}
	if err := checkOptional("summary: provider_address", s.ProviderAddress); err != nil {
		return err
	}
	for name := range s.ByType {
		if err := checkOptional("summary: an instance type", name); err != nil {
			return err
		}
	}
	for name := range s.ByZone {
		if err := checkOptional("summary: a zone", name); err != nil {
			return err
		}
	}
	return nil
}

// outOfOrder says why a report is not to be believed, "" = it is. The epoch is
// durable; the cycle is remembered by this leader only. A first report of the
// same epoch comes from a shard that does not keep its epoch and has started
// anew.
func (c *Core) outOfOrder(known *Shard, r *Report) string {
	if r.Epoch < known.Epoch {
		return fmt.Sprintf("epoch %d is over, the shard has been seen with %d; stop the older process, or, if its data is lost, `tonnage ctl remove-shard --shard %s`",
			r.Epoch, known.Epoch, r.Shard)
	}
	s := c.soft[r.Shard]
	if s == nil || !s.heard || r.Epoch > s.epoch || r.Cycle > s.cycle {
		return ""
	}
	if r.Cycle <= 1 && r.Stamp > s.stamp {
		return ""
	}
	return "cycle " + strconv.FormatInt(r.Cycle, 10) + " comes after " + strconv.FormatInt(s.cycle, 10)
}

// age takes over the shortfalls of a report, none included, and notes those
// that have become a matter of the fleet.
func (s *soft) age(now []Shortfall, e *Effects, shard string) {
	seen := make(map[uint64]int32, len(now))
	for i := range now {
		x := &now[i]
		x.identify()
		key := x.key
		before, known := s.seen[key]
		x.AgeCycles = max(x.AgeCycles, before+1)
		seen[key] = x.AgeCycles
		// One that is old when this leader first hears of it was noted by the last.
		if known && before <= EscalateAgeCycles && x.AgeCycles > EscalateAgeCycles {
			e.note("shard %q has been short for %d cycles at priority %d: %s", shard, x.AgeCycles, x.Priority, x)
		}
	}
	slices.SortStableFunc(now, func(a, b Shortfall) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.AgeCycles, a.AgeCycles))
	})
	s.shortfalls, s.seen = now, seen
}

// Status is what a leader has heard of one shard.
type Status struct {
	Shard      string
	Cycle      int64
	Heartbeat  int64 // Unix nanoseconds, 0 = not heard by this leader
	Summary    *Summary
	Shortfalls []Shortfall
	Pending    int
	Idle       *int32 // machines, as of its last offer; nil = it is not known
}

// Statuses returns what is known of all shards, by id; of one when it is named.
func (c *Core) Statuses(only string) []Status {
	var out []Status
	for _, s := range c.Shards() {
		if only != "" && only != s.ID {
			continue
		}
		x := Status{Shard: s.ID, Pending: c.PendingCount(s.ID)}
		if h := c.soft[s.ID]; h != nil {
			x.Cycle, x.Heartbeat, x.Summary, x.Shortfalls = h.cycle, h.heartbeat, h.summary, h.shortfalls
			x.Idle = h.idle
		}
		out = append(out, x)
	}
	return out
}

// Heard tells whether this leader has had a report of every shard.
func (c *Core) Heard() bool {
	for id := range c.shards {
		if s := c.soft[id]; s == nil || !s.heard {
			return false
		}
	}
	return true
}
