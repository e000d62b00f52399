package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Status is how a check ended.
type Status string

// A check passes, fails, or is skipped with a reason.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Check is one thing that a provider promises.
type Check struct {
	ID        string // stable: scripts name it
	Promise   string // the sentence that is checked
	Reference string // the page that says it, from the root of the repository
	run       func(context.Context, *Target) error
}

// Result is how one check ended.
type Result struct {
	ID       string        `json:"id"`
	Promise  string        `json:"promise"`
	Status   Status        `json:"status"`
	Expected string        `json:"expected,omitempty"` // of one that failed
	Seen     string        `json:"seen,omitempty"`     // of one that failed
	Reason   string        `json:"reason,omitempty"`   // of one that was skipped
	Took     time.Duration `json:"tookNanos"`
}

// Run carries out the check. A context that ends is a failure.
func (c *Check) Run(ctx context.Context, t *Target) Result {
	start := time.Now()
	err := c.run(ctx, t)
	r := Result{ID: c.ID, Promise: c.Promise, Status: Passed, Took: time.Since(start)}
	var wrong *finding
	var not *skip
	switch {
	case err == nil:
	case ctx.Err() != nil: // whatever was found may come of that
		r.Status, r.Expected, r.Seen = Failed, "an end within the time of a check", fmt.Sprintf("none after %s: %s", r.Took.Round(time.Millisecond), shorten(err.Error()))
	case errors.As(err, &wrong):
		r.Status, r.Expected, r.Seen = Failed, wrong.expected, wrong.seen
	case errors.As(err, &not):
		r.Status, r.Reason = Skipped, not.why
	default:
		r.Status, r.Expected, r.Seen = Failed, "calls that are accepted", shorten(err.Error())
	}
	return r
}

// Progress is how far a run is.
type Progress struct {
	ID         string // of the check that is running, or has ended
	Done, All  int
	FailedThus int
	Ended      *Result // of the check; nil = it begins
}

// RunAll carries out checks one after the other, each within the time, and tells of each
// before it begins and when it has ended. It ends early with ctx, and returns what was done until then.
func RunAll(ctx context.Context, t *Target, checks []Check, each time.Duration, tell func(Progress)) []Result {
	out := make([]Result, 0, len(checks))
	failed := 0
	for i := range checks {
		if ctx.Err() != nil {
			return out
		}
		if tell != nil {
			tell(Progress{ID: checks[i].ID, Done: i, All: len(checks), FailedThus: failed})
		}
		within, cancel := context.WithTimeout(ctx, each)
		r := checks[i].Run(within, t)
		cancel()
		if ctx.Err() != nil {
			return out // it was interrupted, which says nothing of the provider
		}
		if r.Status == Failed {
			failed++
		}
		out = append(out, r)
		if tell != nil {
			tell(Progress{ID: r.ID, Done: i + 1, All: len(checks), FailedThus: failed, Ended: &r})
		}
	}
	return out
}

// Checks returns all checks, in the order in which they cost the fewest changes.
func Checks() []Check {
	return slices.Concat(getChecks, listChecks, argumentChecks(), oddChecks, fenceChecks, illegalChecks(),
		journeyChecks(), metadataChecks, underWayChecks(), blobChecks, raceChecks, recordChecks(), restartChecks, faultChecks)
}

// finding is a promise that was not kept.
type finding struct{ expected, seen string }

func (f *finding) Error() string { return "expected " + f.expected + ", saw " + f.seen }

// broken returns a finding.
func broken(expected, seen string, args ...any) error {
	return &finding{expected, fmt.Sprintf(seen, args...)}
}

// skip is why a check says nothing.
type skip struct{ why string }

func (s *skip) Error() string { return "skipped: " + s.why }

func skipped(why string, args ...any) error { return &skip{fmt.Sprintf(why, args...)} }

func isSkip(err error) bool {
	_, is := errors.AsType[*skip](err)
	return is
}

// said is the code and message of an answer.
func said(err error) string {
	if err == nil {
		return "OK"
	}
	s := status.Convert(err)
	return fmt.Sprintf("%s: %s", s.Code(), shorten(s.Message()))
}

// shownMax is how much is shown of a text that a provider sends.
const shownMax = 300

func shorten(s string) string {
	if len(s) > shownMax {
		return s[:shownMax] + "…"
	}
	return s
}

// answered holds the code of an answer to those that are right.
func answered(what string, err error, right ...codes.Code) error {
	if slices.Contains(right, status.Code(err)) {
		return nil
	}
	expected := ""
	for i, c := range right {
		if i > 0 {
			expected += " or "
		}
		expected += c.String()
	}
	return broken(expected, "%s: %s", what, said(err))
}
