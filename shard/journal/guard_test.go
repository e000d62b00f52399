package journal_test

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/internal/disk/disktest"
	"github.com/tonnage/tonnage/shard/journal"
)

const domainsPath, copyPath = folder + "/domains", folder + "/domains.copy"

// copied returns a file system with the same files, but for those that change
// gives another content; nil = the file is not there.
func copied(fs *disktest.FS, change map[string][]byte) *disktest.FS {
	out := disktest.New()
	for path, content := range fs.Files() {
		if _, other := change[path]; !other {
			out.Put(path, content)
		}
	}
	for path, content := range change {
		if content != nil {
			out.Put(path, content)
		}
	}
	return out
}

// TestOneCopyMendsTheOther: damaged, missing or older; nothing is lost, and both say
// the same afterwards.
func TestOneCopyMendsTheOther(t *testing.T) {
	fs, want := written(t)
	files := fs.Files()
	old := disktest.New()
	openOn(t, old, folder, slog.DiscardHandler).Close()
	for name, content := range map[string][]byte{
		"damaged": []byte("not what was written"), "empty": {}, "missing": nil, "older": old.Files()[domainsPath],
		"cut": files[domainsPath][:len(files[domainsPath])-1],
	} {
		for _, path := range []string{domainsPath, copyPath} {
			fs := copied(fs, map[string][]byte{path: content})
			j := openOn(t, fs, folder, slog.DiscardHandler)
			if got := contents(j); !maps.Equal(got, want) || j.Knowledge() != journal.Known {
				t.Errorf("%s %s: got %v, knowledge %d", path, name, got, j.Knowledge())
			}
			j.Close()
			if got := fs.Files(); string(got[domainsPath]) != string(got[copyPath]) {
				t.Errorf("%s %s: the copies differ", path, name)
			}
		}
	}
}

// TestLostIsNotNone: when nothing says for sure what the guarded keys are, that is
// kept until they are confirmed.
func TestLostIsNotNone(t *testing.T) {
	fs, want := written(t)
	whole := fs.Files()[journalPath]
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 1
	bad := []byte("damaged")
	for name, c := range map[string]struct {
		change    map[string][]byte
		restarted bool
		want      journal.Knowledge
	}{
		"all there":                        {nil, true, journal.Known},
		"a first start":                    {map[string][]byte{journalPath: nil, domainsPath: nil, copyPath: nil}, false, journal.Unset},
		"nothing there, but an epoch":      {map[string][]byte{journalPath: nil, domainsPath: nil, copyPath: nil}, true, journal.Lost},
		"only the journal is lost":         {map[string][]byte{journalPath: nil}, true, journal.Known},
		"only the copies are lost":         {map[string][]byte{domainsPath: nil, copyPath: nil}, true, journal.Known},
		"both copies damaged":              {map[string][]byte{domainsPath: bad, copyPath: bad}, true, journal.Lost},
		"journal damaged":                  {map[string][]byte{journalPath: flipped}, true, journal.Known},
		"journal damaged, no copies":       {map[string][]byte{journalPath: flipped, domainsPath: nil, copyPath: nil}, true, journal.Lost},
		"all damaged":                      {map[string][]byte{journalPath: bad, domainsPath: bad, copyPath: bad}, true, journal.Lost},
		"journal is emptied and no copies": {map[string][]byte{journalPath: {}, domainsPath: nil, copyPath: nil}, true, journal.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			fs := copied(fs, c.change)
			opened := func() *journal.Journal {
				j, err := journal.Open(folder, journal.Options{FS: fs, Log: slog.New(slog.DiscardHandler), Guard: journal.Guard{Prefix: "d", File: "domains"}, Restarted: c.restarted})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { j.Close() })
				return j
			}
			j := opened()
			if j.Knowledge() != c.want {
				t.Fatalf("knowledge %d, want %d", j.Knowledge(), c.want)
			}
			if c.want == journal.Known && !maps.Equal(some(contents(j), true), some(want, true)) {
				t.Errorf("got %v", contents(j))
			}
			durable(t, j, j.Set("dzone-new", []byte{1}))
			j.Close()
			if c.want != journal.Lost {
				return
			}
			j = opened()
			if j.Knowledge() != journal.Lost {
				t.Fatalf("knowledge %d after another start", j.Knowledge())
			}
			j.Confirm(true)
			if j.Knowledge() != journal.Known {
				t.Fatalf("knowledge %d once confirmed", j.Knowledge())
			}
			j.Close()
			if j = opened(); j.Knowledge() != journal.Known {
				t.Fatalf("knowledge %d after a start since", j.Knowledge())
			}
		})
	}
}

