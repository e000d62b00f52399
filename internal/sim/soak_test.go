package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/history"
)

// soak is how far a series of random worlds is, one world a seed, and what it has found. With a file it
// goes on where the run before has ended.
type soak struct {
	// Settings are those of the series: the file of another one is not gone on with.
	Settings string         `json:"settings"`
	Next     int64          `json:"next"` // seed
	Worlds   int            `json:"worlds"`
	Cycles   int            `json:"cycles"`
	Compared int            `json:"compared"` // plans, with the reference's
	Actions  map[string]int `json:"actions"`
	// Undoing counts worlds that undo something, UndoingBy those that do so in a certain way.
	Undoing   int            `json:"undoing"`
	UndoingBy map[string]int `json:"undoingBy"`
	// Beyond counts worlds that undo more than the contract excepts, BeyondAfter those that do so after they
	// have settled from the state in which they were drawn.
	Beyond      int `json:"beyond"`
	BeyondAfter int `json:"beyondAfter"`
	// BeyondSooner counts those that undo more than what was made superfluous by something larger or sooner (decision 76).
	BeyondSooner int `json:"beyondSooner"`
	Restless     int `json:"restless"`
	// Broken counts worlds by the invariant that does not hold.
	Broken map[Invariant]int `json:"broken"`
	// Seeds are of the last worlds that undo something, do not rest or break an invariant, by which of that.
	Seeds map[string][]int64 `json:"seeds"`
	Rest  history.Totals     `json:"rest"`

	file   string
	spoken time.Time
}

// seedsKept is how many seeds of a kind a soak remembers.
const seedsKept = 20

// newSoak begins a series with the seed, or goes on with that of the file.
func newSoak(t *testing.T, file string, first int64, settings string) *soak {
	t.Helper()
	fresh := &soak{
		Settings: settings, Next: first, Actions: map[string]int{}, UndoingBy: map[string]int{},
		Broken: map[Invariant]int{}, Seeds: map[string][]int64{}, Rest: history.NewTotals(), file: file, spoken: time.Now(),
	}
	if file == "" {
		return fresh
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fresh
	}
	if err != nil {
		t.Fatal(err)
	}
	old := &soak{file: file, spoken: time.Now()}
	if err := json.Unmarshal(text, old); err != nil {
		t.Fatalf("%s: %v; remove it to begin anew", file, err)
	}
	if old.Settings != settings {
		t.Logf("%s is of other settings (%s): beginning anew", file, old.Settings)
		return fresh
	}
	t.Logf("going on with seed %d after %d worlds, %d cycles; remove %s to begin anew", old.Next, old.Worlds, old.Cycles, file)
	return old
}

// take adds a world and writes the file. It fails the test for an error of which a series must not have any.
func (s *soak) take(t *testing.T, seed int64, o *Outcome, err error) {
	t.Helper()
	violation := (*Violation)(nil)
	switch {
	case errors.As(err, &violation):
		s.Broken[violation.Invariant]++
		s.note(string(violation.Invariant), seed)
		t.Logf("seed %d: %v", seed, err)
	case errors.Is(err, ErrRestless):
		s.Restless++
		s.note(ErrRestless.Error(), seed)
		t.Logf("seed %d: %v", seed, err)
	case err != nil:
		t.Fatalf("seed %d: %v", seed, err)
	}
	if history.Sum(o.Rest.Undone) > 0 {
		s.Undoing++
		for kind := range o.Rest.Undone {
			s.UndoingBy[kind]++
			s.note(kind, seed)
		}
	}
	first, after, sooner := 0, 0, 0
	for stage, n := range o.Undone {
		sooner += o.Sooner[stage]
		if n -= o.Parts[stage]; stage == Settle {
			first += n
		} else {
			after += n
		}
	}
	if first+after > 0 {
		s.Beyond++
		s.note("beyond", seed)
	}
	if first+after > sooner {
		s.BeyondSooner++
	}
	if after > 0 {
		s.BeyondAfter++
		s.note("after", seed)
	}
	s.Worlds++
	s.Cycles += o.Cycles
	s.Next = seed + 1
	s.Rest.Add(&o.Rest)
	for _, stage := range o.Actions {
		for kind, n := range stage {
			s.Actions[kind] += n
		}
	}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
}

func (s *soak) note(what string, seed int64) {
	s.Seeds[what] = append(s.Seeds[what], seed)
	if n := len(s.Seeds[what]); n > seedsKept {
		s.Seeds[what] = s.Seeds[what][n-seedsKept:]
	}
}

