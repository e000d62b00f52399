package trace

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

const nodesMax = 500_000

// Prices per hour of owned nodes: what they draw, at 10 cents a kilowatt-hour.
const (
	plainNodePrice = 0.10 // 1 kW
	gpuNodePrice   = 0.50 // 5 kW
)

// ownedZone is where all nodes of the trace stand; the trace names no zones.
const ownedZone = "openb"

var (
	nodeColumns     = schema{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	topologyColumns = schema{"ip", "DSW", "PSW", "ASW"}
)

// readNodes reads the nodes of the trace as machines in the state Idle; the
// caller sets since when. racks are given out in order.
func readNodes(dir string) ([]model.Machine, error) {
	racks, err := readRacks(filepath.Join(dir, "..", "topology"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "openb_node_list_all_node.csv")
	t, err := openTable(path, nodeColumns)
	if err != nil {
		return nil, err
	}
	var out []model.Machine
	shapes := map[nodeShape]*model.Machine{}
	seen := map[string]bool{}
	for t.next() {
		m := readNode(t, shapes)
		if seen[m.ID] {
			t.fault("sn", "a second node %q; remove one", m.ID)
		}
		seen[m.ID] = true
		if out = append(out, m); len(out) > nodesMax {
			t.fault("sn", "more than %d nodes; split the list", nodesMax)
		}
	}
	if err := t.close(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the list has no nodes; take the file from the trace again", path)
	}
	place(out, racks)
	return out, nil
}

// nodeShape is what nodes are alike in.
type nodeShape struct {
	cpuMilli, memory, gpus int64
	model                  string
}

// instanceType names the shape: cores, GiB and GPUs.
func (s nodeShape) instanceType() string {
	name := fmt.Sprintf("openb-%dc-%dg", s.cpuMilli/1000, s.memory/1024)
	if s.gpus > 0 {
		name += fmt.Sprintf("-%dx%s", s.gpus, strings.ToLower(s.model))
	}
	return name
}

// readNode reads the current row; nodes of one shape share their resources and
// instance type.
func readNode(t *table, shapes map[nodeShape]*model.Machine) model.Machine {
	cpu, memory := t.whole("cpu_milli", cpuMilliMax), t.whole("memory_mib", memoryMax)
	gpus, gpuModel := t.whole("gpu", gpusMax), t.text("model")
	id := t.text("sn")
	switch {
	case id == "":
		t.fault("sn", "is empty; give the node an id")
	case cpu == 0:
		t.fault("cpu_milli", "a node needs a cpu; correct it")
	case gpus > 0 && gpuModel == "":
		t.fault("model", "a node with GPUs needs a model; name it")
	case gpus == 0 && gpuModel != "":
		t.fault("model", "a node without GPUs has the model %q; remove it or count the GPUs", gpuModel)
	}
	shape := nodeShape{cpu, memory, gpus, gpuModel}
	m := shapes[shape]
	if m == nil {
		m = &model.Machine{
			State:        model.Idle,
			CapacityType: model.BareMetal,
			InstanceType: shape.instanceType(),
			Zone:         ownedZone,
			Resources:    resources(cpu, memory*mib, gpus*1000),
			Labels:       map[string]string{keyModel: gpuModel},
			PricePerHour: plainNodePrice,
		}
		if gpus > 0 {
			m.PricePerHour = gpuNodePrice
		}
		shapes[shape] = m
	}
	node := *m
	node.ID, node.Host = id, id
	return node
}

func resources(cpuMilli, memory, gpuMilli int64) model.Resources {
	return model.NewResources(
		model.Amount{Name: dimCPU, Value: cpuMilli},
		model.Amount{Name: dimMemory, Value: memory},
		model.Amount{Name: dimGPU, Value: gpuMilli},
	)
}

// rack is one access switch of the network and how many hosts hang on it.
type rack struct {
	name, block string
	hosts       int
}

// readRacks reads the network, racks in the order of their switches.
func readRacks(dir string) ([]rack, error) {
	path := filepath.Join(dir, "lingjun_topo.csv")
	t, err := openTable(path, topologyColumns)
	if err != nil {
		return nil, err
	}
	type key struct{ dsw, psw, asw string }
	hosts := map[key]int{}
	for t.next() {
		hosts[key{t.text("DSW"), t.text("PSW"), t.text("ASW")}]++
	}
	if err := t.close(); err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s: the network has no hosts; take the file from the trace again", path)
	}
	keys := make([]key, 0, len(hosts))
	for k := range hosts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(bySwitch(a.dsw, b.dsw), bySwitch(a.psw, b.psw), bySwitch(a.asw, b.asw))
	})
	racks := make([]rack, len(keys))
	for i, k := range keys {
		block := k.dsw + "-" + k.psw
		racks[i] = rack{name: block + "-" + k.asw, block: block, hosts: hosts[k]}
	}
	return racks, nil
}

// bySwitch orders switch names by their number: P8 before P10.
func bySwitch(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// place gives every node its rack: the n-th of N nodes hangs where the network
// has its host n/N of the way through. Nodes of a rack and model share labels.
func place(nodes []model.Machine, racks []rack) {
	total := 0
	for _, r := range racks {
		total += r.hosts
	}
	labels := map[string]map[string]string{}
	at, before := 0, 0 // current rack, hosts in front of it
	for i := range nodes {
		host := i * total / len(nodes)
		for host >= before+racks[at].hosts {
			before += racks[at].hosts
			at++
		}
		gpuModel := nodes[i].Labels[keyModel]
		key := racks[at].name + "|" + gpuModel
		if labels[key] == nil {
			labels[key] = map[string]string{keyRack: racks[at].name, keyBlock: racks[at].block}
			if gpuModel != "" {
				labels[key][keyModel] = gpuModel
			}
		}
		nodes[i].Labels = labels[key]
	}
}
