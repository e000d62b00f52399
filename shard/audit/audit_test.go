package audit_test

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/tonnage/tonnage/shard/audit"
)

type record struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func open(t *testing.T, path string, limit int64) *audit.Log[record] {
	t.Helper()
	l, err := audit.Open[record](path, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// numbers reads the records of a file.
func numbers(t *testing.T, path string) (out []int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v: %s", path, err, lines.Text())
		}
		out = append(out, r.N)
	}
	return out
}

func TestRecordsAreLinesInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for half := range 2 {
		l := open(t, path, 0)
		for i := range 500 {
			l.Write(&record{N: half*500 + i, Text: "two\nlines"})
		}
		if err := l.Close(); err != nil || l.Dropped() != 0 {
			t.Fatal(err, l.Dropped())
		}
	}
	got := numbers(t, path)
	if len(got) != 1000 {
		t.Fatalf("%d records", len(got))
	}
	for i, n := range got {
		if i != n {
			t.Fatalf("record %d is number %d", i, n)
		}
	}
}

// TestFilesAreBounded: full ones are renamed, the oldest go, and no line is torn.
func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	l := open(t, path, 1000)
	const n = 2000
	for i := range n {
		l.Write(&record{N: i})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != audit.FilesKept+1 {
		t.Errorf("%d files, want %d", len(files), audit.FilesKept+1)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %d bytes", f.Name(), err, info.Size())
		}
	}
	next := n
	for i := range audit.FilesKept + 1 {
		name := path
		if i > 0 {
			name += "." + string(rune('0'+i))
		}
		got := numbers(t, name)
		if len(got) == 0 || got[len(got)-1] != next-1 {
			t.Fatalf("%s ends with %v, want %d", name, got, next-1)
		}
		next = got[0]
	}
}

// TestWriteNeverWaits: what there is no room for is counted, and a log that
// cannot be written is written again when it can.
func TestWriteNeverWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.jsonl")
	l := open(t, path, 100)
	if err := os.Rename(dir, dir+"-away"); err != nil { // full files cannot be renamed
		t.Fatal(err)
	}
	for i := range 3 * audit.QueueMax {
		l.Write(&record{N: i})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l.Dropped() == 0 {
		t.Error("nothing is lost, though nothing could be written")
	}
	lost := l.Dropped()
	l.Write(&record{})
	if l.Dropped() != lost+1 {
		t.Error("a record after the end is not counted")
	}
}

// TestANewFileHasTheModeOfTheOneBefore: so that a log shipper of the group can go
// on reading.
func TestANewFileHasTheModeOfTheOneBefore(t *testing.T) {
	for was, want := range map[os.FileMode]os.FileMode{0o640: 0o640, 0o644: 0o600} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, nil, was); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, was); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		l, err := audit.Open[string](path, 1, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range []string{"one", "two"} {
			l.Write(&record)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + ".1"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s of a log of mode %o has mode %o, want %o", filepath.Base(name), was, got, want)
			}
		}
	}
}
