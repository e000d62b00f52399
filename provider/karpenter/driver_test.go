package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/driver/drivertest"
	"github.com/tonnage/tonnage/provider/karpenter"
	"github.com/tonnage/tonnage/provider/kube"
)

// The driver keeps what package driver says of drivers.
func TestDriver(t *testing.T) {
	r := newRig(t)
	drivertest.Run(t, drivertest.Options{
		Driver: r.Driver, Reopen: r.reopen, Offer: offer("z1"), LateBound: true, Within: within, Prefix: "contract/", Cluster: "c",
	})
}

// A claim leaves Karpenter nothing to choose and nothing to disrupt, and its machine is Configured when pods can run.
func TestClaim(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", "z1")
	r.must(r.Configure(t.Context(), m, binding()))
	u := r.claim(m)
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "expireAfter"); got != "Never" {
		t.Errorf("it expires after %q", got)
	}
	requirements, _, _ := unstructured.NestedSlice(u.Object, "spec", "requirements")
	want := `[map[key:node.kubernetes.io/instance-type operator:In values:[big]] map[key:karpenter.sh/capacity-type operator:In values:[spot]] ` +
		`map[key:topology.kubernetes.io/zone operator:In values:[z1]] map[key:kubernetes.io/arch operator:In values:[amd64]]]`
	if got := fmt.Sprint(requirements); got != want {
		t.Errorf("requirements %s, want %s", got, want)
	}
	if l, a := u.GetLabels(), u.GetAnnotations(); l["karpenter.sh/nodepool"] != "tonnage" || l["accelerator"] != "none" || a["karpenter.sh/do-not-disrupt"] != "true" || a["tonnage.dev/machine"] != m.ID {
		t.Errorf("labels %v, annotations %v", l, a)
	}
	o := r.await(m.ID, is(driver.Configured))
	name := driver.ObjectName(m.ID, 1)
	if o.Node != name || o.Ref != "played:///"+name || o.Allocatable.Get("cpu") != 4000 || o.Cluster != "c" || o.Owner != binding().Owner || o.Metadata["a"] != "b" || o.Key != m.Offer.Key {
		t.Errorf("observed %+v", o)
	}
	// Karpenter's own annotations, and a provider that has lost everything.
	r.reopen()
	if o := r.await(m.ID, is(driver.Configured)); o.Node != name {
		t.Errorf("observed again %+v", o)
	}
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// Claims that cannot be launched are deleted by Karpenter; what became of them is in an Event, or nowhere.
func TestClaimsThatVanish(t *testing.T) {
	r := newRig(t)
	for zone, want := range map[string]struct {
		reason  string
		noStock bool
	}{
		zoneNone:  {"insufficient capacity: creating instance, all requested offerings were unavailable", true},
		zoneClass: {"Karpenter has deleted the NodeClaim before it was launched, and no Event says why; its log does", false},
		zoneLate:  {`Karpenter has deleted the NodeClaim, which was not launched within 5m0s; what it said last is "Launched: LaunchFailed: the cloud is on fire"`, false},
	} {
		m := r.machine(zone, zone)
		r.must(r.Configure(t.Context(), m, binding()))
		o := r.await(m.ID, is(driver.Failed))
		if o.Reason != want.reason || o.OutOfStock != want.noStock || o.Key != m.Offer.Key || o.Generation != 1 {
			t.Errorf("%s: observed %+v", zone, o)
		}
		// It stays so until somebody takes note, and is not made again.
		r.must(r.Configure(t.Context(), m, binding()))
		r.await(m.ID, is(driver.Failed))
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
		// The next making is another claim.
		m.Generation, m.Offer = 2, offer("z1")
		r.must(r.Configure(t.Context(), m, binding()))
		r.await(m.ID, is(driver.Configured))
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
	}
}

// Of many claims that find no capacity Karpenter writes some Events. What these say holds for the others of the offer.
func TestNoEventOfASoldOutOffer(t *testing.T) {
	r := newRig(t)
	told, silent, other := r.machine("told", zoneNone), r.machine(silentID, zoneNone), r.machine("other", zoneClass)
	r.must(r.Configure(t.Context(), told, binding()))
	r.await(told.ID, is(driver.Failed))
	r.must(r.Configure(t.Context(), silent, binding()))
	r.must(r.Configure(t.Context(), other, binding()))
	if o := r.await(silent.ID, is(driver.Failed)); !o.OutOfStock || !strings.Contains(o.Reason, "all requested offerings were unavailable (of another NodeClaim of its offer") {
		t.Errorf("observed %+v", o)
	}
	if o := r.await(other.ID, is(driver.Failed)); o.OutOfStock {
		t.Errorf("of another offer: observed %+v", o)
	}
	for _, m := range []*driver.Machine{told, silent, other} {
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
	}
}

