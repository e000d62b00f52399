package worst

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const worstMillis = int64(time.Millisecond)

// keeper keeps what the test writes, without a recorder.
func keeper(t *testing.T, dir string, write func(io.Writer) (int64, error)) (w *Cycles, log *strings.Builder) {
	t.Helper()
	log = &strings.Builder{}
	w, err := New(dir, 100*time.Millisecond, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.write = write
	return w, log
}

func writeText(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "trace")
	return int64(n), err
}

// tookAll tells of cycles and waits for each to be written.
func (w *Cycles) tookAll(millis ...int64) {
	for i, ms := range millis {
		w.Took(uint64(i+1), 0, ms*worstMillis)
		w.writing.Wait()
	}
}

// files lists a folder as "milliseconds", slowest last.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if m := fileName.FindStringSubmatch(e.Name()); m != nil && m[2] == "" {
			out = append(out, strings.TrimLeft(strings.TrimSuffix(m[1], "000"), "0"))
		} else {
			out = append(out, e.Name())
		}
	}
	return strings.Join(out, " ")
}

func TestWorstCyclesAreKept(t *testing.T) {
	for _, c := range []struct {
		says   string
		millis []int64
		want   string
	}{
		{"none is slow", []int64{0, 1, 99}, ""},
		{"from the limit on", []int64{100, 250}, "100 250"},
		{"the least bad gives way", []int64{500, 100, 200, 300, 400, 600, 700, 800, 900, 250}, "250 300 400 500 600 700 800 900"},
		{"one that is not worse is not written", []int64{201, 202, 203, 204, 205, 206, 207, 208, 150, 201}, "201 202 203 204 205 206 207 208"},
		{"ever worse", []int64{101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111}, "104 105 106 107 108 109 110 111"},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			w, log := keeper(t, dir, writeText)
			w.tookAll(c.millis...)
			if got := files(t, dir); got != c.want {
				t.Errorf("kept %s, want %s\n%s", got, c.want, log)
			}
		})
	}
}

// TestWorstCyclesOfEarlierProcesses: what is there counts, what was left half
// written goes, what is not ours stays.
func TestWorstCyclesOfEarlierProcesses(t *testing.T) {
	dir := t.TempDir()
	for i := range Kept + 4 {
		put(t, dir, nameOf(7, 0, int64(200+i)*worstMillis))
	}
	put(t, dir, nameOf(8, 0, 999*worstMillis)+".new")
	put(t, dir, "notes.txt")
	w, _ := keeper(t, dir, writeText)
	if got, want := files(t, dir), "204 205 206 207 208 209 210 211 notes.txt"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	w.tookAll(150, 300)
	if got, want := files(t, dir), "205 206 207 208 209 210 211 300 notes.txt"; got != want {
		t.Errorf("kept %s, want %s", got, want)
	}
}

func put(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWorstCyclesThatCannotBeWritten leave nothing behind, and the next one is
// written.
func TestWorstCyclesThatCannotBeWritten(t *testing.T) {
	for says, fail := range map[string]func(io.Writer) (int64, error){
		"an error": func(io.Writer) (int64, error) { return 0, errors.New("no memory") },
		"too much": func(w io.Writer) (int64, error) {
			chunk := make([]byte, 1<<20)
			for range BytesMax>>20 + 1 {
				if _, err := w.Write(chunk); err != nil {
					return 0, err
				}
			}
			return 0, nil
		},
	} {
		t.Run(says, func(t *testing.T) {
			dir := t.TempDir()
			w, log := keeper(t, dir, fail)
			w.tookAll(300)
			if got := files(t, dir); got != "" || !strings.Contains(log.String(), "is not kept") {
				t.Errorf("kept %s, and says %s", got, log)
			}
			w.write = writeText
			w.tookAll(200)
			if got := files(t, dir); got != "200" {
				t.Errorf("kept %s", got)
			}
		})
	}
}

// TestWorstCyclesAreWrittenOneAtATime: a slow disk holds up no cycle.
func TestWorstCyclesAreWrittenOneAtATime(t *testing.T) {
	dir, open := t.TempDir(), make(chan struct{})
	w, _ := keeper(t, dir, func(to io.Writer) (int64, error) {
		<-open
		return writeText(to)
	})
	for i := range 5 {
		w.Took(uint64(i), 0, int64(200+i)*worstMillis)
	}
	close(open)
	w.writing.Wait()
	if got := files(t, dir); got != "200" {
		t.Errorf("kept %s", got)
	}
}

func TestNoWorstCycles(t *testing.T) {
	var none *Cycles
	none.Took(1, 0, 1e12)
	none.Record()()
	file := filepath.Join(t.TempDir(), "file")
	put(t, filepath.Dir(file), "file")
	if _, err := New(file, 1, slog.Default()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file for a folder: %v", err)
	}
}

func TestNamesOfWorstCycles(t *testing.T) {
	for _, nanos := range []int64{0, 1e6, 1e15} {
		if name := nameOf(42, 1e18, nanos); !fileName.MatchString(name) {
			t.Errorf("%s is not taken for one of ours", name)
		}
	}
	if got, want := nameOf(42, 1e18, 123_456_789), fmt.Sprintf("cycle-%012dus-20010909T014640Z-42.trace", 123_456); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