// write replaces the file at once, so that it is whole whenever the run ends.
func (s *soak) write() error {
	if s.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// speakEvery is how long a soak is silent at most, but for one world.
const speakEvery = 5 * time.Second

// speak says how far the series is.
func (s *soak) speak(t *testing.T, goal string) {
	if time.Since(s.spoken) >= speakEvery {
		s.spoken = time.Now()
		t.Logf("next seed %d: %d worlds, %d cycles of %s; %d undo something, %d do not rest, %d break an invariant", s.Next, s.Worlds, s.Cycles, goal, s.Undoing, s.Restless, s.broken())
	}
}

// done ends a series: the next run with its file begins anew.
func (s *soak) done(t *testing.T) {
	if s.file != "" {
		if err := os.Remove(s.file); err != nil {
			t.Error(err)
		}
	}
}

func (s *soak) broken() (n int) {
	for _, count := range s.Broken {
		n += count
	}
	return n
}

// table says what was found, in Markdown.
func (s *soak) table() string {
	var b strings.Builder
	line := func(what string, n int, seeds []int64) {
		fmt.Fprintf(&b, "| %s | %d | %.2f %% | %s |\n", what, n, 100*float64(n)/float64(max(s.Worlds, 1)), strings.Trim(fmt.Sprint(seeds[max(0, len(seeds)-5):]), "[]"))
	}
	fmt.Fprintf(&b, "%d worlds, %d cycles, %d plans compared with the reference\n\n| worlds that | number | share | last seeds |\n|---|---:|---:|---|\n", s.Worlds, s.Cycles, s.Compared)
	line("undo something", s.Undoing, nil)
	for _, kind := range slices.Sorted(maps.Keys(s.UndoingBy)) {
		line("… "+kind, s.UndoingBy[kind], s.Seeds[kind])
	}
	line("… beyond what something larger explains", s.Beyond, s.Seeds["beyond"])
	line("… … after they have settled", s.BeyondAfter, s.Seeds["after"])
	line("… … and what something sooner explains", s.BeyondSooner, nil)
	line("do not rest", s.Restless, s.Seeds[ErrRestless.Error()])
	line("break an invariant", s.broken(), nil)
	for _, i := range slices.Sorted(maps.Keys(s.Broken)) {
		line("… "+string(i), s.Broken[i], s.Seeds[string(i)])
	}
	fmt.Fprintf(&b, "\nactions %v; %+v", s.Actions, s.Rest)
	return b.String()
}

// inOrder runs work for the seeds from first on, as many at a time as there are processors, and hands the
// results to take in the order of the seeds until it returns false.
func inOrder[T any](first int64, work func(seed int64) T, take func(seed int64, result T) bool) {
	width := runtime.GOMAXPROCS(0)
	results := make([]T, 4*width)
	for ; ; first += int64(len(results)) {
		var wait sync.WaitGroup
		slots := make(chan struct{}, width)
		for i := range results {
			slots <- struct{}{}
			wait.Go(func() {
				results[i] = work(first + int64(i))
				<-slots
			})
		}
		wait.Wait()
		for i := range results {
			if !take(first+int64(i), results[i]) {
				return
			}
		}
	}
}

// TestASoakGoesOn: what a run has found is there for the next, and a series that is complete is over.
func TestASoakGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "build", "state")
	o := Outcome{Cycles: 7, Rest: history.NewTotals(), Actions: map[Stage]map[string]int{Settle: {"Bootstrap": 2}}}
	o.Rest.Undone["bought_deleted"] = 1
	s := newSoak(t, file, 5, "one")
	s.take(t, 5, &o, &Violation{Invariant: PlanCovers})
	s.take(t, 6, &o, ErrRestless)
	s = newSoak(t, file, 5, "one")
	if s.Next != 7 || s.Worlds != 2 || s.Cycles != 14 || s.Undoing != 2 || s.UndoingBy["bought_deleted"] != 2 || s.Restless != 1 || s.Broken[PlanCovers] != 1 || s.Actions["Bootstrap"] != 4 || !slices.Equal(s.Seeds["bought_deleted"], []int64{5, 6}) {
		t.Errorf("went on with %+v", s)
	}
	if other := newSoak(t, file, 5, "two"); other.Worlds != 0 || other.Next != 5 {
		t.Errorf("other settings go on with %+v", other)
	}
	s.done(t)
	if s := newSoak(t, file, 9, "one"); s.Worlds != 0 || s.Next != 9 {
		t.Errorf("a series that is over goes on with %+v", s)
	}
}
