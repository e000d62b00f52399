package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/engine/model"
)

// The dimensions and label keys of the trace.
const (
	dimCPU    = "cpu"
	dimMemory = "memory"
	dimGPU    = "nvidia.com/gpu-milli" // thousandths of a GPU

	keyModel = "nvidia.com/gpu.product"
	keyRack  = "topology.kubernetes.io/rack"
	keyBlock = "topology.kubernetes.io/block"
)

const mib = int64(1) << 20

// Limits of the input; what exceeds them is refused.
const (
	podsMax     = 1_000_000
	cpuMilliMax = 10_000_000 // 10,000 cores
	memoryMax   = 64 << 20   // MiB: 64 TiB
	gpusMax     = 64         // of one pod or node
	secondsMax  = 100 * 365 * 86_400
)

// largestNormal is the commonest GPU node; pods beyond it are a size class of
// their own, for few nodes can take them.
const (
	largestNormalCPU    = 96_000
	largestNormalMemory = 393_216 * mib
)

// clockStart is the first deletion of the trace: pods that were gone by then
// are missing from the lists. Seconds.
const clockStart = 9_964_972

var (
	podColumns = schema{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"}
	// The list multigpu20 has resources only.
	bareColumns = schema{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
)

// quality is a quality of service and what it is worth.
type quality struct {
	name      string
	priority  int32
	interrupt float64 // dollars
	reclaim   float64 // dollars, before difficulty
}

// qualities in the order of rows.
var qualities = []quality{
	{"Guaranteed", 1_000_000, 4096, 4096},
	{"LS", 950_000, 1024, 1024},
	{"Burstable", 300_000, 64, 64},
	{"BE", 0, 0, 1},
}

// staticQuality is that of pods whose list states none.
const staticQuality = 2

// pod is one pod of the trace.
type pod struct {
	created, deleted int64 // seconds of the trace
	cpuMilli         int64
	memory           int64 // bytes
	gpuMilli         int64
	row              int32
}

// rowKind is what the pods of one row have in common.
type rowKind struct {
	quality int
	models  string // sorted, joined by '|'; empty = any
	class   class
}

// class is a size class.
type class struct {
	gpus  int // 0, 1 (also a share), 2 …
	large bool
}

// name returns the group of a row, as people read it.
func (k rowKind) name() string {
	gpus := "no GPU"
	switch {
	case k.class.gpus > 0 && k.models != "":
		gpus = k.models + " ×" + strconv.Itoa(k.class.gpus)
	case k.class.gpus > 0:
		gpus = "any GPU ×" + strconv.Itoa(k.class.gpus)
	}
	if k.class.large {
		gpus += " large"
	}
	return qualities[k.quality].name + " " + gpus
}

// difficulty is by how much more a machine is worth to a row than to one whose
// pods run anywhere: it doubles with every doubling of the GPUs, when pods name
// models, and when they are large.
func (k rowKind) difficulty() float64 {
	f := float64(max(k.class.gpus, 1))
	if k.models != "" {
		f *= 2
	}
	if k.class.large {
		f *= 2
	}
	return f
}

// profile makes the profile of a row.
func (k rowKind) profile() (*model.Profile, error) {
	q := qualities[k.quality]
	spec := model.ProfileSpec{Priority: q.priority, Interruption: model.BucketForDollars(q.interrupt)}
	switch {
	case k.models != "":
		spec.Requirements = []model.Requirement{{Key: keyModel, Operator: model.In, Values: strings.Split(k.models, "|")}}
	case k.class.gpus > 0:
		spec.Requirements = []model.Requirement{{Key: keyModel, Operator: model.Exists}}
	}
	spec.Reclamation = model.BucketForDollars(q.reclaim * k.difficulty())
	return model.NewProfile(spec)
}

// podList is a pod list, by cluster.
type podList struct {
	kinds    []rowKind
	profiles []*model.Profile
	clusters [][]pod // by creation
	pods     int
	end      int64 // the last change, seconds of the trace
}

// readPods reads a pod list and splits it over clusters.
func readPods(dir string, o Options) (*podList, error) {
	t, err := openTable(filepath.Join(dir, "openb_pod_list_"+o.List+".csv"), podColumns, bareColumns)
	if err != nil {
		return nil, err
	}
	l := &podList{clusters: make([][]pod, o.Clusters)}
	index := map[rowKind]int32{}
	for t.next() {
		p, kind, name := readPod(t, o.ArrivalsOnly)
		if l.pods++; l.pods > podsMax {
			t.fault("name", "more than %d pods; split the list", podsMax)
		}
		if t.err != nil {
			break
		}
		at, ok := index[kind]
		if !ok {
			at = int32(len(l.kinds))
			index[kind] = at
			l.kinds = append(l.kinds, kind)
		}
		p.row = at
		c := clusterOf(name, o)
		l.clusters[c] = append(l.clusters[c], p)
		l.end = max(l.end, p.created)
		if !o.ArrivalsOnly && p.deleted != never {
			l.end = max(l.end, p.deleted)
		}
	}
	if err := t.close(); err != nil {
		return nil, err
	}
	if l.pods == 0 {
		return nil, fmt.Errorf("%s: the list has no pods; take the file from the trace again", t.path)
	}
	return l, l.sort()
}

// never is the deletion of a pod that stays.
const never = int64(1) << 62

// readPod reads the current row.
func readPod(t *table, stay bool) (pod, rowKind, string) {
	p := pod{
		cpuMilli: t.whole("cpu_milli", cpuMilliMax),
		memory:   t.whole("memory_mib", memoryMax) * mib,
		deleted:  never,
	}
	gpus := t.whole("num_gpu", gpusMax)
	p.gpuMilli = gpus * t.whole("gpu_milli", 1000)
	k := rowKind{quality: staticQuality}
	if t.has("qos") {
		qos := t.text("qos")
		k.quality = slices.IndexFunc(qualities, func(q quality) bool { return q.name == qos })
		if k.quality < 0 {
			k.quality = 0
			t.fault("qos", "unknown quality of service %q; use Guaranteed, LS, Burstable or BE", qos)
		}
		k.models = modelSet(t.text("gpu_spec"))
		p.created = t.whole("creation_time", secondsMax)
		if deleted := t.whole("deletion_time", secondsMax); !stay {
			p.deleted = deleted
		}
	}
	if p.gpuMilli == 0 {
		gpus, k.models = 0, ""
	}
	k.class = class{gpus: int(gpus), large: p.cpuMilli > largestNormalCPU || p.memory > largestNormalMemory}
	return p, k, t.text("name")
}

// modelSet brings a list of models, joined by '|', to its canonical form.
func modelSet(s string) string {
	if s == "" {
		return ""
	}
	models := strings.Split(s, "|")
	slices.Sort(models)
	return strings.Join(slices.Compact(models), "|")
}

// clusterOf returns the cluster that a pod belongs to.
func clusterOf(name string, o Options) int {
	h := xxhash.New()
	if o.Seed != 0 {
		h.Write(binary.BigEndian.AppendUint64(nil, o.Seed))
	}
	h.WriteString(name)
	return int(h.Sum64() % uint64(o.Clusters))
}

// sort puts kinds in the order of rows and pods in the order of creation, and
// makes the profiles.
func (l *podList) sort() error {
	order := make([]int32, len(l.kinds))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := l.kinds[a], l.kinds[b]
		large := 0
		if x.class.large != y.class.large {
			large = 1
			if y.class.large {
				large = -1
			}
		}
		return cmp.Or(x.quality-y.quality, strings.Compare(x.models, y.models), x.class.gpus-y.class.gpus, large)
	})
	place := make([]int32, len(order))
	kinds := make([]rowKind, len(order))
	for i, was := range order {
		place[was] = int32(i)
		kinds[i] = l.kinds[was]
	}
	l.kinds = kinds
	for c := range l.clusters {
		for i := range l.clusters[c] {
			l.clusters[c][i].row = place[l.clusters[c][i].row]
		}
		slices.SortStableFunc(l.clusters[c], func(a, b pod) int { return cmp.Compare(a.created, b.created) })
	}
	for _, k := range l.kinds {
		p, err := k.profile()
		if err != nil {
			return fmt.Errorf("the models %q make no requirement: %w", k.models, err)
		}
		l.profiles = append(l.profiles, p)
	}
	return nil
}
