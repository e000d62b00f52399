package journal_test

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/internal/disk/disktest"
	"github.com/tonnage/tonnage/shard/journal"
)

// Where the journal is on file systems in memory.
const (
	folder      = "/data"
	journalPath = folder + "/journal"
)

// story is what was set in a journal, and from which step on what was durable.
type story struct {
	fs     *disktest.FS
	states []map[string]string // after each Set
	acked  []ack
}

type ack struct{ steps, state int }

func (s *story) set(t *testing.T, j *journal.Journal, key, value string) uint64 {
	t.Helper()
	at := j.Set(key, []byte(value))
	s.states = append(s.states, contents(j))
	return at
}

func (s *story) wait(t *testing.T, j *journal.Journal, at uint64) {
	t.Helper()
	durable(t, j, at)
	s.acked = append(s.acked, ack{s.fs.Steps(), len(s.states) - 1})
}

// from returns the first state that a crash after so many steps may leave.
func (s *story) from(steps int) (state int) {
	for _, a := range s.acked {
		if a.steps <= steps {
			state = a.state
		}
	}
	return state
}

// some returns the part of a state that is guarded, or the other one.
func some(state map[string]string, guarded bool) map[string]string {
	out := maps.Clone(state)
	maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasPrefix(k, "d") != guarded })
	return out
}

