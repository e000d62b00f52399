package kubee2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	gpu     = "nvidia.com/gpu"
	rackKey = "topology.kubernetes.io/rack"
	// look is how often the maker of nodes looks at the provider's machines.
	look = 200 * time.Millisecond
)

// batch is a number of machines that are alike.
type batch struct {
	instance  string
	n         int
	resources map[string]string
	state     string
	capacity  string
	price     float64
}

// seed writes a provider's machines: three zones in turn, two machines a rack.
func seed(t *testing.T, dir string, batches []batch) string {
	t.Helper()
	var machines []map[string]any
	for _, b := range batches {
		for i := range b.n {
			machines = append(machines, map[string]any{
				"id": fmt.Sprintf("%s-%02d", b.instance, i), "state": b.state, "instanceType": b.instance, "zone": fmt.Sprint("z", i%3),
				"capacityType": b.capacity, "pricePerHour": b.price, "resources": b.resources,
				"labels": map[string]string{rackKey: fmt.Sprint(b.instance, "-r", i/2)},
			})
		}
	}
	text, err := json.Marshal(map[string]any{"machines": machines, "needs": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "machines.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// maker makes the nodes of machines: it stands for their boot.
type maker struct {
	t        *testing.T
	provider pb.CapacityProviderClient
	clusters map[string]*cluster
	only     []pb.MachineState // what is looked at; empty = machines in all states

	mu       sync.Mutex
	machines map[string]*pb.Machine
	taken    map[string]map[string]time.Time // by cluster: since when machines are bound to it
	leaving  map[string]map[string]bool      // by cluster: machines whose node is to go
	made     map[string]map[string]bool      // by cluster: machines whose node is there
	left     []string                        // pods that were on machines when these went
	idle     map[string]time.Time            // since when spot machines are Idle
	kept     time.Duration                   // the shortest time that one was, before it was deleted; 0 = none was
	see      func(map[string]*pb.Machine)    // is shown what each round saw; nil = nobody
}

// newMaker starts it for the length of the test. It looks at machines in these states
// alone; without any, at all.
func newMaker(t *testing.T, address string, clusters []*cluster, only ...pb.MachineState) *maker {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	m := &maker{
		t: t, provider: pb.NewCapacityProviderClient(conn), clusters: map[string]*cluster{}, only: only, taken: map[string]map[string]time.Time{},
		leaving: map[string]map[string]bool{}, made: map[string]map[string]bool{}, idle: map[string]time.Time{},
	}
	for _, c := range clusters {
		m.clusters[c.name], m.leaving[c.name], m.made[c.name] = c, map[string]bool{}, map[string]bool{}
		m.taken[c.name] = map[string]time.Time{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for ctx.Err() == nil {
			m.round(ctx)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait(); conn.Close() })
	return m
}

// round looks at the machines once. Clusters do not wait for each other.
func (m *maker) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := m.provider.List(ctx, &pb.ListFilter{States: m.only})
	if err != nil {
		return // it is asked again
	}
	m.mu.Lock()
	m.machines = map[string]*pb.Machine{}
	for _, x := range list.Machines {
		m.machines[x.Id] = x
		m.noteIdle(x)
		m.noteTaken(x)
	}
	if m.see != nil {
		m.see(m.machines)
	}
	m.mu.Unlock()
	var all sync.WaitGroup
	for name, c := range m.clusters {
		all.Go(func() { m.serve(ctx, c, name, list.Machines) })
	}
	all.Wait()
}

// noteTaken notes when a machine is bound to a cluster.
func (m *maker) noteTaken(x *pb.Machine) {
	for name, taken := range m.taken {
		if _, was := taken[x.Id]; x.Cluster != name {
			delete(taken, x.Id)
		} else if !was {
			taken[x.Id] = time.Now()
		}
	}
}

// takenAt returns since when the machines of a cluster are bound to it.
func (m *maker) takenAt(cluster string) map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.taken[cluster])
}

// noteIdle notes for how long a spot machine is idle before it is deleted.
func (m *maker) noteIdle(x *pb.Machine) {
	if x.CapacityType != pb.CapacityType_CAPACITY_TYPE_SPOT {
		return
	}
	since, idle := m.idle[x.Id]
	switch x.State {
	case pb.MachineState_MACHINE_STATE_IDLE:
		if !idle {
			m.idle[x.Id] = time.Now()
		}
	case pb.MachineState_MACHINE_STATE_DELETING:
		if d := time.Since(since); idle && (m.kept == 0 || d < m.kept) {
			m.kept = d
		}
		delete(m.idle, x.Id)
	default:
		delete(m.idle, x.Id)
	}
}

// keptFor returns the shortest time that a spot machine was idle before it was
// deleted; 0 if none was.
func (m *maker) keptFor() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// serve makes and removes the nodes of one cluster. What cannot be done now is
// done in a later round. The books of a cluster are its own.
func (m *maker) serve(ctx context.Context, c *cluster, name string, machines []*pb.Machine) {
	made, leaving := m.made[name], m.leaving[name]
	for _, x := range machines {
		bound := x.Cluster == name && (x.State == pb.MachineState_MACHINE_STATE_CONFIGURED || x.State == pb.MachineState_MACHINE_STATE_DRAINING)
		if made[x.Id] && !bound {
			leaving[x.Id] = true
		}
		if leaving[x.Id] {
			m.remove(ctx, c, x.Id)
			continue
		}
		if bound && !made[x.Id] && x.State == pb.MachineState_MACHINE_STATE_CONFIGURED {
			n := nodeOf(x)
			if c.nominates {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule})
			}
			err := c.client.Create(ctx, n)
			made[x.Id] = err == nil || apierrors.IsAlreadyExists(err)
		}
	}
}

// remove removes a node, and notes who was still on it.
func (m *maker) remove(ctx context.Context, c *cluster, id string) {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace("default")); err != nil {
		return
	}
	err := c.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id}})
	if err != nil && !apierrors.IsNotFound(err) {
		return
	}
	delete(m.made[c.name], id)
	delete(m.leaving[c.name], id)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName == id && p.DeletionTimestamp == nil {
			m.left = append(m.left, c.name+"/"+p.Name+" on "+id)
		}
	}
}

// nodeOf is the node that a machine's kubelet would register.
func nodeOf(x *pb.Machine) *corev1.Node {
	labels := map[string]string{"type": "kwok", corev1.LabelHostname: x.Id, corev1.LabelInstanceTypeStable: x.InstanceType, corev1.LabelTopologyZone: x.Zone}
	for k, v := range x.Labels {
		labels[k] = v
	}
	has := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	for k, v := range x.Resources.GetResources() {
		has[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: x.Id, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: "made://" + x.Id},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}
}

// states returns how many machines there are in each state.
func (m *maker) states() map[pb.MachineState]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[pb.MachineState]int{}
	for _, x := range m.machines {
		out[x.State]++
	}
	return out
}

// bound returns the ids of a cluster's machines in order, and whether all of
// them are Configured.
func (m *maker) bound(name string) (ids []string, settled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	settled = m.machines != nil
	for _, x := range m.machines {
		if x.Cluster == name {
			ids = append(ids, x.Id)
			settled = settled && x.State == pb.MachineState_MACHINE_STATE_CONFIGURED
		}
	}
	slices.Sort(ids)
	return ids, settled
}

// abandoned returns the pods that were on machines when these went.
func (m *maker) abandoned() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.left)
}
