package kubee2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/benches/buying"
)

const (
	// turnover is the part of the pods that leaves, and is replaced by others, while pods come and go.
	turnover = 1.0 / 3
	// deployAt is when one shape is deployed anew, as a part of that time.
	deployAt = 0.4
	// readyAfter is how long a new pod of that deployment runs before an old one goes.
	readyAfter = 30

	gangPods    = 4  // of a gang
	podsPerGang = 60 // plain ones
	gangGPUsMax = 3  // a pod of a gang has 1, 2, 4 or 8 GPUs
)

// podsWorkload is what comes and goes. Equal seeds make equal workloads.
type podsWorkload struct {
	r      *rand.Rand
	shapes []buying.Pod // of plain pods
	counts []int        // by shape, as it should be now
	gangs  []gangOf     // that are there
	next   int          // number of the next gang
}

// gangOf is a gang of pods with GPUs that must be in one zone.
type gangOf struct {
	name string
	size buying.Pod
}

// newWorkload draws shapes and how many pods there are of each.
func newWorkload(t *testing.T, feed string, pods int, seed uint64) *podsWorkload {
	t.Helper()
	drawn, err := buying.Feed("plain", pods, seed)
	if err != nil {
		t.Fatal(err)
	}
	w := &podsWorkload{r: rand.New(rand.NewPCG(seed, 1))}
	for _, p := range drawn {
		at := slices.Index(w.shapes, p)
		if at < 0 {
			at = len(w.shapes)
			w.shapes, w.counts = append(w.shapes, p), append(w.counts, 0)
		}
		w.counts[at]++
	}
	switch feed {
	case "plain":
	case "gangs":
		for range max(2, pods/podsPerGang) {
			w.gangs = append(w.gangs, w.newGang())
		}
	default:
		t.Fatalf("-pods-feeds: no feed is called %q: there are plain and gangs", feed)
	}
	return w
}

func (w *podsWorkload) newGang() gangOf {
	g := int64(1) << w.r.IntN(gangGPUsMax+1)
	w.next++
	return gangOf{fmt.Sprintf("gang-%03d", w.next), buying.Pod{4000 * g, 16 << 10 * g, g, 1}}
}

// peak returns twice the pods of each shape, and twice the gangs' pods at the largest size: at no time are there more. A machine
// must be on offer for each.
func (w *podsWorkload) peak() (out []buying.Pod) {
	for i, n := range w.counts {
		for range 2 * n {
			out = append(out, w.shapes[i])
		}
	}
	for range 2 * len(w.gangs) * gangPods {
		out = append(out, buying.Pod{4000 << gangGPUsMax, 16 << 10 << gangGPUsMax, 1 << gangGPUsMax, 1})
	}
	return out
}

func shapeName(i int) string { return fmt.Sprintf("shape-%02d", i) }

// amounts is what a pod asks for, or a machine has, as Kubernetes writes it.
func amounts(of *[dims]int64) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(of[dimCPU], resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(of[dimMemory]<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(of[dimPods], resource.DecimalSI),
	}
	if of[dimGPU] > 0 {
		out[gpu] = *resource.NewQuantity(of[dimGPU], resource.DecimalSI)
	}
	return out
}

// deploymentOf is so many pods of one size.
func deploymentOf(name string, size buying.Pod, pods int32) *appsv1.Deployment {
	labels := map[string]string{kindLabel: name}
	asks := amounts(&size)
	delete(asks, corev1.ResourcePods)
	limits := corev1.ResourceList{}
	if n, some := asks[gpu]; some {
		limits[gpu] = n
	}
	surge, none := intstr.FromString("100%"), intstr.FromInt32(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: labels}, MinReadySeconds: readyAfter,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &none},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)),
					Containers:                    []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: asks, Limits: limits}}},
				},
			},
		},
	}
}

// deployment is the pods of a gang: all in one zone.
func (g *gangOf) deployment() *appsv1.Deployment {
	d := deploymentOf(g.name, g.size, gangPods)
	d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: d.Spec.Selector, TopologyKey: corev1.LabelTopologyZone}},
	}}
	return d
}

// churner has pods come and go.
type churner struct {
	f *fleet
	w *podsWorkload
	m *meter
}

func (d *churner) cluster() *cluster { return d.f.clusters[0] }

