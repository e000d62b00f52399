package kubee2e

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/provider/kube"
)

// takeBack has the cloud take so many machines of green back: their kubelets fall silent, and what looks after nodes of
// machines that are gone deletes the nodes.
func (f *handsFleet) takeBack(n int) map[string]bool {
	f.t.Helper()
	c, w := f.clusters[1], f.watches[1]
	w.mu.Lock()
	var nodes []*corev1.Node
	for _, node := range w.nodes {
		if len(nodes) < n {
			nodes = append(nodes, node)
		}
	}
	w.mu.Unlock()
	lost := map[string]bool{}
	for _, node := range nodes {
		f.silence(c, node.Name)
		lost[node.Name] = true
	}
	for name := range lost {
		ctx, cancel := brief()
		if err := c.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			f.t.Fatal(err)
		}
		cancel()
	}
	return lost
}

// silence has kwok let a node go, and the node not be ready.
func (f *handsFleet) silence(c *cluster, name string) {
	f.t.Helper()
	ctx, cancel := brief()
	defer cancel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := func(text string) client.Patch { return client.RawPatch(types.StrategicMergePatchType, []byte(text)) }
	err := c.client.Patch(ctx, node, patch(`{"metadata": {"labels": {"type": null}}}`))
	if err == nil {
		err = c.client.Status().Patch(ctx, node, patch(`{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}`))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// writesMax is how many writes by the provider a machine's life may take.
const writesMax = 6

// checkWrites holds that the provider has written to each object of a resource, which are named after a making of a machine,
// at most so often as is allowed, and has made each once. more are clusters beside those of the fleet.
func (f *handsFleet) checkWrites(resource string, more ...*cluster) {
	f.t.Helper()
	writes, made := map[string]int{}, map[string]int{}
	unanswered := map[string]bool{} // creates whose caller was killed: they may be done, and are logged as failed
	for _, c := range slices.Concat(f.clusters, more) {
		c.eachWrite(func(x *write) {
			creates := x.ObjectRef.Resource == resource && x.Verb == "create"
			switch code := x.ResponseStatus.Code; {
			case x.UserAgent != kube.UserAgent:
			case code == 0 || code >= 500:
				unanswered[x.ObjectRef.Name] = unanswered[x.ObjectRef.Name] || creates
			case code < 300:
				writes[x.ObjectRef.Name]++
				if creates {
					made[x.ObjectRef.Name]++
				}
			}
		})
	}
	most, lost := 0, 0
	for name, n := range writes {
		if made[name] == 0 && unanswered[name] {
			made[name], lost, n = 1, lost+1, n+1
		}
		most = max(most, n)
		if n > writesMax || made[name] != 1 {
			f.t.Errorf("%s was made %d times, and written %d times; at most %d are allowed", name, made[name], n, writesMax)
		}
	}
	if len(writes) < int(f.demand[hostType]) {
		f.t.Errorf("writes to %d objects are logged, there were %d machines at least", len(writes), f.demand[hostType])
	}
	f.t.Logf("%d lives of machines took %d writes each at most; %d of them began with a create whose caller was killed before it was answered", len(writes), most, lost)
}

// write is a line of an API server's audit log.
type write struct {
	Verb           string
	UserAgent      string
	ObjectRef      struct{ Resource, Name string }
	ResponseStatus struct{ Code int }
}

// eachWrite reads the audit log of a cluster.
func (c *cluster) eachWrite(see func(x *write)) {
	c.t.Helper()
	file, err := os.Open(c.auditFile())
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var x write
		if json.Unmarshal(s.Bytes(), &x) == nil {
			see(&x)
		}
	}
	if err := s.Err(); err != nil {
		c.t.Fatal(err)
	}
}
