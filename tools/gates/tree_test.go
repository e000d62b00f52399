package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// repository makes one with a change for each file given, in that order.
func repository(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	must := func(args ...string) {
		if _, err := git(t.Context(), root, append([]string{"-c", "user.name=n", "-c", "user.email=e@x"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	must("init", "-q", "-b", "main")
	for i, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		must("add", ".")
		must("commit", "-q", "-m", "change "+strconv.Itoa(i), "-m", "Slower: work"+strconv.Itoa(i)+", why")
	}
	return root
}

func revision(t *testing.T, root, of string) string {
	t.Helper()
	rev, err := git(t.Context(), root, "rev-parse", "--short", of)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestBaseOfTheMainBranch(t *testing.T) {
	root := repository(t, "a", pinnedFile, "b", "c")
	var built []string
	base, err := baseTree(t.Context(), root, "", func(at tree) error {
		built = append(built, at.revision)
		if len(built) == 1 {
			return errors.New("broken")
		}
		return nil
	})
	want := []string{revision(t, root, "HEAD~2"), revision(t, root, "HEAD~1")}
	if err != nil || !slices.Equal(built, want) || base.revision != want[1] {
		t.Errorf("built %v and chose %s, want %v: %v", built, base.revision, want, err)
	}
	if _, err := os.Stat(filepath.Join(base.dir, "b")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(base.dir, "c")); err == nil {
		t.Error("the base holds a file of a later change")
	}
}

func TestBaseOfABranch(t *testing.T) {
	root := repository(t, pinnedFile, "a", "b")
	fork := revision(t, root, "HEAD~1")
	for _, args := range [][]string{{"checkout", "-q", "-b", "side", fork}, {"-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "x"}} {
		if _, err := git(t.Context(), root, args...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := candidates(t.Context(), root, ""); err != nil || !slices.Equal(got, []string{fork}) {
		t.Errorf("got %v, %v, want the merge base %s", got, err, fork)
	}
	if got, err := candidates(t.Context(), root, "HEAD~1"); err != nil || !slices.Equal(got, []string{revision(t, root, "HEAD~1")}) {
		t.Errorf("asked for: %v, %v", got, err)
	}
	if _, err := candidates(t.Context(), root, "nowhere"); err == nil {
		t.Error("a revision that is none is taken")
	}
}

func TestNothingToCompareWith(t *testing.T) {
	root := repository(t, "a", "b", pinnedFile)
	if _, err := baseTree(t.Context(), root, "", func(tree) error { return nil }); !errors.Is(err, errNoBase) {
		t.Errorf("got %v", err)
	}
}

func TestAcceptedSlowdowns(t *testing.T) {
	root := repository(t, "a", "b", "c")
	got, err := trailersSince(t.Context(), root, "HEAD~2")
	if err != nil || len(got.accepted) != 2 || got.accepted["work1"] != "why" || got.accepted["work2"] != "why" || got.commits != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(got.before) != 1 || got.before["work0"] != revision(t, root, "HEAD~2") || got.shallow {
		t.Errorf("before the base: %+v", got)
	}
}

// TestTrailersOfMergedBranches: a branch that was merged after the base counts with
// its commits, also those that are older than the base.
func TestTrailersOfMergedBranches(t *testing.T) {
	root := repository(t, "a", "b")
	as := []string{"-c", "user.name=n", "-c", "user.email=e@x"}
	for _, args := range [][]string{
		{"checkout", "-q", "-b", "side", "HEAD~1"},
		append(as, "commit", "-q", "--allow-empty", "-m", "on the branch", "-m", "Slower: branch, why"),
		{"checkout", "-q", "main"},
		append(as, "commit", "-q", "--allow-empty", "-m", "x"),
		append(as, "merge", "-q", "--no-ff", "-m", "merge", "side"),
	} {
		if _, err := git(t.Context(), root, args...); err != nil {
			t.Fatal(err)
		}
	}
	got, err := trailersSince(t.Context(), root, "HEAD~1")
	if err != nil || got.accepted["branch"] != "why" || got.commits != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTrailersOfAShallowClone(t *testing.T) {
	root, clone := repository(t, "a", "b", "c"), t.TempDir()
	if _, err := git(t.Context(), clone, "clone", "-q", "--depth", "2", "file://"+root, "."); err != nil {
		t.Fatal(err)
	}
	got, err := trailersSince(t.Context(), clone, "HEAD~1")
	if err != nil || !got.shallow || got.accepted["work2"] != "why" {
		t.Errorf("got %+v, %v", got, err)
	}
}
