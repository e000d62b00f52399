package shard

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
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
	Total  int
	Free   int // Idle
	ByType map[string]int
	ByZone map[string]int
}

// Summary counts the machines. It lets cycles run in between, so the numbers
// are not of one moment. O(machines).
func (s *Shard) Summary() Summary {
	out := Summary{ByType: map[string]int{}, ByZone: map[string]int{}}
	for from, more := columnar.Row(1), true; more; from += summaryRows {
		more = s.summarise(&out, from)
	}
	return out
}

func (s *Shard) summarise(out *Summary, from columnar.Row) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := columnar.Row(s.machines.RowMax())
	for r := from; r < min(end, from+summaryRows); r++ {
		if !s.machines.Has(r) {
			continue
		}
		m := s.machines.Brief(r)
		out.Total++
		if m.State == model.Idle {
			out.Free++
		}
		countName(out.ByType, m.InstanceType)
		countName(out.ByZone, s.machines.Zone(r))
	}
	return from+summaryRows < end
}

func countName(in map[string]int, name string) {
	if _, known := in[name]; !known && len(in) >= SummaryNamesMax {
		name = SummaryOther
	}
	in[name]++
}
