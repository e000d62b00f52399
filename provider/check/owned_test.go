package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/check"
)

// TestOwnedHostsAreTriedWhole: a pool of owned hosts has Idle machines alone, and they are deleted and created again. Nothing is
// skipped for want of a Speculative one, and all are on in the end.
func TestOwnedHostsAreTriedWhole(t *testing.T) {
	t.Parallel()
	r := startPooled(t, false)
	l, err := pb.NewCapacityProviderClient(dial(t, r.address)).List(t.Context(), &pb.ListFilter{States: []pb.MachineState{idle}})
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, m := range l.GetMachines() {
		if m.GetLabels()["tonnage.dev/host"] != "" {
			hosts = append(hosts, m.GetId())
		}
	}
	if len(hosts) != 2 {
		t.Fatalf("%d owned hosts", len(hosts))
	}
	x := targetOf(t, r, r.address, func(o *check.Options) { o.Only = hosts })
	skipped := 0
	for _, got := range check.RunAll(context.Background(), x, check.Checks(), each, nil) {
		switch {
		case got.Status == check.Failed:
			t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		case got.Status == check.Skipped && strings.Contains(got.Reason, "no machine that was found Speculative"):
			t.Errorf("%s is skipped: %s", got.ID, got.Reason)
		case got.Status == check.Skipped:
			skipped++
			if !strings.Contains(got.Reason, ";") && !strings.Contains(got.Reason, "at once") && !strings.Contains(got.Reason, "provider") {
				t.Errorf("%s is skipped, and it is not said what to do: %s", got.ID, got.Reason)
			}
			t.Logf("%s is skipped: %s", got.ID, got.Reason)
		}
	}
	if left := x.Restore(context.Background()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	t.Logf("%d of %d checks are skipped", skipped, len(check.Checks()))
}

// TestWaiting: while a change is awaited, it is said of which machine, and since when.
func TestWaiting(t *testing.T) {
	t.Parallel()
	r := startRig(t, looks)
	x := r.target(t, r.address, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		check.RunAll(ctx, x, check.Checks(), each, nil)
	}()
	for deadline := time.Now().Add(each); ; <-time.After(look) {
		if w := x.Waiting(); w.Machine != "" && !w.Since.IsZero() && w.State != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is waited for")
		}
	}
	cancel()
	<-ended
	x.Restore(context.Background())
	if w := x.Waiting(); w.Machine != "" {
		t.Errorf("in the end, it waits for %+v", w)
	}
}
