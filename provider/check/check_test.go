package check_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider/check"
)

const each = 30 * time.Second

// TestOurProviderPasses: every check applies to it, and none fails. What is not meant to be
// lost is as it was found.
func TestOurProviderPasses(t *testing.T) {
	t.Parallel()
	r := startRig(t, looks)
	before := inventory(t, r.address)
	x := r.target(t, r.address, func(o *check.Options) { o.Restart, o.Vanish, o.Fail = r.restart, r.vanish, r.fail })
	for _, got := range check.RunAll(context.Background(), x, check.Checks(), each, nil) {
		if got.Status != check.Passed {
			t.Errorf("%s %s: expected %s, saw %s%s", got.ID, got.Status, got.Expected, got.Seen, got.Reason)
		}
		if testing.Verbose() {
			t.Logf("%s %s %s", got.ID, got.Status, got.Took)
		}
	}
	if left := x.Restore(context.Background()); len(left) != 2 {
		t.Errorf("left: %+v, want one that failed and one that vanished", left)
	} else if !left[0].Asked || !left[1].Asked {
		t.Errorf("left: %+v, both were asked for", left)
	}
	after, differ := inventory(t, r.address), 0
	for id, was := range before {
		if after[id] != was {
			differ++
		}
	}
	if differ != 2 {
		t.Errorf("%d machines differ: %v, before %v", differ, after, before)
	}
}

// TestMachinesAreAsTheyWereFound, also where changes are done at once.
func TestMachinesAreAsTheyWereFound(t *testing.T) {
	t.Parallel()
	r := startRig(t, 0)
	before := inventory(t, r.address)
	x := r.target(t, r.address, nil)
	if n := len(x.Claims()); n != check.MachinesDefault {
		t.Errorf("%d machines are used: %v", n, x.Claims())
	}
	for _, got := range check.RunAll(context.Background(), x, check.Checks(), each, nil) {
		if got.Status == check.Failed {
			t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		}
	}
	if left := x.Restore(context.Background()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if after := inventory(t, r.address); !maps.Equal(after, before) {
		t.Errorf("after it:\n%v\nbefore\n%v", after, before)
	}
}

// TestAnInterruptedRun ends at once, says nothing of the check that it was in, and machines can
// be brought back.
func TestAnInterruptedRun(t *testing.T) {
	t.Parallel()
	r := startRig(t, looks)
	before := inventory(t, r.address)
	x := r.target(t, r.address, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	checks := check.Checks()
	const last = "bootstrap.none"
	results := check.RunAll(ctx, x, checks, each, func(p check.Progress) {
		if p.ID == last {
			cancel()
		}
	})
	if n := len(results); n == 0 || checks[n].ID != last {
		t.Errorf("%d results, want those before %s", n, last)
	}
	if after := inventory(t, r.address); maps.Equal(after, before) {
		t.Error("no machine is in use")
	}
	if left := x.Restore(context.Background()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if after := inventory(t, r.address); !maps.Equal(after, before) {
		t.Errorf("after it:\n%v\nbefore\n%v", after, before)
	}
}

// TestOnlyMachinesThatMayBeUsed: of idle machines alone, nothing is created or deleted.
func TestOnlyMachinesThatMayBeUsed(t *testing.T) {
	t.Parallel()
	r := startRig(t, 0)
	x := r.target(t, r.address, func(o *check.Options) { o.Only = []string{"idle-1"} })
	results := check.RunAll(context.Background(), x, check.Checks(), each, nil)
	for _, got := range results {
		if got.Status == check.Failed {
			t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		}
	}
	i := slices.IndexFunc(results, func(r check.Result) bool { return r.ID == "create.begins" })
	if results[i].Status != check.Skipped || !strings.Contains(results[i].Reason, "Speculative") {
		t.Errorf("create.begins: %+v", results[i])
	}
	if left := x.Restore(context.Background()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	for most, want := range map[int]string{1: "S", 2: "SI", 4: "SSSI", 7: "SSSSSII", 64: "SSSSSIII"} {
		got := ""
		for _, c := range r.target(t, r.address, func(o *check.Options) { o.Machines, o.Epoch = most, 100+int64(most) }).Claims() {
			got += c.State[:1]
		}
		if got != want {
			t.Errorf("at most %d machines: %s, want %s", most, got, want)
		}
	}
	none := r.target(t, r.address, func(o *check.Options) { o.Machines, o.Epoch = -1, 1000 })
	if len(none.Claims()) != 0 {
		t.Errorf("claims: %v", none.Claims())
	}
	for _, got := range check.RunAll(context.Background(), none, check.Checks(), each, nil) {
		if got.Status == check.Failed {
			t.Errorf("without machines, %s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		}
	}
}

// TestWhatOneMachineCannotShow: with one Idle machine that must not be deleted, what needs more is skipped and says so.
func TestWhatOneMachineCannotShow(t *testing.T) {
	t.Parallel()
	r := startRig(t, looks)
	x := r.target(t, r.address, func(o *check.Options) { o.Only, o.Restart, o.Fail = []string{"idle-1"}, r.restart, r.fail })
	skips := map[string]string{
		"restart.under-way": "two machines", "restart.cursor": "two machines", "restart.draining": "three machines", "race.pages": "2 machines",
		"failed.refuses-delete": "must not be deleted", "fence.delete": "Speculative",
	}
	passes := map[string]bool{"restart.refused-fence": true, "restart.operations": true, "failed.changed": true, "failed.refuses": true, "metadata.none": true, "list.states-limited": true}
	for _, got := range check.RunAll(context.Background(), x, check.Checks(), each, nil) {
		want, skipped := skips[got.ID]
		switch {
		case got.Status == check.Failed:
			t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		case skipped && (got.Status != check.Skipped || !strings.Contains(got.Reason, want)):
			t.Errorf("%s %s: %q, want it skipped for %q", got.ID, got.Status, got.Reason, want)
		case passes[got.ID] && got.Status != check.Passed:
			t.Errorf("%s %s: %s", got.ID, got.Status, got.Reason)
		}
	}
}

var idForm = regexp.MustCompile(`^[a-z]+\.[a-z-]+$`)

// TestChecksAreDescribed: ids are unique and well formed, each check has a sentence, its
// reference leads to a heading, and the page lists it.
func TestChecksAreDescribed(t *testing.T) {
	page := read(t, "docs/how-to/check-a-provider.md")
	seen := map[string]bool{}
	for _, c := range check.Checks() {
		if seen[c.ID] || !idForm.MatchString(c.ID) {
			t.Errorf("id %q: twice or malformed", c.ID)
		}
		seen[c.ID] = true
		if !strings.HasSuffix(c.Promise, ".") {
			t.Errorf("%s: %q is no sentence", c.ID, c.Promise)
		}
		file, anchor, _ := strings.Cut(c.Reference, "#")
		if text := read(t, file); anchor != "" && !slices.Contains(anchors(text), anchor) {
			t.Errorf("%s: %s has no heading %q", c.ID, file, anchor)
		}
		if !strings.Contains(page, c.ID+" ") || !strings.Contains(page, c.Promise) {
			t.Errorf("the page does not list %s: %s", c.ID, c.Promise)
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d checks", len(seen))
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the headings of a page as links name them.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(regexp.MustCompile("[^a-z0-9 -]").ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}
