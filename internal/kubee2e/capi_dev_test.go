package kubee2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// The kinds of the development infrastructure, and of Cluster API.
var (
	devKinds     = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	capiKinds    = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	devMachines  = devKinds.WithKind("DevMachine")
	devTemplates = devKinds.WithKind("DevMachineTemplate")
)

const (
	devCluster = "dev"
	// devWritesMax is how many writes a life takes in the management cluster; of the sixth, to the Node, the API server in
	// memory keeps no log.
	devWritesMax = writesMax - 1
	// callsAtOnce is how many calls of a driver run at the same time.
	callsAtOnce = 16
)

// devFleet is a driver whose machines are made by a real Cluster API with the in-memory backend of its development infrastructure,
// called as the provider calls it.
type devFleet struct {
	*clusterapi.Driver
	t *testing.T
	m *management
}

// newDevFleet starts Cluster API, and a Cluster with a machine of its control plane.
func newDevFleet(t *testing.T) *devFleet {
	t.Helper()
	f := &devFleet{t: t, m: newManagement(t, findPrograms(t))}
	f.m.start("dev")
	for _, name := range []string{"ca", "etcd"} {
		crt, key := newRSA(t, name)
		f.m.make(&corev1.Secret{ObjectMeta: f.meta(devCluster + "-" + name), Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"tls.crt": crt, "tls.key": key}})
	}
	infra := f.object(devKinds.WithKind("DevCluster"), devCluster, map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}})
	infra.SetAnnotations(map[string]string{"made-by": "kubee2e"}) // one without any has its controller panic
	f.m.make(infra)
	f.m.make(f.object(capiKinds.WithKind("Cluster"), devCluster, map[string]any{"infrastructureRef": played.Reference(infra)}))
	const control = devCluster + "-control-plane"
	machine := f.object(devMachines, control, inMemory())
	f.m.make(&corev1.Secret{ObjectMeta: f.meta(control), Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("none")}})
	owner := f.object(capiKinds.WithKind("Machine"), control, map[string]any{
		"clusterName": devCluster, "bootstrap": map[string]any{"dataSecretName": control}, "infrastructureRef": played.Reference(machine),
	})
	owner.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": devCluster, "cluster.x-k8s.io/control-plane": ""})
	f.m.make(owner)
	f.m.make(machine)
	f.m.make(f.object(devTemplates, capiTemplate, map[string]any{"template": map[string]any{"spec": inMemory()}}))
	eventually(t, *limit, "Cluster API has a kubeconfig of the cluster in memory, and its first machine a Node", func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := f.m.client.Get(ctx, client.ObjectKey{Namespace: capiNamespace, Name: devCluster + "-kubeconfig"}, &corev1.Secret{}); err != nil {
			return err.Error()
		}
		if err := f.m.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
			return err.Error()
		}
		if field(owner.Object, "status", "nodeRef", "name") == nil {
			return fmt.Sprint("there is no Node: ", field(owner.Object, "status", "conditions"))
		}
		return ""
	})
	d, err := clusterapi.Open(t.Context(), &clusterapi.Settings{Kubeconfig: f.m.ca.file("tonnage-provider.kubeconfig"), Namespace: capiNamespace, VolumeDetach: time.Minute}, "capi", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	f.Driver = d
	return f
}

// inMemory is the spec of a machine that takes a second to start, and its kubelet another.
func inMemory() map[string]any {
	takes := map[string]any{"provisioning": map[string]any{"startupDuration": "1s", "startupJitter": "0.5"}}
	return map[string]any{"backend": map[string]any{"inMemory": map[string]any{"vm": takes, "node": takes, "apiServer": takes, "etcd": takes}}}
}

func (f *devFleet) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"cluster.x-k8s.io/cluster-name": devCluster}}
}

func (f *devFleet) object(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	u := played.Object(kind)
	u.SetName(name)
	u.SetNamespace(capiNamespace)
	u.SetLabels(f.meta(name).Labels)
	u.Object["spec"] = spec
	return u
}

// newRSA makes an authority as Cluster API has them.
func newRSA(t *testing.T, name string) (crt, key []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

// machine is a machine of the in-memory backend, whose Nodes have no capacity.
func (f *devFleet) machine(id string) *driver.Machine {
	return &driver.Machine{ID: "dev/" + id, Generation: 1, LateBound: true, Offer: driver.Offer{
		Key: driver.Key{Pool: "p", InstanceType: hostType, Zone: zoneCheap, CapacityType: model.Spot}, Labels: map[string]string{"accelerator": "none"},
		Taints: []driver.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}},
		Template: fmt.Appendf(nil, `{"infrastructure": {"templateRef": {"apiGroup": %q, "kind": %q, "name": %q}}, "bootstrap": {"blob": {}}}`,
			devTemplates.Group, devTemplates.Kind, capiTemplate),
	}}
}

// each calls a verb for all machines, some at a time, until it is accepted.
func (f *devFleet) each(all []*driver.Machine, verb string, call func(m *driver.Machine) error) {
	f.t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, callsAtOnce)
	for _, m := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			deadline := time.Now().Add(*limit)
			for {
				err := call(m)
				if err == nil {
					return
				}
				if time.Now().After(deadline) {
					f.t.Errorf("%s %s: %v", verb, m.ID, err)
					return
				}
				again := time.NewTimer(time.Second)
				<-again.C
			}
		})
	}
	running.Wait()
}

