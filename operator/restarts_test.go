package operator_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/rollup"
)

var (
	soakRestarts = flag.Int("soak-restarts", 1, "how often the API server is restarted")
	soakSeed     = flag.Uint64("soak-seed", 1, "of the times at which it is; 0 = another each time")
)

// Priorities of the requests that change while the API server restarts.
const (
	growing  = 7 // there are ever more of them
	flipOne  = 8 // each of a fixed number changes between these two
	flipTwo  = 9
	flippers = 20
)

// resumed is how long the library may take to watch an API server again that is back: it
// waits up to 30 s between two tries, and a random part more.
const resumed = 5 * time.Minute

// demandOf adds up the cores that rows of some priorities ask for.
func demandOf(needs []*bigfleet.CapacityNeed, priorities ...int32) (cores int) {
	for _, n := range needs {
		for _, p := range priorities {
			if n.Priority == p {
				c, _ := strconv.Atoi(n.AggregateResources["cpu"])
				cores += c
			}
		}
	}
	return cores
}

// TestAPIServerRestarts: the operator's API server is killed, or ended in good order, while
// requests change, also while the operator starts. No roll-up has less than what was
// reported before and nobody took back, whoever sends it; in the end all is reported, and
// all are heard.
func TestAPIServerRestarts(t *testing.T) {
	k := fresh(t)
	namespaces(t, k, "restarts")
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d, %d restarts", seed, *soakRestarts)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := k.Another(t.TempDir(), freeport.Take(t))
	t.Cleanup(func() { must(t, s.Kill()) })
	j := newJudge(t, rollup.Limits{}, offers)
	t.Cleanup(func() { j.sentence(t) })
	w := change(t, k, "restarts")
	most := 0
	j.watch(func(needs []*bigfleet.CapacityNeed) string {
		had := most
		most = max(most, demandOf(needs, growing))
		switch has, flips := demandOf(needs, growing), demandOf(needs, flipOne, flipTwo); {
		case has < had:
			return fmt.Sprintf("%d are reported, and %d were before", has, had)
		case flips != flippers:
			return fmt.Sprintf("%d of %d that change their priority are reported", flips, flippers)
		}
		return ""
	})
	run := lead(t, k, s.Through(k.Config), j.address) // there is no API server yet
	must(t, s.Start())
	must(t, s.Ready())
	caughtUp(t, j, w)
	var slowest time.Duration
	for i := range *soakRestarts {
		began := time.Now()
		kill, also := i%2 == 0, i%4 >= 2
		if kill {
			must(t, s.Kill())
		} else {
			must(t, s.End())
		}
		down := time.Since(began)
		if also { // the operator starts while it is away
			run.stop()
			run = lead(t, k, s.Through(k.Config), j.address)
		}
		pause(time.Duration(rng.Int64N(int64(time.Second))))
		must(t, s.Start())
		must(t, s.Ready())
		ready := time.Since(began)
		slowest = max(slowest, caughtUp(t, j, w))
		t.Logf("restart %d: ended after %.1f s, ready after %.1f s, caught up after %.1f s", i, down.Seconds(), ready.Seconds(), time.Since(began).Seconds())
	}
	began := time.Now()
	w.stop()
	caughtUp(t, j, w)
	within(t, resumed, allHeard(t, k, "restarts"))
	t.Logf("all heard after %.1f s", time.Since(began).Seconds())
	t.Logf("%d requests made, %d changes; after the API server was ready again, the newest was reported within %.1f s", w.made(), w.changes.Load(), slowest.Seconds())
	run.report(t)
}

// pause lets some time pass; nothing says when an API server is to come back.
func pause(d time.Duration) { <-time.After(d) }

// caughtUp waits until what is there now is reported, and returns how long that took.
func caughtUp(t *testing.T, j *judge, w *writer) time.Duration {
	t.Helper()
	began, want := time.Now(), w.made()
	within(t, resumed, func() string {
		needs, n := j.newest()
		if has := demandOf(needs, growing); has < want {
			return fmt.Sprintf("%d of %d are reported, in roll-up %d", has, want, n)
		}
		return ""
	})
	return time.Since(began)
}

// allHeard is a condition of eventually.
func allHeard(t *testing.T, k *kubetest.Cluster, space string) func() string {
	return func() string {
		left := 0
		for _, r := range requestsIn(t, k, space) {
			if r.Status.Phase != api.RequestAcknowledged {
				left++
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d are not heard", left)
		}
		return ""
	}
}

// writer changes requests, through the API server that goes on.
type writer struct {
	n       atomic.Int64 // of the growing ones, those that are there
	changes atomic.Int64
	stop    func()
}

func (w *writer) made() int { return int(w.n.Load()) }

// change makes the requests that change, and changes them until the test ends.
func change(t *testing.T, k *kubetest.Cluster, space string) *writer {
	t.Helper()
	w := &writer{}
	for i := range flippers {
		makeRequest(t, k, fmt.Sprint("flip-", i), func(r *api.CapacityRequest) { r.Namespace = space; r.Spec.Priority = flipOne })
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	w.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(w.stop)
	wg.Go(func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprint("grow-", i)}}
			r.Spec.Priority, r.Spec.Resources = growing, corev1.ResourceList{"cpu": resource.MustParse("1")}
			if err := k.Client.Create(context.Background(), r); err != nil {
				t.Error(err)
				return
			}
			w.n.Add(1)
			flip := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: fmt.Sprint("flip-", i%flippers)}}
			priority := flipOne + (i/flippers+1)%2*(flipTwo-flipOne)
			if err := k.Client.Patch(context.Background(), flip, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"priority":%d}}`, priority))); err != nil {
				t.Error(err)
				return
			}
			w.changes.Add(1)
			<-tick.C
		}
	})
	return w
}
