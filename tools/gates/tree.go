package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// pinnedFile lists the work; a revision without it has nothing to compare.
	pinnedFile = "benches/gates_pinned_test.go"
	// baseEnv names the revision to compare with, for whoever knows the range
	// that was pushed.
	baseEnv = "BASE"
	// baseDepth is how far back the base lies at most where nothing better is
	// known: as many changes are judged together.
	baseDepth = 20
	// slowerTrailer, in a commit that head has and the base has not, accepts that
	// what it names has become slower:
	//
	//	Slower: kernel=put/rung=tiny, two more indexes are kept
	slowerTrailer = "Slower"
)

// tree is a checkout of the module that test binaries are built from.
type tree struct {
	dir      string
	revision string // short; empty for the working tree
}

func (t *tree) name() string {
	if t.revision == "" {
		return "the working tree"
	}
	return t.revision
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := output(ctx, root, nil, "git", args...)
	return strings.TrimSpace(out), err
}

// errNoBase says that there is nothing to compare with.
var errNoBase = errors.New("there is no earlier revision to compare with")

// candidates returns the revisions that may serve as base, best first: the one
// that was asked for; or the merge base with the main branch; or, where head is
// the main branch itself, the oldest of the last baseDepth changes.
func candidates(ctx context.Context, root, asked string) ([]string, error) {
	if asked != "" {
		rev, err := git(ctx, root, "rev-parse", "--verify", "--short", asked+"^{commit}")
		if err != nil {
			return nil, fmt.Errorf("%s=%s is no revision: %w", baseEnv, asked, err)
		}
		return []string{rev}, nil
	}
	head, err := git(ctx, root, "rev-parse", "--short", "HEAD")
	if err != nil {
		return nil, err
	}
	for _, branch := range []string{"origin/main", "main"} {
		full, err := git(ctx, root, "merge-base", "HEAD", branch)
		if err != nil {
			continue
		}
		if rev, err := git(ctx, root, "rev-parse", "--short", full); err == nil && rev != head {
			return []string{rev}, nil
		}
	}
	// Newest first; the working tree may hold more than HEAD does.
	list, err := git(ctx, root, "log", "--first-parent", "--format=%h", fmt.Sprintf("-%d", baseDepth+1), "HEAD")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, rev := range strings.Fields(list) {
		if rev != head {
			out = append([]string{rev}, out...)
		}
	}
	return out, nil
}

// baseTree lays out the base beside the checkout and builds its test binary:
// the best candidate that has the pinned work and builds.
func baseTree(ctx context.Context, root, asked string, build func(tree) error) (tree, error) {
	revs, err := candidates(ctx, root, asked)
	if err != nil {
		return tree{}, err
	}
	last := errNoBase
	for _, rev := range revs {
		if _, err := git(ctx, root, "cat-file", "-e", rev+":"+pinnedFile); err != nil {
			continue
		}
		t, err := layOut(ctx, root, rev)
		if err != nil {
			return tree{}, err
		}
		if err := build(t); err != nil {
			last = fmt.Errorf("%s cannot be the base: %w", rev, err)
			continue
		}
		return t, nil
	}
	return tree{}, last
}

// layOut writes the files of a revision under build/, in place of those of
// another.
func layOut(ctx context.Context, root, rev string) (tree, error) {
	t := tree{dir: filepath.Join(workDir(root), "base"), revision: rev}
	if err := os.RemoveAll(t.dir); err != nil {
		return t, err
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return t, err
	}
	archive := t.dir + ".tar"
	defer os.Remove(archive)
	if _, err := git(ctx, root, "archive", "--format=tar", "-o", archive, rev); err != nil {
		return t, err
	}
	_, err := output(ctx, t.dir, nil, "tar", "-xf", archive)
	return t, err
}

// workDir is where this command keeps what it builds.
func workDir(root string) string { return filepath.Join(root, "build", "gates") }

// trailers are what commits say has become slower on purpose, by the name of the
// work.
type trailers struct {
	accepted map[string]string // by commits after the base: reasons
	commits  int               // how many these are
	before   map[string]string // by commits before it, which do not count: the commit
	shallow  bool              // older commits are not in this checkout
}

// trailersSince reads the trailers of all commits that head has and the base has not,
// of merged branches too. A trailer counts in the commit that makes the work slower,
// or in a later one: a base that has the trailer has the slower work as well.
func trailersSince(ctx context.Context, root, base string) (trailers, error) {
	t := trailers{before: map[string]string{}}
	const format = "--format=%(trailers:key=" + slowerTrailer + ",valueonly,unfold)"
	out, err := git(ctx, root, "log", format, base+"..HEAD")
	if err != nil {
		return t, err
	}
	t.accepted = parseSlower(out)
	if out, err = git(ctx, root, "rev-list", "--count", base+"..HEAD"); err != nil {
		return t, err
	}
	if t.commits, err = strconv.Atoi(out); err != nil {
		return t, err
	}
	if out, err = git(ctx, root, "rev-parse", "--is-shallow-repository"); err != nil {
		return t, err
	}
	t.shallow = out == "true"
	earlier, err := git(ctx, root, "log", "--format=%h", fmt.Sprintf("-%d", baseDepth), base)
	if err != nil {
		return t, err
	}
	for _, commit := range strings.Fields(earlier) {
		if out, err = git(ctx, root, "log", "-1", format, commit); err != nil {
			return t, err
		}
		for name := range parseSlower(out) {
			if t.before[name] == "" {
				t.before[name] = commit
			}
		}
	}
	return t, nil
}

// parseSlower reads "name, reason" a line.
func parseSlower(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), ",")
		if name != "" {
			out[name] = strings.TrimSpace(reason)
		}
	}
	return out
}
