package epoch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tonnage/tonnage/shard/provider/epoch"
)

func open(t *testing.T, dir string) *epoch.File {
	t.Helper()
	f, err := epoch.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "epoch"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "epoch"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryStartHasTheNextEpoch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	for want := int64(1); want < 5; want++ {
		f := open(t, dir)
		if f.Epoch() != want {
			t.Errorf("epoch %d, want %d", f.Epoch(), want)
		}
		for seq := int64(1); seq < 4; seq++ {
			if tok := f.Next(); tok != (epoch.Token{Epoch: want, Sequence: seq}) {
				t.Errorf("got %+v, want epoch %d, sequence %d", tok, want, seq)
			}
		}
		f.Close()
	}
	if got := read(t, dir); got != "4" {
		t.Errorf("the file holds %q", got)
	}
}

// TestACutOffWriteIsNotSeen: what a process left behind that died while it
// wrote does not count.
func TestACutOffWriteIsNotSeen(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "7\n")
	if err := os.WriteFile(filepath.Join(dir, "epoch.tmp"), []byte("garb"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f := open(t, dir); f.Epoch() != 8 {
		t.Errorf("epoch %d, want 8", f.Epoch())
	}
}

func TestWhatIsNoEpochIsRefused(t *testing.T) {
	for _, text := range []string{"", " ", "seven", "7 8", "-1", "0x7", "1.5", "9223372036854775807", "99999999999999999999"} {
		dir := t.TempDir()
		write(t, dir, text)
		_, err := epoch.Open(dir)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "epoch")) {
			t.Errorf("%q: got %v", text, err)
		}
		if got := read(t, dir); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestOneProcessAFolder(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if _, err := epoch.Open(dir); !errors.Is(err, epoch.ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	if read(t, dir) != "1" {
		t.Error("the second one took an epoch all the same")
	}
	first.Close()
	if again := open(t, dir); again.Epoch() != 2 {
		t.Errorf("epoch %d, want 2", again.Epoch())
	}
}

func TestRereadFollowsTheAdministrator(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	f.Next()
	for _, c := range []struct {
		text string
		want int64
		take bool
	}{{"1", 1, false}, {"0", 1, false}, {"41", 42, true}, {"42", 42, false}, {"7", 42, false}} {
		write(t, dir, c.text)
		took, err := f.Reread()
		if err != nil || took != c.take || f.Epoch() != c.want {
			t.Errorf("file %q: %v, %v, epoch %d; want %v, epoch %d", c.text, took, err, f.Epoch(), c.take, c.want)
		}
	}
	write(t, dir, "?")
	if took, err := f.Reread(); err == nil || took || f.Epoch() != 42 {
		t.Errorf("garbage: %v, %v, epoch %d", took, err, f.Epoch())
	}
	if tok := f.Next(); tok.Epoch != 42 {
		t.Errorf("token of epoch %d", tok.Epoch)
	}
}

func TestTokensAreNeverRepeated(t *testing.T) {
	f := open(t, t.TempDir())
	const each, of = 200, 8
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[epoch.Token]bool{}
	for range of {
		all.Go(func() {
			last := int64(0)
			for range each {
				tok := f.Next()
				if tok.Sequence <= last {
					t.Errorf("sequence %d after %d", tok.Sequence, last)
				}
				last = tok.Sequence
				mu.Lock()
				seen[tok] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != each*of {
		t.Errorf("%d tokens, want %d", len(seen), each*of)
	}
}
