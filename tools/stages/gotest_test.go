package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with tests into a folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGoTestIsShown runs a real go test with one of each outcome.
func TestGoTestIsShown(t *testing.T) {
	dir := module(t, map[string]string{
		"none/none.go": "package none\n",
		"good/good_test.go": `package good
import "testing"
func TestA(t *testing.T) { t.Run("sub", func(*testing.T) {}); t.Log("quiet when it passes") }
func TestB(t *testing.T) { t.Skip("needs the moon: twice") }
`,
		"bad/bad_test.go": `package bad
import "testing"
func TestC(t *testing.T) { t.Error("seven is not eight") }
func TestD(*testing.T) {}
`,
		"dead/dead_test.go": `package dead
import ("fmt"; "os"; "testing")
func TestE(*testing.T) { fmt.Println("last words"); os.Exit(3) }
`,
		"broken/broken_test.go": "package broken\nimport \"testing\"\nfunc TestF(*testing.T) { undefinedName() }\n",
	})
	var out bytes.Buffer
	err := goTest(t.Context(), dir, newPrinter(&out), []string{"-vet=off", "./..."})
	if err == nil || !strings.Contains(err.Error(), "3 packages failed") {
		t.Errorf("error %v, want 3 packages failed", err)
	}
	text := out.String()
	for _, want := range []string{
		"ok  \texample.com/m/good\t", "?   \texample.com/m/none\t[no test files]",
		"seven is not eight", "--- FAIL: TestC", "FAIL\texample.com/m/bad\t",
		"last words", "FAIL\texample.com/m/dead\t", "undefinedName", "FAIL\texample.com/m/broken [build failed]",
		"skipped 1: needs the moon: twice\n", "slowest packages: ",
		"1 packages passed, 3 failed, 1 have no tests; 2 tests and 1 subtests passed, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output has no %q:\n%s", want, text)
		}
	}
	_, end, _ := strings.Cut(text, "what failed, once more:\n")
	for _, want := range []string{"example.com/m/bad\n", "seven is not eight", "last words", "FAIL\texample.com/m/dead\t", "undefinedName"} {
		if !strings.Contains(end, want) {
			t.Errorf("the end of the output has no %q:\n%s", want, end)
		}
	}
	if strings.Contains(text, "=== RUN") {
		t.Errorf("lines that go test prints with -v only are shown:\n%s", text)
	}
	if strings.Contains(text, "quiet when it passes") {
		t.Errorf("the output of a test that passed is shown:\n%s", text)
	}
}

func TestProgressSaysWhatRuns(t *testing.T) {
	tl := newTally(&bytes.Buffer{}, 77)
	tl.line([]byte(`{"Action":"start","Package":"github.com/tonnage/tonnage/engine"}`))
	tl.line([]byte(`{"Action":"start","Package":"github.com/tonnage/tonnage/shard"}`))
	tl.line([]byte(`{"Action":"pass","Package":"github.com/tonnage/tonnage/shard","Elapsed":1.5}`))
	if got, want := tl.progress("compile net/http"), "    0 s, 1 of 77 packages done, testing engine; running compile net/http"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLinesThatAreNoEventsAreShown(t *testing.T) {
	var out bytes.Buffer
	newTally(&out, 1).line([]byte("go: updates to go.mod needed"))
	if got := out.String(); got != "go: updates to go.mod needed\n" {
		t.Errorf("%q", got)
	}
}
