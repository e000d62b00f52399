package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the README, from here.
const root = ".."

// pages returns the README and every page below docs, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md", "docs/how-to/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Clean(name)] = string(text)
		}
	}
	if len(out) < 10 {
		t.Fatalf("found %d pages only", len(out))
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// TestLinksLeadSomewhere: every link to a file of this repository.
func TestLinksLeadSomewhere(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			}
		}
	}
}

// TestDecisionsAreListed: a page that nothing leads to is not read.
func TestDecisionsAreListed(t *testing.T) {
	all := pages(t)
	index := all[filepath.Join(root, "docs", "decisions", "README.md")]
	for name := range all {
		if base := filepath.Base(name); filepath.Base(filepath.Dir(name)) == "decisions" && base != "README.md" && !strings.Contains(index, "("+base+")") {
			t.Errorf("%s is not in the list of decisions", base)
		}
	}
}

// shown is a command in a page, and the block with its output.
var shown = regexp.MustCompile("(?s)<!-- run: tonnage ([^\n]*?) -->\n```\n(.*?)```\n")

// withoutRace skips what builds the program and compares what it prints: under the race
// detector nothing else of it would be seen.
func withoutRace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program; make docs-check")
	}
}

// TestShownOutputIsRealOutput runs every command that a page shows the output
// of.
func TestShownOutputIsRealOutput(t *testing.T) {
	withoutRace(t)
	binary := filepath.Join(t.TempDir(), "tonnage")
	build := exec.Command("go", "build", "-o", binary, "./cmd/tonnage")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	count := 0
	for name, text := range pages(t) {
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			count++
			cmd := exec.Command(binary, strings.Fields(m[1])...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: tonnage %s: %v", name, m[1], err)
			}
			if lines(string(out)) != lines(m[2]) {
				t.Errorf("%s: tonnage %s prints\n%s\nthe page shows\n%s", name, m[1], out, m[2])
			}
		}
	}
	if count == 0 {
		t.Error("no page shows a command")
	}
}

// lines is a text without blanks at the ends of its lines.
func lines(text string) string {
	out := strings.Split(strings.TrimSpace(text), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return strings.Join(out, "\n")
}

// flagRow is a row of a table of flags, which may have several in its first cell.
var (
	flagRow  = regexp.MustCompile("(?m)^\\| (`--[^|]*) \\|")
	flagName = regexp.MustCompile("`--([a-z-]+)`")
)

// TestFlagsAreListed: the page lists the flags that there are, all of them and no
// others, but for those that make machines for trying out.
func TestFlagsAreListed(t *testing.T) {
	withoutRace(t)
	page := pages(t)[filepath.Join(root, "docs", "operating.md")]
	for command, heading := range map[string]string{"up": "## Starting `tonnage up`\n", "shard": "## `tonnage shard`\n"} {
		cmd := exec.Command("go", "run", "./cmd/tonnage", command, "--help")
		cmd.Dir = root
		help, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		have := names(regexp.MustCompile(`(?m)^ +(?:-[a-z], )? *--([a-z-]+)`), string(help))
		have = slices.DeleteFunc(have, func(s string) bool {
			return s == "help" || command == "shard" && (strings.HasPrefix(s, "seed-") || s == "failure-rate-per-sec")
		})
		_, section, found := strings.Cut(page, heading)
		if !found {
			t.Fatalf("the page has no %q", heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		var cells strings.Builder
		for _, m := range flagRow.FindAllStringSubmatch(section, -1) {
			cells.WriteString(m[1])
		}
		if listed := names(flagName, cells.String()); !slices.Equal(listed, have) {
			t.Errorf("the page lists %v\n%s has %v", listed, command, have)
		}
	}
}

// TestMetricsAreListed: the page lists the metrics of the shard and of what
// stands beside it, all of them and no others.
func TestMetricsAreListed(t *testing.T) {
	var files []string
	for _, pattern := range []string{"shard/metrics*.go", "shard/session/metrics.go", "internal/inbound/metrics.go", "shard/report/metrics.go", "shard/provider/client/metrics.go", "cmd/tonnage/shard_run.go"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	var text strings.Builder
	for _, name := range files {
		part, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			text.Write(part)
		}
	}
	have := names(regexp.MustCompile(`"((?:bigfleet|tonnage)_(?:shard|inbound)_[a-z0-9_]+)"`), text.String())
	page := names(regexp.MustCompile("(?m)^\\| `((?:bigfleet|tonnage)_[a-z0-9_]+)` \\|"), pages(t)[filepath.Join(root, "docs", "operating.md")])
	if !slices.Equal(page, have) {
		t.Errorf("the page lists %v\nthe shard has %v", page, have)
	}
}

// names are the first groups of all matches, sorted, each once.
func names(expr *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range expr.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
