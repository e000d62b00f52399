package shard

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// SummaryNamesMax bounds the instance types and zones of a summary; machines of
// further ones are counted under SummaryOther.
const (
	SummaryNamesMax = 4096
	SummaryOther    = "other"
)

// summaryRows is how many rows are looked at without letting go of the lock.
const summaryRows = 1 << 13

// Summary is how many machines there are of what, in coarse terms.
type Summary struct {
	Total             int
	Idle, Speculative int // late-bound machines that are Idle are among the Speculative
	ByType            map[string]int
	ByZone            map[string]int
}

// Summary counts the machines. It lets cycles run in between, so the numbers
// are not of one moment. O(machines).
func (s *Shard) Summary() Summary {
	out := Summary{ByType: map[string]int{}, ByZone: map[string]int{}}
	for from, more := columnar.Row(1), true; more; from += summaryRows {
		s.mu.Lock()
		more = summarise(s.inventory.Table, &out, from)
		s.mu.Unlock()
	}
	return out
}

// summarise counts some machines from a row on; more says that there are further rows.
func summarise(machines *supply.Table, out *Summary, from columnar.Row) (more bool) {
	end := columnar.Row(machines.RowMax())
	for r := from; r < min(end, from+summaryRows); r++ {
		if !machines.Has(r) {
			continue
		}
		m := machines.Brief(r)
		out.Total++
		switch {
		case m.State == model.Speculative, machines.IsLateBound(r):
			out.Speculative++
		case m.State == model.Idle:
			out.Idle++
		}
		countName(out.ByType, m.InstanceType)
		countName(out.ByZone, machines.Zone(r))
	}
	return from+summaryRows < end
}

func countName(in map[string]int, name string) {
	if _, known := in[name]; !known && len(in) >= SummaryNamesMax {
		name = SummaryOther
	}
	in[name]++
}