// Many claims that vanish at once are told by few requests, and while Events cannot be read nothing is made of it: a claim that
// fails for another reason than want of capacity is asked for again soon.
func TestManyClaimsVanishWhileEventsCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.must(r.Close())
	var broken atomic.Bool
	var asked atomic.Int64
	config := rest.CopyConfig(user)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(q *http.Request) (*http.Response, error) {
			if strings.HasSuffix(q.URL.Path, "/events") {
				if asked.Add(1); broken.Load() {
					return nil, errors.New("the server is busy")
				}
			}
			return next.RoundTrip(q)
		})
	})
	d, err := karpenter.OpenAt(&karpenter.Settings{}, t.Name(), slog.New(slog.NewTextHandler(&r.log, nil)), map[string]*kube.Endpoint{"c": kube.Fixed("the test's", config)})
	r.must(err)
	r.Driver = d
	broken.Store(true)
	const many = 12
	for i := range many {
		r.must(r.Configure(t.Context(), r.machine(fmt.Sprint(i), zoneNone), binding()))
	}
	phases := func() (out map[driver.Phase]int) {
		out = map[driver.Phase]int{}
		r.must(r.Observe(t.Context(), func(o *driver.Observation) {
			if out[o.Phase]++; o.Phase == driver.Failed && !o.OutOfStock {
				t.Errorf("it is Failed: %s", o.Reason)
			}
		}))
		return out
	}
	for begun := time.Now(); time.Since(begun) < karpenter.EventsWithin+time.Second; _ = kubetest.Pause(t.Context()) {
		if n := phases(); n[driver.Configuring] != many {
			t.Fatalf("while Events cannot be read: %v", n)
		}
	}
	broken.Store(false)
	asked.Store(0)
	rounds := int64(0)
	for begun := time.Now(); ; _ = kubetest.Pause(t.Context()) {
		rounds++
		n := phases()
		if n[driver.Failed] == many {
			break
		}
		if time.Since(begun) > within {
			t.Fatalf("when Events can be read: %v", n)
		}
	}
	if n := asked.Load(); n > rounds {
		t.Errorf("%d requests in %d rounds", n, rounds)
	}
	for i := range many {
		r.must(r.Delete(t.Context(), r.machine(fmt.Sprint(i), zoneNone)))
	}
}

// A launch that Karpenter tries again says why it waits; deleting it is nobody's failure.
func TestLaunchThatFails(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", zoneNever)
	r.must(r.Configure(t.Context(), m, binding()))
	r.await(m.ID, func(o *driver.Observation) string {
		if o == nil || o.Phase != driver.Configuring || o.Reason != "Launched: LaunchFailed: the cloud is on fire" {
			return "it does not say why it waits"
		}
		return ""
	})
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// A node that is smaller than declared does not become Configured, and the reason says what it lacks.
func TestSmallNode(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", zoneSmall)
	r.must(r.Configure(t.Context(), m, binding()))
	r.await(m.ID, func(o *driver.Observation) string {
		if o == nil || o.Phase != driver.Configuring || o.Reason != "allocatable cpu is 1 of 4" {
			return "it does not say what it lacks"
		}
		return ""
	})
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// A machine that the cloud takes back is gone.
func TestMachineIsTakenBack(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", "z1")
	r.must(r.Configure(t.Context(), m, binding()))
	o := r.await(m.ID, is(driver.Configured))
	n := &corev1.Node{}
	r.must(kubernetes.Client.Get(t.Context(), client.ObjectKey{Name: o.Node}, n))
	r.must(kubernetes.Client.Delete(t.Context(), n))
	r.await(m.ID, is(0))
}

// A machine whose node is gone has failed, also while Karpenter does not look; one whose node has lost a label has not.
func TestNodeIsMissing(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", zoneBlind)
	r.must(r.Configure(t.Context(), m, binding()))
	o := r.await(m.ID, is(driver.Configured))
	n := &corev1.Node{}
	label := func(value any) {
		t.Helper()
		r.must(kubernetes.Client.Get(t.Context(), client.ObjectKey{Name: o.Node}, n))
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{kube.LabelScope: value}}})
		r.must(err)
		r.must(kubernetes.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, text)))
	}
	scope := t.Name()
	says := func(phase driver.Phase, reason string) {
		t.Helper()
		r.await(m.ID, func(o *driver.Observation) string {
			if o == nil || o.Phase != phase || o.Reason != reason {
				return "it is not " + phase.String() + ": " + reason
			}
			return ""
		})
	}
	label(nil)
	says(driver.Configuring, "node "+o.Node+" lacks the label tonnage.dev/scope, by which it is watched")
	label(scope)
	says(driver.Configured, "")
	r.must(kubernetes.Client.Delete(t.Context(), n))
	says(driver.Failed, `its node `+o.Node+` is gone from cluster "c"`)
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// A claim that was made, and of which the watch has not told yet, has not vanished, however long that takes.
func TestWatchIsLate(t *testing.T) {
	r := newRig(t)
	open := r.slow()
	m := r.machine("1", zoneNever)
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		done <- r.Configure(ctx, m, binding())
	}()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodeClaim")
	name := client.ObjectKey{Name: driver.ObjectName(m.ID, m.Generation)}
	for kubernetes.Client.Get(t.Context(), name, u) != nil {
		_ = kubetest.Pause(t.Context())
	}
	for begun := time.Now(); time.Since(begun) < driver.VerbTimeout+karpenter.EventsWithin+time.Second; _ = kubetest.Pause(t.Context()) {
		if o := r.look(m.ID); o != nil {
			t.Fatalf("it is %s: %s", o.Phase, o.Reason)
		}
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the watch is behind") {
		t.Errorf("Configure ends with %v", err)
	}
	open()
	r.await(m.ID, is(driver.Configuring))
	r.must(r.Configure(t.Context(), m, binding()))
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// A drain ends at its deadline, which may be moved.
func TestDrain(t *testing.T) {
	r := newRig(t)
	m := r.machine("1", "z1")
	r.must(r.Configure(t.Context(), m, binding()))
	o := r.await(m.ID, is(driver.Configured))
	n := &corev1.Node{}
	r.must(kubernetes.Client.Get(t.Context(), client.ObjectKey{Name: o.Node}, n))
	before := n.DeepCopy()
	n.Annotations = map[string]string{"played/pods": "stay"}
	r.must(kubernetes.Client.Patch(t.Context(), n, client.MergeFrom(before)))
	deadline := time.Now().Add(time.Hour)
	r.must(r.Drain(t.Context(), m, deadline))
	r.await(m.ID, is(driver.Draining))
	if got := r.claim(m).GetAnnotations()["karpenter.sh/nodeclaim-termination-timestamp"]; got != deadline.UTC().Format(time.RFC3339) {
		t.Errorf("Karpenter drains until %q", got)
	}
	r.must(r.Drain(t.Context(), m, time.Now()))
	r.await(m.ID, is(0))
}

