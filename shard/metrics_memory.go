package shard

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard/internal/intake"
)

// memoryEveryNanos is how old the figures of memory may become: to add them up
// visits every class and every set of the index.
const memoryEveryNanos = 10e9

// The labels of memory: what is needed now, and what is held.
const (
	memoryUsed     = "used"
	memoryReserved = "reserved"
)

// defineMemory makes the metrics of memory. All label values are there from the
// start.
func (m *metrics) defineMemory(g gaugeMaker, c counterMaker) {
	m.memory = g("tonnage_shard_memory_bytes", "Memory of the tables, the engine and roll-ups on their way, by what it is for.", "purpose", "kind")
	for p := range alloc.NumPurposes {
		m.memory.WithLabelValues(alloc.Purpose(p).String(), memoryUsed)
		m.memory.WithLabelValues(alloc.Purpose(p).String(), memoryReserved)
	}
	m.mapped = g("tonnage_shard_memory_mapped_bytes", "Memory of the process that lies outside the Go heap; part of what is reserved.").WithLabelValues()
	m.mapRefused = c("tonnage_shard_memory_refusals_total", "Wishes for memory that the system refused: to map it, huge pages, a NUMA node. Something slower served.", "wish")
	for _, wish := range wishes(alloc.Mapping{}) {
		m.mapRefused.WithLabelValues(wish.name)
	}
}

// ingestUsage is the memory of roll-ups that are not yet in the table: those that
// wait for the next cycle, and what sessions hear through the builders of their
// readers.
func ingestUsage(in *intake.Intake, outside func() (waiting, reading int64)) alloc.Usage {
	waiting, spare := in.MailBytes()
	u := alloc.Usage{Used: waiting, Reserved: waiting + spare}
	if outside != nil {
		waiting, reading := outside()
		u.Used += waiting
		u.Reserved += waiting + reading
	}
	return u
}

type wish struct {
	name    string
	refused int64
}

// wishes lists what the system can refuse.
func wishes(m alloc.Mapping) [3]wish {
	return [...]wish{{"mapping", m.Refused}, {"huge_pages", m.SmallPages}, {"node", m.Misplaced}}
}

// takeMemory shows the memory by purpose, when what is shown has become old.
func (m *metrics) takeMemory(s *Shard, plan *engine.Plan) {
	if m.memoryAt != 0 && s.pace.Now-m.memoryAt < memoryEveryNanos {
		return
	}
	m.memoryAt = s.pace.Now
	tables, working := s.observer.accounts.Usage(), s.decider.engine.Memory()
	working[alloc.Plan] = plan.Memory()
	for p := range alloc.NumPurposes {
		name := alloc.Purpose(p).String()
		m.memory.WithLabelValues(name, memoryUsed).Set(float64(tables[p].Used + working[p].Used))
		m.memory.WithLabelValues(name, memoryReserved).Set(float64(tables[p].Reserved + working[p].Reserved))
	}
	now := alloc.Mapped()
	m.mapped.Set(float64(now.Bytes))
	before := wishes(m.mapping)
	for i, w := range wishes(now) {
		m.mapRefused.WithLabelValues(w.name).Add(float64(w.refused - before[i].refused))
	}
	m.mapping = now
}
