package world

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryFaultHasOneLine: each file of a corpus has one fault, said in one line with its place, what
// is wrong and what would be right.
func TestEveryFaultHasOneLine(t *testing.T) {
	dir := filepath.Join("testdata", "faulty")
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(dir, "lines.txt")
	files = slices.DeleteFunc(files, func(name string) bool { return name == golden })
	if len(files) < 60 {
		t.Errorf("only %d files", len(files))
	}
	var lines []string
	for _, path := range files {
		name := filepath.Base(path)
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Read(in)
		in.Close()
		faults, ok := errors.AsType[*Faults](err)
		if !ok {
			t.Errorf("%s: %v, want a fault", name, err)
			continue
		}
		faults.File = name
		line := faults.Error()
		if len(faults.List) != 1 || strings.Count(line, "\n") != 0 {
			t.Errorf("%s has several faults:\n%s", name, line)
		}
		if at := faults.List[0]; at.Line == 0 && name != "empty.yaml" && name != "utf8.yaml" {
			t.Errorf("%s: no line: %s", name, line)
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		if i < len(lines) && lines[i] != line {
			t.Errorf("got  %s\nwant %s", lines[i], line)
		}
	}
	if text != string(want) {
		t.Error("the lines differ; after a look at them: go test ./internal/world -run EveryFault -update")
	}
}
