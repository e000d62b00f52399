package clusterapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

const (
	lives     = 20              // machines live through their lives
	livesWait = 2 * time.Minute // for each step of all of them
)

// writesMax is how many writes one machine's life may take.
const writesMax = 6

// fleetOf is a provider with the driver of a rig.
type fleetOf struct {
	*rig
	dir      string
	provider *provider.Provider
	end      func()
	sequence int64
}

// newFleet starts a provider with a pool of so many machines. more are more lines of its types.
func newFleet(t *testing.T, machines int, more string) *fleetOf {
	t.Helper()
	r := newRig(t, "")
	r.must(r.Close())
	f := &fleetOf{rig: r, dir: t.TempDir()}
	text := fmt.Sprintf(`drivers: [{name: %[1]s, kind: cluster-api, launchesPerMinute: 60000, launchBurst: 1000, config: {kubeconfig: %[2]s, namespace: %[3]s}}]
pools:
- name: workers
  driver: %[1]s
  lateBound: true
  machines: %[4]d
  zones: [z1]
  labels: {team: a}
  template:
    infrastructure: {templateRef: {apiGroup: %[5]s, kind: PlayedMachineTemplate, name: "${instanceType}-%[1]s"}}
    bootstrap: {blob: {}}
  types:
  - {name: plain, resources: {cpu: 4, memory: 8Gi, pods: 110}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}
%[6]s`, r.cluster, r.file, namespace, machines, played.Group, more)
	r.must(os.WriteFile(filepath.Join(f.dir, "pools.yaml"), []byte(text), 0o600))
	r.addTemplate("plain-"+r.cluster, map[string]any{"capacity": capacity, "instanceType": "plain"})
	f.start()
	t.Cleanup(func() { f.end() })
	return f
}

// start starts the provider, in the folder as it is.
func (f *fleetOf) start() {
	f.t.Helper()
	file, err := pools.Read(filepath.Join(f.dir, "pools.yaml"))
	f.must(err)
	p, err := provider.Open(provider.Config{
		Dir: f.dir, Pools: file, Log: slog.New(slog.NewTextHandler(&f.log, nil)),
		Driver: func(d *pools.Driver) (driver.Driver, error) {
			s, err := clusterapi.ParseSettings(d.Config)
			if err != nil {
				return nil, err
			}
			f.Driver, err = clusterapi.Open(f.t.Context(), s, d.Name, slog.New(slog.NewTextHandler(&f.log, nil)))
			return f.Driver, err
		},
	})
	f.must(err)
	f.provider = p
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	f.end = func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
			f.t.Error(err)
		}
		f.end = func() {}
	}
}

func (f *fleetOf) call(op shard.Op, id string) {
	f.t.Helper()
	f.sequence++
	_, err := f.provider.Do(f.t.Context(), &calls.Call{
		Op: op, Machine: id, Cluster: f.cluster, Metadata: map[string]string{"need": "x"}, Blob: f.blob, Grace: time.Minute,
		Shard: "s", Token: epoch.Token{Epoch: 1, Sequence: f.sequence},
	})
	f.must(err)
}

// list returns the listing, by id.
func (f *fleetOf) list() map[string]*pb.Machine {
	f.t.Helper()
	msg, _, err := f.provider.List(calls.ListFilter{})
	f.must(err)
	l := &pb.MachineList{}
	f.must(proto.Unmarshal(msg, l))
	out := map[string]*pb.Machine{}
	for _, m := range l.GetMachines() {
		out[m.GetId()] = m
	}
	return out
}

// until waits until the listing is as it should be, and returns how long that took.
func (f *fleetOf) until(what string, is func(all map[string]*pb.Machine) bool) time.Duration {
	f.t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(f.t.Context(), livesWait)
	defer cancel()
	for !is(f.list()) {
		if ctx.Err() != nil {
			f.log.mu.Lock()
			defer f.log.mu.Unlock()
			f.t.Fatalf("not within %v: %s: %v\n%s", livesWait, what, f.states(), f.log.b.String())
		}
		_ = kubetest.Pause(ctx)
	}
	return time.Since(begun)
}

func (f *fleetOf) states() map[string]int {
	out := map[string]int{}
	for _, m := range f.list() {
		out[m.GetState().String()+" "+m.GetLastError()]++
	}
	return out
}