// What cannot be done is refused in a sentence.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	check := func(err error, kind error, want string) {
		t.Helper()
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, not %q", err, want)
		}
	}
	check(errWithout, karpenter.ErrVersion, "has no Karpenter, there are no resources of karpenter.sh: Karpenter 1.0 or later is needed (karpenter.sh/v1); install it with its custom resources")
	m := r.machine("1", "z1")
	elsewhere := binding()
	elsewhere.Cluster = "other"
	check(r.Configure(t.Context(), m, elsewhere), driver.ErrPermanent, `the driver's config has no cluster "other" under clusters`)
	m.Offer.CapacityType = model.BareMetal
	check(r.Configure(t.Context(), m, binding()), driver.ErrPermanent, "capacity type BareMetal: Karpenter knows OnDemand, Spot and Reserved")
	m.Offer = offer("z1")
	m.Offer.Labels["kubernetes.io/hostname"] = "x"
	check(r.Configure(t.Context(), m, binding()), driver.ErrPermanent, "label kubernetes.io/hostname: Karpenter sets it itself")
	m.Offer = offer("z1")
	m.Offer.Template = []byte(strings.Replace(string(m.Offer.Template), `"kubernetes.io/arch", "operator": "In"`, `"kubernetes.io/arch", "operator": "Gt"`, 1))
	check(r.Configure(t.Context(), m, binding()), driver.ErrPermanent, "is refused")
	m.LateBound = false
	check(r.Configure(t.Context(), m, binding()), driver.ErrPermanent, "lateBound: true is missing")
	check(r.Create(t.Context(), m, driver.Owner{}), driver.ErrPermanent, "the pool must be lateBound")
	r.await(m.ID, is(0))
}

// A cluster that cannot be listed is named, and the machines of the others are there and can be made.
func TestAClusterThatCannotBeListed(t *testing.T) {
	r := newRig(t)
	r.must(r.Close())
	d, err := karpenter.OpenAt(&karpenter.Settings{}, t.Name(), slog.New(slog.NewTextHandler(&r.log, nil)), map[string]*kube.Endpoint{
		"c": kube.Fixed("the test's", user), "away": kube.Fixed("nobody's", &rest.Config{Host: "http://" + freeport.Take(t)}),
	})
	r.must(err)
	r.Driver = d
	m := r.machine("m", "z1")
	r.must(r.Configure(t.Context(), m, binding()))
	var seen []string
	err = r.Observe(t.Context(), func(o *driver.Observation) { seen = append(seen, o.ID) })
	unseen, ok := err.(*driver.Unseen) //nolint:errorlint // it must not be wrapped
	if !ok || len(unseen.Clusters) != 1 || unseen.Clusters["away"] == nil || !strings.Contains(err.Error(), `cluster "away": `) {
		t.Errorf("it says %v", err)
	}
	if len(seen) != 1 || seen[0] != m.ID {
		t.Errorf("seen are %v", seen)
	}
	r.must(r.Drain(t.Context(), m, time.Now()))
}
