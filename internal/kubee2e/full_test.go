package kubee2e

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

const (
	podsFull  = 30 // of each kind in each cluster
	wavePods  = 56
	waveTakes = 3 // machines beside the four of the plain pods that make room
	floor     = 5 // plain pods that must stay in blue
	// machinesFull is what the pods of a cluster need: 4 plain, 4 high, 6 spread,
	// 2 of a gang, 4 with GPUs.
	machinesFull = 20
	// spreadMore is so many pods that each of three zones needs one machine more.
	spreadMore    = 45
	machinesMore  = machinesFull + 3
	spotHold      = time.Minute
	holdTolerance = 2 * time.Second // of a clock that is looked at now and then
)

// TestFull goes from nothing to nothing: pods run, a wave preempts, and demand
// vanishes.
func TestFull(t *testing.T) {
	want(t, "full")
	f := newFleet(t, podsFull, []string{"a"}, "blue", "green")
	f.stand()
	f.fill()
	f.report(kinds...)
	f.settle("with all pods running")
	f.preempt()
	f.vanish(machinesFull)
}

// TestFaults has things end that were not to, and demand vanish after all that.
func TestFaults(t *testing.T) {
	want(t, "faults")
	f := newFleet(t, podsFull, []string{"a"}, "blue", "green")
	f.apply(f.clusters[0], budget(plain, floor))
	f.fill()
	f.watches[0].guard(plain, floor)
	f.settle("with all pods running")
	f.breakThings()
	f.vanish(machinesMore)
}

// preempt has a wave of urgent pods in green take machines from the plain pods of
// blue. Within a cluster the machines would stay, and it would be the scheduler's
// matter; so the plain pods of green make room.
func (f *fleet) preempt() {
	f.t.Helper()
	blue, green := f.clusters[0], f.clusters[1]
	f.apply(blue, budget(plain, floor))
	f.watches[0].guard(plain, floor)
	f.record.mark("wave")
	since := time.Now()
	f.scale(green, plain, 0)
	f.apply(green, deployment(wave, wavePods))
	f.await("the wave runs", func() string { return f.short(1, wave, wavePods) })
	f.report(wave)
	f.settle("after the wave")
	f.checkPreemptions(waveTakes, since)
	f.checkUnharmed()

	f.record.mark("wave over")
	f.scale(green, plain, podsFull)
	f.remove(green, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: wave}})
	f.await("the victims run again", func() string { return verdict(f.missing(kinds)) })
	f.settle("after the victims run again")
}

// breakThings kills one thing after the other, and has the demand of blue change
// meanwhile.
func (f *fleet) breakThings() {
	f.t.Helper()
	blue := f.clusters[0]
	f.record.mark("API down")
	blue.api.kill()
	down := time.NewTimer(*outage)
	<-down.C
	blue.api.start()
	f.record.mark("API up")
	f.demand("after the API server was down", spreadMore, machinesMore)

	f.record.mark("operator killed")
	blue.operators[0].kill()
	f.scale(blue, spread, spreadMore-1) // nobody hears it
	blue.operators[0].start()
	f.demand("after the operator was killed", podsFull, machinesFull)

	f.record.mark("two operators")
	blue.another("b")
	f.demand("with two operators", spreadMore, machinesMore)
	f.record.mark("one of two killed")
	blue.operators[0].kill()
	f.demand("after one of two operators was killed", podsFull, machinesFull)

	f.record.mark("shard killed")
	f.shard.kill()
	f.scale(blue, spread, spreadMore)
	f.shard.start()
	f.demand("after the shard was killed", spreadMore, machinesMore)
	f.checkUnharmed()
}

// demand has blue want so many pods of the spread kind, and waits until they run
// on as many machines as that needs.
func (f *fleet) demand(when string, pods int32, machines int) {
	f.t.Helper()
	f.scale(f.clusters[0], spread, pods)
	f.await(when+" the cluster has what it wants", func() string {
		if ids, _ := f.maker.bound(f.clusters[0].name); len(ids) != machines {
			return fmt.Sprintf("%d machines, want %d", len(ids), machines)
		}
		return f.short(0, spread, int(pods))
	})
	f.settle(when)
}

// scale tells the cluster, which may not answer at first.
func (f *fleet) scale(c *cluster, kind string, pods int32) {
	f.t.Helper()
	f.await("the deployment is changed", func() string {
		ctx, cancel := brief()
		defer cancel()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: kind}}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods))
		if err := c.client.Patch(ctx, d, patch); err != nil {
			return err.Error()
		}
		return ""
	})
}

// vanish removes all pods, and waits until the machines are idle and those that
// were bought are given back. No cluster had more machines than most.
func (f *fleet) vanish(most int) {
	f.t.Helper()
	f.record.mark("demand vanishes")
	f.watches[0].guard(plain, 0)
	f.remove(f.clusters[0], &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: plain}})
	for _, c := range f.clusters {
		for _, kind := range kinds {
			f.remove(c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: kind}})
		}
	}
	f.await("no machine is bound", func() string {
		for _, c := range f.clusters {
			if ids, _ := f.maker.bound(c.name); len(ids) > 0 {
				return fmt.Sprintf("%s still has %v", c.name, ids)
			}
		}
		return ""
	})
	f.record.mark("all idle")
	f.settle("without demand")
	f.checkReclaims(most)
	f.checkUnharmed()

	bought := offer(podsFull, len(f.clusters))[2].n
	f.await("what was bought is given back", func() string {
		if n := f.maker.states()[pb.MachineState_MACHINE_STATE_SPECULATIVE]; n != bought {
			return fmt.Sprintf("%d of %d machines are given back", n, bought)
		}
		return ""
	})
	f.record.mark("given back")
	if early := f.maker.keptFor(); early < spotHold-holdTolerance {
		f.t.Errorf("a machine was deleted after it was idle for %v, the hold is %v", early, spotHold)
	}
	f.t.Logf("spot machines were kept for %.1f s at least before they were deleted", f.maker.keptFor().Seconds())
}

func (f *fleet) await(what string, done func() string) {
	f.t.Helper()
	took := eventually(f.t, *limit, what, done)
	f.t.Logf("%s (after %.1f s)", what, took.Seconds())
}

// short says how many pods of a kind do not run.
func (f *fleet) short(i int, kind string, n int) string {
	if have := f.watches[i].running(kind); have != n {
		return fmt.Sprintf("%d of %d pods of %s run", have, n, kind)
	}
	return ""
}

func (f *fleet) remove(c *cluster, o client.Object) {
	f.t.Helper()
	ctx, cancel := brief()
	defer cancel()
	if err := c.client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		f.t.Fatal(err)
	}
}