// slots waits for so many free slots of a type, and returns their ids.
func (f *fleetOf) slots(instance string, n int) (ids []string) {
	f.t.Helper()
	f.until("there are slots", func(all map[string]*pb.Machine) bool {
		ids = nil
		for id, m := range all {
			if m.GetState() == pb.MachineState_MACHINE_STATE_SPECULATIVE && m.GetInstanceType() == instance {
				ids = append(ids, id)
			}
		}
		return len(ids) >= n
	})
	slices.Sort(ids)
	return ids[:n]
}

// in tells whether machines are all in a state.
func in(ids []string, state pb.MachineState) func(all map[string]*pb.Machine) bool {
	return func(all map[string]*pb.Machine) bool {
		for _, id := range ids {
			if all[id].GetState() != state {
				return false
			}
		}
		return true
	}
}

// up has slots become machines that pods can run on.
func (f *fleetOf) up(ids []string) time.Duration {
	f.t.Helper()
	for _, id := range ids {
		f.call(shard.OpCreate, id)
		f.call(shard.OpConfigure, id)
	}
	return f.until("all are Configured", in(ids, pb.MachineState_MACHINE_STATE_CONFIGURED))
}

// Machines live through their lives with six writes each, and nothing is left of them.
func TestLives(t *testing.T) {
	f := newFleet(t, lives, "")
	// A pool lists 64 slots of an offer at a time.
	var ids []string
	begun := time.Now()
	for len(ids) < lives {
		batch := f.slots("plain", min(64, lives-len(ids)))
		f.up(batch)
		ids = append(ids, batch...)
	}
	up := time.Since(begun)
	all := f.list()
	names := map[string]bool{}
	for _, id := range ids {
		m := all[id]
		name := driver.ObjectName(id, 1)
		names[name] = true
		if m.GetLabels()["kubernetes.io/hostname"] != name || m.GetHost().GetRef() != "played://"+namespace+"/"+name || m.GetCluster() != f.cluster {
			t.Errorf("%s is listed as %v", id, m)
		}
	}
	for _, id := range ids {
		f.call(shard.OpDrain, id)
	}
	begun = time.Now()
	f.until("all are drained", in(ids, pb.MachineState_MACHINE_STATE_IDLE))
	down := time.Since(begun)
	for _, kind := range []client.ObjectList{listOf(machineKind.GroupVersion().String(), "MachineList"), listOf(played.Machines.GroupVersion().String(), "PlayedMachineList"), listOf("v1", "SecretList")} {
		f.must(kubernetes.Client.List(t.Context(), kind, client.InNamespace(namespace), client.MatchingLabels{kube.LabelScope: f.cluster}))
		if l := kind.(*unstructured.UnstructuredList); len(l.Items) > 0 && l.GetKind() != "SecretList" { // the collector is on its way to these
			t.Errorf("%d objects are left of %s", len(l.Items), l.GetKind())
		}
	}
	writes := f.writes(names)
	most := slices.Max(slices.Collect(maps.Values(writes)))
	t.Logf("%d machines were Configured after %.1f s and drained after %.1f s, with %d writes each at most", len(ids), up.Seconds(), down.Seconds(), most)
	if len(writes) != len(ids) || most > writesMax {
		t.Errorf("%d of %d machines were written to, one %d times; at most %d are allowed", len(writes), len(ids), most, writesMax)
	}
}

func listOf(apiVersion, kind string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion(apiVersion)
	l.SetKind(kind)
	return l
}

// writes returns how many writes by the provider the API server has logged, by the name of the object, which
// is the same for all of a machine.
func (f *fleetOf) writes(names map[string]bool) map[string]int {
	f.t.Helper()
	file, err := os.Open(filepath.Join(auditDir, kubetest.AuditLog))
	f.must(err)
	defer file.Close()
	out := map[string]int{}
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var x struct {
			UserAgent      string
			ObjectRef      struct{ Name string }
			ResponseStatus struct{ Code int }
			ResponseObject struct{ Metadata struct{ Name string } }
		}
		if json.Unmarshal(s.Bytes(), &x) != nil || x.UserAgent != kube.UserAgent || x.ResponseStatus.Code >= 300 {
			continue
		}
		if names[x.ObjectRef.Name] {
			out[x.ObjectRef.Name]++
		}
	}
	f.must(s.Err())
	return out
}

