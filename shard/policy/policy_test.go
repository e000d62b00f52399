package policy

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func TestParse(t *testing.T) {
	p, err := Parse([]byte(`
default: {maxPriority: 1000, maxReclamationPenalty: 0}
clusters:
  a: {maxPriority: -5}
  b: {maxInterruptionPenalty: 3, maxReclamationPenalty: pinned}
`))
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]Limits{
		"other": {1000, model.BucketPinned, model.BucketForDollars(0)},
		"a":     {-5, model.BucketPinned, model.BucketForDollars(0)},
		"b":     {1000, model.BucketForDollars(3), model.BucketPinned},
	} {
		if got := p.Of(cluster); got != want {
			t.Errorf("%s: %+v, want %+v", cluster, got, want)
		}
	}
	var none *Policy
	if none.Of("a") != None() {
		t.Error("without a policy there is a limit")
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"default: {maxPriorty: 5}":                         "did you mean",
		"clusters: {a: {maxPriority: 3000000000}}":         "clusters.a.maxPriority",
		"clusters: {a: {maxInterruptionPenalty: lots}}":    "clusters.a.maxInterruptionPenalty: must be an amount in dollars",
		"default: {maxReclamationPenalty: -1}":             "default.maxReclamationPenalty",
		"clusters: {a: {maxPriority: 1}, a: {}}":           "twice",
		"default: [":                                       "line",
		"":                                                 "empty",
		"clusters: {" + strings.Repeat("x", 513) + ": {}}": "longer than 512 bytes",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v does not say %q", text, err, want)
		}
	}
}

func TestLower(t *testing.T) {
	high, err := model.NewProfile(model.ProfileSpec{Priority: 1 << 30, Interruption: model.BucketPinned, Reclamation: 3,
		Requirements: []model.Requirement{{Key: "zone", Operator: model.In, Values: []string{"z"}}}})
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{Priority: 7, Interruption: 4, Reclamation: 5}
	low, err := limits.Lower(high)
	if err != nil || low.Priority() != 7 || low.Interruption() != 4 || low.Reclamation() != 3 || len(low.Requirements()) != 1 || low.Fingerprint() == high.Fingerprint() {
		t.Errorf("lowered to %+v, %v", low, err)
	}
	if same, _ := limits.Lower(low); same != low {
		t.Error("what is within the limits is another profile")
	}
}

// TestFileKeepsTheLastGoodPolicy: a file at fault, or gone, changes nothing and is
// logged once; the next good one is taken over.
func TestFileKeepsTheLastGoodPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that is not there is a policy")
	}
	write("default: {maxPriority: 5}")
	var log strings.Builder
	f, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"default: {maxPriority: x}", ""} {
		write(text)
		for range 3 {
			if f.again() || f.Good() || f.Of("a").Priority != 5 {
				t.Errorf("%q: good %v, limits %v", text, f.Good(), f.Of("a"))
			}
		}
	}
	if n := strings.Count(log.String(), "not taken over"); n != 2 {
		t.Errorf("two faults were logged %d times:\n%s", n, log.String())
	}
	write("default: {maxPriority: 9}")
	if !f.again() || !f.Good() || f.Of("a").Priority != 9 || f.again() {
		t.Errorf("the mended file is not taken over once: %v", f.Of("a"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Run(ctx, func() {}); err != nil {
		t.Error(err)
	}
}
