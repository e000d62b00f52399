package journal_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/internal/disk"
	"github.com/tonnage/tonnage/internal/disk/disktest"
	"github.com/tonnage/tonnage/shard/journal"
)

func open(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	return openOn(t, disk.OS, dir, slog.DiscardHandler)
}

func openOn(t *testing.T, fs disk.FS, dir string, log slog.Handler) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{FS: fs, Log: slog.New(log), Guard: journal.Guard{Prefix: "d", File: "domains"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func contents(j *journal.Journal) map[string]string {
	out := map[string]string{}
	j.All(func(k string, v []byte) { out[k] = string(v) })
	return out
}

func durable(t *testing.T, j *journal.Journal, position uint64) {
	t.Helper()
	if err := j.Durable(t.Context(), position); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsDurableIsThereAgain: without closing, as after kill -9.
func TestWhatIsDurableIsThereAgain(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.Set("a", []byte("1"))
	j.Set("b", []byte("2"))
	j.Set("a", nil)
	durable(t, j, j.Set("c", []byte("3")))
	if p := j.Set("c", []byte("3")); p != 0 {
		t.Errorf("no change has position %d", p)
	}
	want := map[string]string{"b": "2", "c": "3"}
	if got := contents(open(t, dir)); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTornTail: whatever the last write left of itself, what was before it is
// there, and the journal goes on.
func TestTornTail(t *testing.T) {
	fs := disktest.New()
	j := openOn(t, fs, folder, slog.DiscardHandler)
	states := []map[string]string{{}}
	ends := []int64{int64(len("tonnage journal 1\n"))} // of each state's batch
	for i := range 12 {
		value := []byte(fmt.Sprint("value ", i))
		if i%4 == 3 {
			value = nil
		}
		durable(t, j, j.Set(fmt.Sprint("key ", i%3), value))
		if end := int64(len(fs.Files()[journalPath])) - journal.CommitBytes; end > ends[len(ends)-1] {
			states, ends = append(states, contents(j)), append(ends, end)
		}
	}
	whole := fs.Files()[journalPath]
	for n := range len(whole) + 1 {
		at := 0
		for at+1 < len(ends) && ends[at+1] <= int64(n) {
			at++
		}
		for _, tail := range []string{"", "\xff\xff\xff\xff\xff\xff\xff\xff\xff", string(make([]byte, 64))} {
			if tail != "" && n < len("tonnage journal 1\n") {
				continue
			}
			torn := disktest.New()
			torn.Put(journalPath, append(whole[:n:n], tail...))
			j := openOn(t, torn, folder, slog.DiscardHandler)
			if got := contents(j); !maps.Equal(got, states[at]) {
				t.Fatalf("cut at %d of %d: got %v, want %v", n, len(whole), got, states[at])
			}
			if n%16 != 0 {
				continue
			}
			durable(t, j, j.Set("more", []byte("x")))
			if got := contents(openOn(t, torn, folder, slog.DiscardHandler)); got["more"] != "x" || len(got) != len(states[at])+1 {
				t.Fatalf("cut at %d and written on: got %v", n, got)
			}
		}
	}
}

// TestTheFileStaysSmall: changes without end do not make it grow without end,
// and nothing is lost when it is written anew.
func TestTheFileStaysSmall(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	want := map[string]string{}
	var last uint64
	for range 100_000 {
		key := fmt.Sprint("machine-", rng.IntN(2000))
		value := make([]byte, rng.IntN(100))
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		if p := j.Set(key, value); p != 0 {
			last = p
		}
		if len(value) == 0 {
			delete(want, key)
		} else {
			want[key] = string(value)
		}
	}
	durable(t, j, last)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 6<<20 {
		t.Errorf("the file has %d bytes for %d small values", info.Size(), len(want))
	}
	if got := contents(open(t, dir)); !maps.Equal(got, want) {
		t.Errorf("seed %d: %d entries, want %d", seed, len(got), len(want))
	}
}

// TestNoJournalIsKeptAside: the shard starts all the same.
func TestNoJournalIsKeptAside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal"), []byte("something of somebody else's"), 0o644); err != nil {
		t.Fatal(err)
	}
	j := open(t, dir)
	durable(t, j, j.Set("a", []byte("1")))
	if _, err := os.Stat(filepath.Join(dir, "journal.damaged-1")); err != nil {
		t.Error(err)
	}
	if got := contents(open(t, dir)); got["a"] != "1" {
		t.Errorf("got %v", got)
	}
}

// TestDiskThatFails: Durable says so, the map stays right, and all of it is
// written once the disk is well again.
func TestDiskThatFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, dir)
		durable(t, j, j.Set("a", []byte("1")))
		journal.Break(j)
		position := j.Set("b", []byte("2"))
		if err := j.Durable(t.Context(), position); err == nil {
			t.Fatal("a write that failed is durable")
		}
		j.Set("c", []byte("3"))
		j.Set("a", nil)
		if j.Failed() == nil {
			t.Fatal("the failure is not told")
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if err := j.Failed(); err != nil {
			t.Fatal("it is not tried again:", err)
		}
		durable(t, j, position)
		durable(t, j, j.Set("d", []byte("4")))
	})
	want := map[string]string{"b": "2", "c": "3", "d": "4"}
	if got := contents(open(t, dir)); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("tonnage journal 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := disktest.New()
		fs.Put(journalPath, b)
		j := openOn(t, fs, folder, slog.DiscardHandler)
		durable(t, j, j.Set("a", []byte("what no fuzzer writes")))
		before, damaged := contents(j), j.Damaged()
		j.Close()
		again := openOn(t, fs, folder, slog.DiscardHandler)
		if got := contents(again); !maps.Equal(got, before) {
			t.Errorf("got %v, want %v", got, before)
		}
		if again.Damaged() != damaged {
			t.Errorf("%d files are aside, were %d: what was mended is damaged again", again.Damaged(), damaged)
		}
	})
}