// Without its file a provider finds everything again; what nobody asked for is an orphan; what vanishes is
// out of the listing within ten seconds, and no id is used again.
func TestTruthIsInObjects(t *testing.T) {
	f := newFleet(t, 8, "")
	ids := f.slots("plain", 3)
	f.up(ids)
	before := f.list()
	f.end()
	f.must(os.Remove(filepath.Join(f.dir, "records.db")))
	f.start()
	f.until("all are found again", in(ids, pb.MachineState_MACHINE_STATE_CONFIGURED))
	after := f.list()
	for _, id := range ids {
		b, a := before[id], after[id]
		if a.GetCluster() != f.cluster || !maps.Equal(a.GetShardMetadata(), b.GetShardMetadata()) || a.GetHost().GetRef() != b.GetHost().GetRef() || !maps.Equal(a.GetLabels(), b.GetLabels()) {
			t.Errorf("%s was %v and is %v", id, b, a)
		}
	}

	f.must(kubernetes.Client.Delete(t.Context(), f.object(ids[0])))
	f.gone(f.object(ids[0]), &driver.Machine{ID: ids[0], Generation: 1}) // how long its controllers take is their matter
	took := f.until("the lost machine is out of the listing", func(all map[string]*pb.Machine) bool { return all[ids[0]] == nil })
	t.Logf("a machine that somebody deleted was out of the listing %.1f s after it was gone", took.Seconds())
	if took > 10*time.Second {
		t.Errorf("it was listed for %v", took)
	}

	model := f.object(ids[1])
	f.must(kubernetes.Client.Get(t.Context(), client.ObjectKeyFromObject(model), model))
	stray := played.Object(machineKind)
	stray.SetNamespace(namespace)
	stray.SetName("stray-" + f.cluster)
	stray.SetLabels(model.GetLabels())
	record := strings.NewReplacer(ids[1], "stray", `"workers"`, `"other"`).Replace(model.GetAnnotations()[kube.AnnotationRecord])
	stray.SetAnnotations(map[string]string{kube.AnnotationRecord: record})
	unstructured.RemoveNestedField(model.Object, "spec", "providerID")
	f.must(unstructured.SetNestedField(model.Object, "stray", "spec", "infrastructureRef", "name"))
	stray.Object["spec"] = model.Object["spec"]
	f.must(kubernetes.Client.Create(t.Context(), stray))
	f.until("the stray machine is reported", func(map[string]*pb.Machine) bool {
		o := f.provider.Orphans()
		return len(o) == 1 && o[0].ID == "stray" && o[0].Why == "no pool has such an offer"
	})
	if all := f.list(); all["stray"] != nil || all[ids[0]] != nil {
		t.Errorf("the stray machine is listed, or the lost one")
	}
	f.must(f.provider.DeleteOrphan(t.Context(), f.cluster, "stray", 1))
	f.until("the stray machine is gone", func(map[string]*pb.Machine) bool { return len(f.provider.Orphans()) == 0 })
	for _, id := range ids[1:] {
		f.call(shard.OpDrain, id)
	}
	f.until("the rest is drained", in(ids[1:], pb.MachineState_MACHINE_STATE_IDLE))
}

func (f *fleetOf) object(id string) *unstructured.Unstructured {
	u := played.Object(machineKind)
	u.SetNamespace(namespace)
	u.SetName(driver.ObjectName(id, 1))
	return u
}

// Without capacity for an offer, its slots are Failed with the reason, and nothing is left of the machine.
func TestOutOfStock(t *testing.T) {
	f := newFleet(t, 8, "  - {name: rare, resources: {cpu: 4, memory: 8Gi, pods: 110}, prices: [{capacityType: OnDemand, pricePerHour: 2}]}\n")
	f.addTemplate("rare-"+f.cluster, map[string]any{"capacity": capacity, "instanceType": "rare", "fault": "InsufficientInstanceCapacity: no rare in z1"})
	id := f.slots("rare", 1)[0]
	f.call(shard.OpCreate, id)
	f.call(shard.OpConfigure, id)
	f.until("the machine and all slots are Failed", func(all map[string]*pb.Machine) bool {
		for _, m := range all {
			if m.GetInstanceType() == "rare" && (m.GetState() != pb.MachineState_MACHINE_STATE_FAILED || !strings.Contains(m.GetLastError(), "nsufficient")) {
				return false
			}
		}
		return strings.Contains(all[id].GetLastError(), "InsufficientInstanceCapacity: no rare in z1")
	})
	f.gone(f.object(id), &driver.Machine{ID: id, Generation: 1})
	if ids := f.slots("plain", 1); len(ids) != 1 {
		t.Errorf("the other type has no slots")
	}
}