// seen returns what is observed, by machine.
func (f *devFleet) seen() (map[string]driver.Observation, error) {
	out := map[string]driver.Observation{}
	err := f.Observe(f.t.Context(), func(o *driver.Observation) { out[o.ID] = *o })
	return out, err
}

// await waits until all machines are in a phase; 0 when they are to be no more.
func (f *devFleet) await(all []*driver.Machine, phase driver.Phase) time.Duration {
	f.t.Helper()
	return eventually(f.t, *limit, fmt.Sprintf("%d machines are %v", len(all), phase), func() string {
		have, err := f.seen()
		if err != nil {
			return err.Error()
		}
		n, why := 0, ""
		for _, m := range all {
			if o := have[m.ID]; o.Phase != phase {
				n, why = n+1, fmt.Sprintf("%s is %v: %s", m.ID, o.Phase, o.Reason)
			}
		}
		if n > 0 {
			return fmt.Sprintf("%d are not; %s", n, why)
		}
		return ""
	})
}

// TestCapiDev has machines of Cluster API's in-memory backend live through their lives, with what goes wrong with some, and with
// core controllers that are killed while machines come and go.
func TestCapiDev(t *testing.T) {
	want(t, "capi-dev")
	f := newDevFleet(t)
	ctx := t.Context()
	var all []*driver.Machine
	for i := range *machines {
		all = append(all, f.machine(fmt.Sprint(i)))
	}
	begun := time.Now()
	half := len(all) / 2
	configure := func(m *driver.Machine) error { return f.Configure(ctx, m, bind(devCluster, []byte("none"))) }
	f.each(all[:half], "Configure", configure)
	f.m.core.kill()
	f.m.core.start()
	f.each(all[half:], "Configure", configure)
	f.await(all, driver.Configured)
	t.Logf("%d machines were Configured after %.1f s", len(all), time.Since(begun).Seconds())

	f.faults(all)
	rest := all[2:]
	begun = time.Now()
	half = len(rest) / 2
	f.each(rest[:half], "Drain", func(m *driver.Machine) error { return f.Drain(ctx, m, time.Now().Add(time.Minute)) })
	f.m.core.kill()
	f.m.core.start()
	f.each(rest[half:], "Delete", func(m *driver.Machine) error { return f.Delete(ctx, m) })
	f.await(rest, 0)
	t.Logf("%d machines were drained or deleted after %.1f s", len(rest), time.Since(begun).Seconds())
	f.nothingLeft()
	f.checkLives(all)
}

// faults deletes the Machine of one machine, and the infrastructure of another.
func (f *devFleet) faults(all []*driver.Machine) {
	f.t.Helper()
	remove := func(kind schema.GroupVersionKind, m *driver.Machine) {
		ctx, cancel := brief()
		defer cancel()
		if err := f.m.client.Delete(ctx, f.object(kind, driver.ObjectName(m.ID, m.Generation), nil)); err != nil {
			f.t.Fatal(err)
		}
	}
	remove(capiKinds.WithKind("Machine"), all[0])
	f.t.Logf("a Machine that somebody deleted was out of the listing after %.1f s", f.await(all[:1], 0).Seconds())
	remove(devMachines, all[1])
	f.await(all[1:2], driver.Failed)
	have, err := f.seen()
	if err != nil {
		f.t.Fatal(err)
	}
	if o := have[all[1].ID]; !strings.Contains(o.Reason, "is gone") {
		f.t.Errorf("of a machine without infrastructure it is said: %s", o.Reason)
	}
	if err := f.Delete(f.t.Context(), all[1]); err != nil {
		f.t.Error(err)
	}
	f.await(all[1:2], 0)
}

// nothingLeft waits until nothing is left of machines: no Machine, no infrastructure, no bootstrap data.
func (f *devFleet) nothingLeft() {
	f.t.Helper()
	eventually(f.t, *limit, "nothing is left", func() string {
		for _, x := range []struct{ apiVersion, kind string }{{capiKinds.String(), "Machine"}, {devKinds.String(), devMachines.Kind}, {"v1", "Secret"}} {
			left, err := f.m.all(x.apiVersion, x.kind, client.MatchingLabels{kube.LabelScope: "capi"})
			if err != nil {
				return err.Error()
			}
			if len(left) > 0 {
				return fmt.Sprintf("there are %d of %s, one is %s", len(left), x.kind, left[0].GetName())
			}
		}
		return ""
	})
}

// checkLives holds that each machine was made once, with as many writes as a life may take.
func (f *devFleet) checkLives(all []*driver.Machine) {
	f.t.Helper()
	writes, made := map[string]int{}, map[string]int{}
	f.m.eachWrite(func(x *write) {
		if x.UserAgent == kube.UserAgent && x.ResponseStatus.Code < 300 {
			writes[x.ObjectRef.Name]++
			if x.ObjectRef.Resource == "machines" && x.Verb == "create" {
				made[x.ObjectRef.Name]++
			}
		}
	})
	most := 0
	for _, m := range all {
		name := driver.ObjectName(m.ID, m.Generation)
		most = max(most, writes[name])
		if made[name] != 1 || writes[name] > devWritesMax {
			f.t.Errorf("%s was made %d times, and written %d times in the management cluster; at most %d are allowed", name, made[name], writes[name], devWritesMax)
		}
	}
	f.t.Logf("%d lives of machines took %d writes each at most in the management cluster", len(all), most)
}
