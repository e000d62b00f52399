package docs

import (
	"io/fs"
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

// pages returns the README, the list of changes and every page below docs, by path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Clean(name)] = string(text)
	}
	read(filepath.Join(root, "README.md"))
	read(filepath.Join(root, "CHANGELOG.md"))
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			read(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("found %d pages only", len(out))
	}
	return out
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
	shownPartsAreReal(t, binary)
}

// shownPartsAreReal runs every command of which pages show a part of the output.
func shownPartsAreReal(t *testing.T, binary string) {
	t.Helper()
	printed := map[string]string{} // by command: pages may show different lines of one
	for name, text := range pages(t) {
		for _, m := range shownPart.FindAllStringSubmatch(text, -1) {
			out, known := printed[m[1]]
			if !known {
				cmd := exec.Command(binary, strings.Fields(m[1])...)
				cmd.Dir = t.TempDir() // it may leave a folder of data behind
				text, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: tonnage %s: %v", name, m[1], err)
				}
				out = string(text)
				printed[m[1]] = out
			}
			if line := missingLine(m[2], out); line != "" {
				t.Errorf("%s: tonnage %s prints\n%s\nthe page shows, after what is before it,\n%s", name, m[1], out, line)
			}
		}
	}
}

// shownPart is a command whose output differs from run to run in its numbers, and lines that
// are among what it prints.
var shownPart = regexp.MustCompile("(?s)<!-- lines of: tonnage ([^\n]*?) -->\n```\n(.*?)```\n")

// missingLine returns the first line that is not among the printed ones, in their order; numbers
// may differ.
func missingLine(shown, printed string) string {
	number := regexp.MustCompile(`[0-9]+`)
	rest := strings.Split(number.ReplaceAllString(lines(printed), "0"), "\n")
	for _, line := range strings.Split(lines(shown), "\n") {
		at := slices.Index(rest, number.ReplaceAllString(line, "0"))
		if at < 0 {
			return line
		}
		rest = rest[at+1:]
	}
	return ""
}

func TestMissingLine(t *testing.T) {
	printed := "a 1\nb 22\nc\n"
	for shown, want := range map[string]string{"a 7\nc": "", "b 1": "", "c\na 1": "a 1", "d": "d"} {
		if got := missingLine(shown, printed); got != want {
			t.Errorf("of %q %q is missing, want %q", shown, got, want)
		}
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

// TestKeysOfFilesAreListed: the pages about files have every key that readers of files know.
func TestKeysOfFilesAreListed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "internal", "world", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	page := pages(t)[filepath.Join(root, filepath.FromSlash("docs/reference/files.md"))] + pages(t)[filepath.Join(root, filepath.FromSlash("docs/reference/world.md"))]
	count := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range names(regexp.MustCompile(`document\.Field\[[^\]]*\]\{Key: "([^"]+)"`), string(text)) {
			count++
			if !regexp.MustCompile("[`.{ ]" + key + "[`.,}:]").MatchString(page) {
				t.Errorf("%s reads %q, which the page does not have", filepath.Base(name), key)
			}
		}
	}
	if count < 50 {
		t.Errorf("found %d keys only", count)
	}
}

// shownFile is a block of a page with the text of a file below docs.
var shownFile = regexp.MustCompile("(?s)<!-- file: ([^\n]*?) -->\n```[a-z]*\n(.*?)```\n")

// TestShownFilesAreReal: a file that a page shows is the file that its commands read.
func TestShownFilesAreReal(t *testing.T) {
	for name, page := range pages(t) {
		for _, m := range shownFile.FindAllStringSubmatch(page, -1) {
			text, err := os.ReadFile(filepath.Join(root, "docs", m[1]))
			if err != nil || string(text) != m[2] {
				t.Errorf("%s shows %s otherwise than it is (%v)", name, m[1], err)
			}
		}
	}
}