// TestNoneIsKept: that the last guarded key went is not that there never was one.
func TestNoneIsKept(t *testing.T) {
	fs := disktest.New()
	j := openOn(t, fs, folder, slog.DiscardHandler)
	if j.Knowledge() != journal.Unset {
		t.Errorf("knowledge %d at first", j.Knowledge())
	}
	durable(t, j, j.Set("dzone", []byte{1}))
	durable(t, j, j.Set("dzone", nil))
	j.Close()
	if j := openOn(t, fs, folder, slog.DiscardHandler); j.Knowledge() != journal.Known || len(contents(j)) > 0 {
		t.Errorf("knowledge %d, %v", j.Knowledge(), contents(j))
	}
}

// TestFewDamagedFilesAreKept: however often a file is damaged.
func TestFewDamagedFilesAreKept(t *testing.T) {
	fs := disktest.New()
	for i := range 3 * journal.AsideMax {
		fs = copied(fs, map[string][]byte{journalPath: fmt.Appendf(nil, "damaged for the time no. %d", i)})
		openOn(t, fs, folder, slog.DiscardHandler).Close()
	}
	last := fmt.Sprintf("%s.damaged-%d", journalPath, 3*journal.AsideMax)
	kept := 0
	for path := range fs.Files() {
		if strings.Contains(path, ".damaged-") {
			kept++
		}
	}
	if kept != journal.AsideMax || string(fs.Files()[last]) != fmt.Sprintf("damaged for the time no. %d", 3*journal.AsideMax-1) {
		t.Errorf("%d damaged files, the last is %q", kept, fs.Files()[last])
	}
}

// TestConfirmOnAFullDisk: it is written down once there is room.
func TestConfirmOnAFullDisk(t *testing.T) {
	base, _ := written(t)
	fs := copied(base, map[string][]byte{domainsPath: []byte("?"), copyPath: []byte("?")})
	synctest.Test(t, func(t *testing.T) {
		j := openOn(t, fs, folder, slog.DiscardHandler)
		fs.SetFull(true)
		j.Confirm(true)
		synctest.Wait()
		if j.Failed() == nil {
			t.Error("the failure is not told")
		}
		fs.SetFull(false)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if err := j.Failed(); err != nil {
			t.Error(err)
		}
		j.Close()
	})
	if j := openOn(t, fs, folder, slog.DiscardHandler); j.Knowledge() != journal.Known {
		t.Errorf("knowledge %d", j.Knowledge())
	}
}

// TestLostStaysLost: what was set since, by this version or by version 0.1.0, does not
// make the keys known.
func TestLostStaysLost(t *testing.T) {
	base, _ := written(t)
	fs := copied(base, map[string][]byte{domainsPath: []byte("?"), copyPath: []byte("?")})
	j := openOn(t, fs, folder, slog.DiscardHandler)
	before := fs.Files()
	durable(t, j, j.Set("dzone-new", []byte{1}))
	j.Close()
	after := fs.Files()[journalPath]
	for name, content := range map[string][]byte{
		"killed before the copies were written": after[:len(after)-int(journal.CommitBytes)],
		"version 0.1.0 was here":                appendV010(before[journalPath], "dzone-new", "\x01"),
	} {
		fs := copied(fs, map[string][]byte{journalPath: content, domainsPath: before[domainsPath], copyPath: before[copyPath]})
		j := openOn(t, fs, folder, slog.DiscardHandler)
		if _, there := contents(j)["dzone-new"]; !there || j.Knowledge() != journal.Lost {
			t.Errorf("%s: %v, knowledge %d", name, contents(j), j.Knowledge())
		}
	}
}
