//go:build testclock

package operator_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/internal/steady"
)

// TestDrainUnderStepsOfTheClock: a process that begins with the wall clock an hour ahead
// does not end the drain of the one before at once, and one that begins an hour behind does
// not drain for an hour.
func TestDrainUnderStepsOfTheClock(t *testing.T) {
	const grace = 4 * time.Second
	for _, off := range []string{"1h", "-1h"} {
		t.Run(off, func(t *testing.T) {
			k := fresh(t)
			file := filepath.Join(t.TempDir(), "clock")
			t.Setenv(steady.OffsetVariable, file)
			makeNode(t, k, "m1", "")
			makePod(t, k, "guarded", "m1", labelled("guarded"))
			makeBudget(t, k, "guarded")
			s := newShard(t, nil)
			stop := operate(t, k, k.Config, "", shards(s.address))
			c := s.next(t)
			c.greet()
			end := c.serve()
			c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: configured})
			c.reclaim("i1", "m1", grace)
			hear(c, (*bigfleet.OperatorMessage).GetReclaimAck)
			stop()
			end()

			must(t, os.WriteFile(file, []byte(off), 0o600))
			began := time.Now()
			operate(t, k, k.Config, "", shards(s.address))
			c = s.next(t)
			c.greet()
			defer c.serve()()
			var n api.UpcomingNode
			must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-m1"}, &n))
			if n.Status.Phase != api.NodeDraining {
				t.Errorf("at the start it is %s (%s)", n.Status.Phase, n.Status.LastError)
			}
			eventually(t, phaseIs(t, k, "un-m1", api.NodeFailed))
			if took := time.Since(began); took < grace*9/10 || took > 4*grace {
				t.Errorf("the drain ended after %v, and had %v", took, grace)
			}
		})
	}
}
