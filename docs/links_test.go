package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)

// TestLinksLeadSomewhere: every link to a file of this repository, and to a heading of a page.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if page, ok := all[target]; ok && m[2] != "" && !slices.Contains(anchors(page), m[2]) {
				t.Errorf("%s: %s has no heading #%s", name, target, m[2])
			}
		}
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchors returns the names by which links reach the headings of a page.
func anchors(page string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		out = append(out, strings.Map(func(r rune) rune {
			switch r = unicode.ToLower(r); {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return r
			}
			return -1
		}, m[1]))
	}
	return out
}

func TestAnchors(t *testing.T) {
	page := "# The page\n\n```\n# no heading\n```\n\n### 5.4 `tonnage up`, slow_ly\n"
	if got, want := anchors(page), []string{"the-page", "54-tonnage-up-slow_ly"}; !slices.Equal(got, want) {
		t.Errorf("anchors are %q, want %q", got, want)
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

// TestPagesAreListed: the map of the documentation has every page but the decisions, which have a
// list of their own.
func TestPagesAreListed(t *testing.T) {
	docs := filepath.Join(root, "docs")
	all := pages(t)
	index := all[filepath.Join(docs, "README.md")]
	for name := range all {
		path, err := filepath.Rel(docs, name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "..") || strings.HasPrefix(path, "decisions") || path == "README.md" {
			continue
		}
		if !strings.Contains(index, "("+filepath.ToSlash(path)+")") {
			t.Errorf("%s is not in the map, docs/README.md", path)
		}
	}
}

var (
	citation = regexp.MustCompile(`[A-Za-z0-9_./:*-]*[A-Za-z0-9_-]\.md\b`)
	linked   = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)
)

// foreign returns what a text cites that a reader cannot find: pages that do not exist, and
// sections by a number without a link to them.
func foreign(text string, exists func(page string) bool) (out []string) {
	for _, page := range citation.FindAllString(text, -1) {
		if !strings.Contains(page, "://") && !strings.Contains(page, "*") && !exists(page) {
			out = append(out, page)
		}
	}
	if strings.Contains(linked.ReplaceAllString(text, ""), "§") {
		out = append(out, "§ without a link")
	}
	return out
}

func TestForeign(t *testing.T) {
	exists := func(page string) bool { return page == "docs/testing.md" || page == "../testing.md" }
	for text, want := range map[string][]string{
		"see `engine.md` and docs/testing.md":                {"engine.md"},
		"see [the twin](../testing.md#the-slow-twin), a.mdx": nil,
		"https://example.org/page.md, docs/*.md":             nil,
		"the contract (§5)":                                  {"§ without a link"},
		"[the contract, §5](../testing.md)":                  nil,
	} {
		if got := foreign(text, exists); !slices.Equal(got, want) {
			t.Errorf("%q cites %q, want %q", text, got, want)
		}
	}
}

// TestPagesCitedExist: no page, comment or script of the project cites a page that is not in it.
func TestPagesCitedExist(t *testing.T) {
	list := exec.Command("git", "ls-files", "-co", "--exclude-standard", "--", "*.md", "*.go", "*.proto", "*.yaml", "*.js", "*.html", "*.css", "*.tpl", "Makefile", "tools/*")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skip("needs a checkout: ", err)
	}
	for _, name := range strings.Fields(string(names)) {
		if name == "docs/links_test.go" {
			continue // its examples are wrong
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, and not committed yet
		}
		exists := func(page string) bool {
			for _, from := range []string{".", filepath.Dir(name)} {
				if _, err := os.Stat(filepath.Join(root, from, page)); err == nil {
					return true
				}
			}
			return false
		}
		for _, what := range foreign(string(text), exists) {
			t.Errorf("%s cites %s, which is not in this repository", name, what)
		}
	}
}