// fill makes all pods at once and waits until they run.
func (d *churner) fill() {
	d.f.t.Helper()
	d.m.begin("fill")
	d.f.record.mark("pods")
	for i, n := range d.w.counts {
		d.f.apply(d.cluster(), deploymentOf(shapeName(i), d.w.shapes[i], int32(n)))
	}
	for i := range d.w.gangs {
		d.f.apply(d.cluster(), d.w.gangs[i].deployment())
	}
	d.settled()
	d.f.record.mark("all run")
}

// settled waits until every pod that should be there runs.
func (d *churner) settled() {
	d.f.t.Helper()
	d.f.await("every pod runs", func() string {
		if pending := d.f.watches[0].pending(); len(pending) > 0 {
			return fmt.Sprintf("%d pods are pending, the first of %s", len(pending), pending[0])
		}
		if n, want := d.f.watches[0].running(""), d.wanted(); n < want {
			return fmt.Sprintf("%d of %d pods run", n, want)
		}
		return ""
	})
}

// wanted is how many pods there should be.
func (d *churner) wanted() int {
	n := gangPods * len(d.w.gangs)
	for _, c := range d.w.counts {
		n += c
	}
	return n
}

// churn has pods come and go at an even pace, and one shape be deployed anew.
func (d *churner) churn(whole time.Duration) {
	d.f.t.Helper()
	d.m.begin("churn")
	steps := max(1, int(turnover*float64(d.wanted()-gangPods*len(d.w.gangs))))
	swaps := int(turnover * float64(len(d.w.gangs)))
	tick := time.NewTicker(whole / time.Duration(steps))
	defer tick.Stop()
	for step := range steps {
		<-tick.C
		if step == int(deployAt*float64(steps)) {
			d.deploy()
		}
		d.leave()
		d.come()
		if swaps > 0 && (step+1)*swaps/steps > step*swaps/steps {
			d.swapGang()
		}
	}
}

// rest waits until every pod runs, and then for one more interval.
func (d *churner) rest() {
	d.f.t.Helper()
	d.m.begin("rest")
	d.f.record.mark("nothing comes and goes")
	d.settled()
	stood := time.NewTimer(2**interval + 2*configureLatency)
	<-stood.C
	d.m.finish()
}

// deploy replaces the pods of one shape by as many new ones; meanwhile there are twice as many.
func (d *churner) deploy() {
	d.f.t.Helper()
	at := d.w.r.IntN(len(d.w.shapes))
	d.f.record.mark(fmt.Sprintf("deploy of %d × %s", d.w.counts[at], shapeName(at)))
	d.patch(shapeName(at), `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
}

// leave has one pod go, whichever it is.
func (d *churner) leave() {
	d.f.t.Helper()
	names := d.f.watches[0].plainRunning()
	if len(names) == 0 {
		return
	}
	pod := names[d.w.r.IntN(len(names))]
	var at int
	if _, err := fmt.Sscanf(pod.kind, "shape-%02d", &at); err != nil {
		d.f.t.Fatal(err)
	}
	if d.w.counts[at] <= 1 {
		return
	}
	// Of the pods of a deployment that shrinks, the one that says that it is the cheapest to remove goes.
	eventually(d.f.t, *limit, "a pod is to go", func() string {
		ctx, cancel := brief()
		defer cancel()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.name}}
		err := d.cluster().client.Patch(ctx, p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1000"}}}`)))
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		return ""
	})
	d.w.counts[at]--
	d.m.left++
	d.patch(shapeName(at), fmt.Sprintf(`{"spec":{"replicas":%d}}`, d.w.counts[at]))
}

// come has one pod more.
func (d *churner) come() {
	d.f.t.Helper()
	at := d.w.r.IntN(len(d.w.shapes))
	d.w.counts[at]++
	d.patch(shapeName(at), fmt.Sprintf(`{"spec":{"replicas":%d}}`, d.w.counts[at]))
}

// swapGang has one gang go and another come.
func (d *churner) swapGang() {
	d.f.t.Helper()
	at := d.w.r.IntN(len(d.w.gangs))
	d.f.remove(d.cluster(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.w.gangs[at].name}})
	d.w.gangs[at] = d.w.newGang()
	d.m.left += gangPods
	d.f.record.mark(fmt.Sprintf("gang of %d × %d GPUs", gangPods, d.w.gangs[at].size[dimGPU]))
	d.f.apply(d.cluster(), d.w.gangs[at].deployment())
}

func (d *churner) patch(name, text string) {
	d.f.t.Helper()
	eventually(d.f.t, *limit, "a deployment is changed", func() string {
		ctx, cancel := brief()
		defer cancel()
		o := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := d.cluster().client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			return err.Error()
		}
		return ""
	})
}
