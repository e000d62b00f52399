package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// cycleRow is one line of the output of simulate.
type cycleRow struct {
	Cycle       int            `json:"cycle"`
	Actions     []act          `json:"actions"`
	States      map[string]int `json:"states"`
	Unsatisfied []string       `json:"unsatisfied"`
	Shortfalls  int            `json:"shortfalls"`
	Suppressed  int            `json:"suppressed"`
}

// trace is the output of simulate; there is at least one cycle.
type trace []cycleRow

func parseTrace(text string) (trace, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var t trace
	for i, line := range lines {
		var row struct {
			cycleRow
			Summary json.RawMessage `json:"summary"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, fmt.Errorf("line %d of the output is not JSON: %w", i+1, err)
		}
		if last := i == len(lines)-1; last != (row.Summary != nil) {
			return nil, errors.New("the summary must be the last line, and only that")
		}
		if row.Summary == nil {
			t = append(t, row.cycleRow)
		}
	}
	if len(t) == 0 {
		return nil, errors.New("the output has no cycles")
	}
	return t, nil
}

// traceCheck holds a trace against expectations.
type traceCheck struct {
	*checker
	trace trace
}

func (s *traceCheck) last() *cycleRow { return &s.trace[len(s.trace)-1] }

// at returns the row of a cycle that is named in an expectation.
func (s *traceCheck) at(cycle string) *cycleRow {
	k, err := strconv.Atoi(cycle)
	for i := range s.trace {
		if err == nil && s.trace[i].Cycle == k {
			return &s.trace[i]
		}
	}
	s.fault("there is no cycle %s", cycle)
	return &cycleRow{}
}

// between returns all actions of some cycles, both ends included.
func (s *traceCheck) between(from, to int) []act {
	var out []act
	for i := range s.trace {
		if k := s.trace[i].Cycle; from <= k && k <= to {
			out = append(out, s.trace[i].Actions...)
		}
	}
	return out
}

// check checks one key; false when there is no such key.
func (s *traceCheck) check(key string, raw json.RawMessage) bool {
	const first, end = 0, 1 << 30
	switch key {
	case "totals":
		s.bounds("counts", value[map[string]int](s.checker, key, raw), count(s.between(first, end)))
	case "ranges":
		s.ranges(raw)
	case "sequence":
		for kind, want := range value[map[string][]int](s.checker, key, raw) {
			s.sequence(kind, want)
		}
	case "cycles":
		for k, want := range value[map[string][][]string](s.checker, key, raw) {
			s.sameActions("cycle "+k, want, s.at(k).Actions)
		}
	case "machineActions":
		for m, want := range value[map[string][][2]string](s.checker, key, raw) {
			s.machineActions(m, want)
		}
	case "quietAfter":
		after := value[int](s.checker, key, raw)
		if late := s.between(after+1, end); len(late) > 0 {
			s.fault("acts after cycle %d: %v", after, late)
		}
	case "suppressedMin":
		most := 0
		for i := range s.trace {
			most = max(most, s.trace[i].Suppressed)
		}
		if want := value[int](s.checker, key, raw); most < want {
			s.fault("suppressed never reaches %d, only %d", want, most)
		}
	default:
		return s.checkStates(key, raw)
	}
	return true
}

// checkStates checks the keys about what a cycle looks like afterwards.
func (s *traceCheck) checkStates(key string, raw json.RawMessage) bool {
	switch key {
	case "finalStates":
		got := maps.Clone(s.last().States)
		maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
		if want := value[map[string]int](s.checker, key, raw); !maps.Equal(want, got) {
			s.fault("states at the end: want %v, got %v", want, got)
		}
	case "finalStatesPart":
		s.states("at the end", value[map[string]int](s.checker, key, raw), s.last())
	case "statesAt":
		for k, want := range value[map[string]map[string]int](s.checker, key, raw) {
			s.states("in cycle "+k, want, s.at(k))
		}
	case "finalUnsatisfied":
		equalSets(s.checker, "unsatisfied at the end", value[[]string](s.checker, key, raw), s.last().Unsatisfied)
	case "unsatisfiedAt":
		for k, want := range value[map[string][]string](s.checker, key, raw) {
			equalSets(s.checker, "unsatisfied in cycle "+k, want, s.at(k).Unsatisfied)
		}
	case "finalShortfalls":
		equal(s.checker, "shortfalls at the end", value[int](s.checker, key, raw), s.last().Shortfalls)
	default:
		return false
	}
	return true
}

func (s *traceCheck) states(when string, want map[string]int, row *cycleRow) {
	for state, n := range want {
		equal(s.checker, state+" "+when, n, row.States[state])
	}
}

// ranges checks counts over some cycles, for the kinds listed.
func (s *traceCheck) ranges(raw json.RawMessage) {
	type span struct {
		From, To         *int
		Counts, Min, Max map[string]int
	}
	for _, r := range value[[]span](s.checker, "ranges", raw) {
		from, to := 0, 1<<30
		if r.From != nil {
			from = *r.From
		}
		if r.To != nil {
			to = *r.To
		}
		got := count(s.between(from, to))
		where := fmt.Sprintf(" in cycles %d to %d", from, to)
		for kind, n := range r.Counts {
			equal(s.checker, kind+where, n, got[kind])
		}
		for kind, n := range r.Min {
			if got[kind] < n {
				s.fault("%s%s: want at least %d, got %d", kind, where, n, got[kind])
			}
		}
		for kind, n := range r.Max {
			if got[kind] > n {
				s.fault("%s%s: want at most %d, got %d", kind, where, n, got[kind])
			}
		}
	}
}

// sequence checks how many actions of a kind each cycle has, zeros left out.
func (s *traceCheck) sequence(kind string, want []int) {
	var got []int
	for i := range s.trace {
		if n := count(s.trace[i].Actions)[kind]; n > 0 {
			got = append(got, n)
		}
	}
	if !slices.Equal(want, got) {
		s.fault("%s per cycle, zeros left out: want %v, got %v", kind, want, got)
	}
}

// machineActions checks everything that happened to a machine, in order.
func (s *traceCheck) machineActions(machine string, want [][2]string) {
	var got [][2]string
	for _, a := range s.between(0, 1<<30) {
		if a[1] == machine {
			got = append(got, [2]string{a[0], a[2]})
		}
	}
	if !slices.Equal(want, got) {
		s.fault("actions on %s: want %v, got %v", machine, want, got)
	}
}