// told takes down what is logged from warn on.
func told(lines *[]string) slog.Handler {
	return slog.NewTextHandler(writer(func(b []byte) { *lines = append(*lines, string(b)) }), &slog.HandlerOptions{Level: slog.LevelWarn})
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func begin() *story {
	return &story{fs: disktest.New(), states: []map[string]string{{}}}
}

// TestCrashAtAnyMoment: the journal is as it was after one of its changes, and not
// before the last one that was durable. Nothing is called damaged.
func TestCrashAtAnyMoment(t *testing.T) {
	s := begin()
	j := openOn(t, s.fs, folder, slog.DiscardHandler)
	s.set(t, j, "m1", "one")
	s.wait(t, j, s.set(t, j, "dzone", "a"))
	s.set(t, j, "m2", "two")
	s.set(t, j, "dzone", "")
	s.wait(t, j, s.set(t, j, "dzone2", "b"))
	s.wait(t, j, s.set(t, j, "m1", ""))
	j.Close()
	again := openOn(t, s.fs, folder, slog.DiscardHandler)
	s.wait(t, again, s.set(t, again, "m3", "three"))
	crashes := 0
	for _, steps := range s.fs.Moments() {
		for what, fs := range s.fs.Crashes(steps) {
			crashes++
			s.check(t, what, steps, fs)
		}
	}
	t.Logf("%d crashes", crashes)
}

func (s *story) check(t *testing.T, what string, steps int, fs *disktest.FS) {
	t.Helper()
	var said []string
	j := openOn(t, fs, folder, told(&said))
	defer j.Close()
	got := contents(j)
	if !slices.ContainsFunc(s.states[s.from(steps):], func(want map[string]string) bool { return maps.Equal(got, want) }) {
		t.Fatalf("%s: got %v, want one of %v", what, got, s.states[s.from(steps):])
	}
	if len(said) > 0 || j.Damaged() > 0 || j.Knowledge() == journal.Lost {
		t.Fatalf("%s: %d damaged, knowledge %d, %v", what, j.Damaged(), j.Knowledge(), said)
	}
}

// TestCrashWhileTheMapIsWritten: after a failure of the disk the whole map is written
// to a new file. Guarded keys may be ahead of the others then.
func TestCrashWhileTheMapIsWritten(t *testing.T) {
	s := begin()
	first := 0
	synctest.Test(t, func(t *testing.T) {
		j := openOn(t, s.fs, folder, slog.DiscardHandler)
		s.wait(t, j, s.set(t, j, "d1", "a"))
		s.fs.SetFull(true)
		at := s.set(t, j, "d2", "b")
		if j.Durable(t.Context(), at) == nil {
			t.Error("durable on a full disk")
		}
		s.set(t, j, "m2", "two")
		first = s.fs.Steps()
		s.fs.SetFull(false)
		<-time.After(10 * time.Second)
		synctest.Wait()
		s.wait(t, j, at)
		j.Close()
	})
	for _, steps := range s.fs.Moments() {
		if steps < first {
			continue
		}
		for what, fs := range s.fs.Crashes(steps) {
			j := openOn(t, fs, folder, slog.DiscardHandler)
			got := contents(j)
			for _, guarded := range []bool{true, false} {
				if !slices.ContainsFunc(s.states[s.from(steps):], func(want map[string]string) bool {
					return maps.Equal(some(got, guarded), some(want, guarded))
				}) {
					t.Fatalf("%s: got %v, want one of %v", what, got, s.states[s.from(steps):])
				}
			}
			if j.Damaged() > 0 || j.Knowledge() == journal.Lost {
				t.Fatalf("%s: %d damaged, knowledge %d", what, j.Damaged(), j.Knowledge())
			}
			j.Close()
		}
	}
}

// written is what a journal leaves that was closed, and what was in it.
func written(t *testing.T) (*disktest.FS, map[string]string) {
	t.Helper()
	fs := disktest.New()
	j := openOn(t, fs, folder, slog.DiscardHandler)
	for i := range 3 {
		j.Set(fmt.Sprint("m", i), []byte("machine"))
		durable(t, j, j.Set(fmt.Sprint("dzone-", i), []byte{1}))
	}
	durable(t, j, j.Set("m0", nil))
	durable(t, j, j.Set("m1", []byte("another")))
	state := contents(j)
	j.Close()
	return fs, state
}

// TestEveryBit: a bit that turned after the sync is found, whatever frame it is in.
// Guarded keys survive it, and of the others no more is lost than is reported.
func TestEveryBit(t *testing.T) {
	fs, want := written(t)
	for _, name := range []string{"journal", "domains", "domains.copy"} {
		silent := 0
		for what, fs := range fs.Flips(filepath.Join(folder, name)) {
			var said []string
			j := openOn(t, fs, folder, told(&said))
			got := contents(j)
			if !maps.Equal(some(got, true), some(want, true)) || j.Knowledge() != journal.Known {
				t.Fatalf("%s: the guarded keys are %v, knowledge %d", what, some(got, true), j.Knowledge())
			}
			if len(said) == 0 {
				if silent++; !maps.Equal(got, want) {
					t.Fatalf("%s: nothing is reported; got %v, want %v", what, got, want)
				}
			}
			if name == "journal" && (len(said) > 0) != (j.Damaged() == 1) {
				t.Fatalf("%s: %d files aside; %v", what, j.Damaged(), said)
			}
			j.Close()
			if again := openOn(t, fs, folder, slog.DiscardHandler); !maps.Equal(contents(again), got) || again.Damaged() != j.Damaged() {
				t.Fatalf("%s: opened once more: got %v, want %v", what, contents(again), got)
			}
		}
		if want := 8 * int(journal.CommitBytes); name == "journal" && silent != want {
			t.Errorf("%d bits of the journal turn without a report, want the %d of the last commit frame", silent, want)
		}
		if name != "journal" && silent > 0 {
			t.Errorf("%d bits of %s turn without a report", silent, name)
		}
	}
}

// TestEveryLength: a journal that was cut off anywhere does not take guarded keys
// with it.
func TestEveryLength(t *testing.T) {
	fs, want := written(t)
	whole := fs.Files()[journalPath]
	for n := range whole {
		files := fs.Files()
		cut := disktest.New()
		for path, content := range files {
			cut.Put(path, content)
		}
		cut.Put(journalPath, whole[:n])
		j := openOn(t, cut, folder, slog.DiscardHandler)
		if got := contents(j); !maps.Equal(some(got, true), some(want, true)) {
			t.Fatalf("cut at %d: the guarded keys are %v", n, some(got, true))
		}
		j.Close()
	}
}
