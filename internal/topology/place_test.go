package topology

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestPlansOnRandomMachines holds plans to what is promised, on machines with
// CPUs switched off at random.
func TestPlansOnRandomMachines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TONNAGE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("TONNAGE_SEED=%d repeats this run", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		m := machine{sockets: 1 + rng.IntN(4), cores: 1 + rng.IntN(6), threads: 1 + rng.IntN(3)}
		all := m.sockets * m.cores * m.threads
		for cpu := 1; cpu < all; cpu++ {
			if rng.IntN(4) == 0 {
				m.offline = append(m.offline, cpu)
			}
		}
		for node := range m.sockets {
			if rng.IntN(5) == 0 {
				m.memoryless = append(m.memoryless, node)
			}
		}
		topo, err := Read(m.tree())
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 {
			topo.Quota = rng.Float64() * float64(all)
		}
		holdToPromise(t, m, topo, topo.Workers(rng.IntN(all+3)))
		if t.Failed() {
			t.Fatalf("machine %+v, quota %v", m, topo.Quota)
		}
	}
}

// holdToPromise checks each prefix of a plan: distinct usable CPUs, no second
// thread while a core is free, nodes even as far as they have cores.
func holdToPromise(t *testing.T, m machine, topo *Topology, places []Place) {
	t.Helper()
	byID := map[int]CPU{}
	for _, c := range topo.CPUs {
		byID[c.ID] = c
	}
	taken, perNode := map[int]bool{}, map[int]int{}
	for i, p := range places {
		if p.CPU == NoCPU {
			if i < topo.Width() || p.Node != AnyNode {
				t.Errorf("worker %d of %d is left alone: %v", i, topo.Width(), p)
			}
			continue
		}
		c, usable := byID[p.CPU]
		if !usable || taken[p.CPU] || i >= topo.Width() {
			t.Errorf("worker %d on CPU %d: usable %v, taken %v, of %d", i, p.CPU, usable, taken[p.CPU], topo.Width())
		}
		for _, other := range topo.CPUs {
			switch {
			case taken[other.ID]:
			case other.Thread < c.Thread:
				t.Errorf("worker %d on thread %d of a core, and thread %d on CPU %d is free", i, c.Thread, other.Thread, other.ID)
			case other.Thread == c.Thread && perNode[other.Node] < perNode[c.Node]:
				t.Errorf("worker %d on node %d with %d, and node %d has %d", i, c.Node, perNode[c.Node], other.Node, perNode[other.Node])
			}
		}
		if p.Node != AnyNode && slices.Contains(m.memoryless, p.Node) || p.Node != c.Node && p.Node != AnyNode && !slices.Contains(m.memoryless, c.Node) {
			t.Errorf("worker %d of node %d takes memory from %d; without any are %v", i, c.Node, p.Node, m.memoryless)
		}
		taken[p.CPU] = true
		perNode[c.Node]++
	}
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8", "3-1", "0-8191", "1,1", "-1", "0-3,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseList(text)
		if err != nil {
			return
		}
		for i, n := range list {
			if n < 0 || n > NumberMax || i > 0 && n <= list[i-1] {
				t.Fatalf("%q gives %v", text, list)
			}
		}
	})
}
