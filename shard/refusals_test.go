package shard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// forgivenWithin is how long after a refusal a machine is bound, where the operator
// answers when it is asked again.
const forgivenWithin = 5 * time.Second

// TestARefusalIsForgiven: an operator that refuses once and then answers waits no longer
// the fifth time than the first, whether it refuses one call or several at once.
func TestARefusalIsForgiven(t *testing.T) {
	for _, machinesARound := range []int{1, 8} {
		t.Run(fmt.Sprint(machinesARound), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rounds = 5
				var refuse atomic.Int32
				o := &operators{bootstrap: func(ctx context.Context, _ string, _ *model.Profile) (shard.Blob, error) {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // so that calls are under way together
					}
					if refuse.Add(-1) >= 0 {
						return shard.Blob{}, shard.ErrOperator
					}
					return shard.Blob{Data: []byte("join")}, nil
				}}
				w := newWorld(t, machines(rounds*machinesARound, model.Idle, ""), func(c *shard.Config, d *shard.Deps, _ *provCfg) {
					c.Concurrency, c.CycleInterval, d.Operators = 16, time.Hour, o
				})
				stop := w.run()
				for round := 1; round <= rounds; round++ {
					refuse.Store(int32(machinesARound))
					bound := round * machinesARound
					w.report("c1", need(t, 1, 4*int64(bound)))
					for range 3 * time.Second / time.Millisecond { // it is asked, and refuses
						if refuse.Load() <= 0 {
							break
						}
						<-time.After(time.Millisecond)
					}
					refused := time.Now()
					for w.shard.Count()[model.Configured] < bound {
						if time.Since(refused) > forgivenWithin {
							t.Fatalf("round %d: %d of %d machines are bound %v after the refusal", round, w.shard.Count()[model.Configured], bound, forgivenWithin)
						}
						<-time.After(10 * time.Millisecond)
					}
				}
				stop()
				w.shard.Close()
			})
		})
	}
}

// TestANewSessionIsAskedAtOnce: what an operator refused is forgiven when it connects anew.
func TestANewSessionIsAskedAtOnce(t *testing.T) {
	asked, refuses := 0, true
	o := &operators{bootstrap: func(context.Context, string, *model.Profile) (shard.Blob, error) {
		asked++
		if refuses {
			return shard.Blob{}, shard.ErrOperator
		}
		return shard.Blob{Data: []byte("join")}, nil
	}}
	w := newWorld(t, machines(1, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })
	w.report("c1", need(t, 1, 4))
	for range 20 {
		w.step()
	}
	before := asked
	if w.step(); asked != before {
		t.Fatalf("after %d refusals it is asked in each cycle", before)
	}
	refuses = false
	w.shard.Resync("another")
	if w.step(); asked != before {
		t.Error("another cluster's session has it asked")
	}
	w.shard.Resync("c1")
	if w.step(); asked != before+1 || w.get("m-00").State != model.Configured {
		t.Errorf("it was asked %d times after it has connected, and the machine is %s", asked-before, w.get("m-00").State)
	}
}
