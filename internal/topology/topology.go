package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// CPU is one processor that the process may use: a hardware thread.
type CPU struct {
	ID      int // the kernel's number
	Node    int // NUMA node
	Package int // socket
	Core    int // the lowest number of the CPUs on the same core
	// Thread counts the CPUs of the core that the process may use and that have
	// lower numbers: 0 for the first.
	Thread int
}

// Node is one NUMA node. Nodes without memory, or without CPUs, are nodes.
type Node struct {
	ID          int
	MemoryBytes int64 // 0 when it has none, or none that the process may use, or nothing says
	distance    []int // to every node that is online, in their order
}

// Topology is what the process may use of a machine.
type Topology struct {
	CPUs  []CPU  // by ID; at least one
	Nodes []Node // by ID; at least one, all that are online
	// Quota is the processor time that the cgroup gives, in CPUs; 0 when it
	// sets no limit.
	Quota float64
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// Host reads the machine that this process runs on, as the calling thread may
// use it: not to be called by a pinned worker. It fails on systems other than
// Linux; a nil Topology leaves all workers where they are.
func Host() (*Topology, error) { return Read(os.DirFS("/")) }

// Read reads the files below a root. An error names the file.
func Read(root fs.FS) (*Topology, error) {
	t := new(Topology)
	usable, nodes, err := mask(root)
	if err != nil {
		return nil, err
	}
	if t.Quota, err = quota(root); err != nil {
		return nil, err
	}
	if err := t.readNodes(root, nodes); err != nil {
		return nil, err
	}
	if err := t.readCPUs(root, usable); err != nil {
		return nil, err
	}
	return t, nil
}

// mask returns the CPUs that are online and that the process may use, and the
// nodes whose memory it may use (nil: all).
func mask(root fs.FS) (cpus, nodes []int, err error) {
	cpus, err = readList(root, cpuDir+"/online")
	if err != nil {
		return nil, nil, fmt.Errorf("topology: %w", err)
	}
	status, err := fs.ReadFile(root, "proc/thread-self/status")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("topology: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "Cpus_allowed_list" && name != "Mems_allowed_list" {
			continue
		}
		allowed, err := parseList(value)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("topology: proc/thread-self/status: %s: %w", name, err)
		case name == "Cpus_allowed_list":
			cpus = intersect(cpus, allowed)
		default:
			nodes = allowed
		}
	}
	inGroup, limited, err := cpuset(root)
	if err != nil {
		return nil, nil, err
	}
	if limited {
		cpus = intersect(cpus, inGroup)
	}
	if len(cpus) == 0 {
		return nil, nil, errors.New("topology: no CPU is online and allowed by both proc/thread-self/status and the cgroup's cpuset")
	}
	return cpus, nodes, nil
}

// readNodes reads the nodes that are online; those outside allowed (nil: all)
// have no memory for us.
func (t *Topology) readNodes(root fs.FS, allowed []int) error {
	online, err := readList(root, nodeDir+"/online")
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(online) == 0 {
		t.Nodes = []Node{{ID: 0}} // a kernel without NUMA
		return nil
	}
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	for _, id := range online {
		n := Node{ID: id}
		if n.MemoryBytes, err = nodeMemory(root, id); err != nil {
			return err
		}
		if _, found := slices.BinarySearch(allowed, id); allowed != nil && !found {
			n.MemoryBytes = 0
		}
		n.distance = distances(root, id)
		t.Nodes = append(t.Nodes, n)
	}
	return nil
}

// nodeMemory returns MemTotal of a node's meminfo, in bytes.
func nodeMemory(root fs.FS, node int) (int64, error) {
	name := fmt.Sprintf("%s/node%d/meminfo", nodeDir, node)
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, fmt.Errorf("topology: %w", err)
	}
	for line := range strings.Lines(string(text)) { // Node 0 MemTotal:  32768 kB
		if f := strings.Fields(line); len(f) == 5 && f[2] == "MemTotal:" && f[4] == "kB" {
			kib, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
				return 0, fmt.Errorf("topology: %s: MemTotal is %q", name, f[3])
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("topology: %s has no line MemTotal", name)
}

// distances returns a node's distances, nil when they are not to be had: all
// nodes then are equally far.
func distances(root fs.FS, node int) []int {
	text, err := fs.ReadFile(root, fmt.Sprintf("%s/node%d/distance", nodeDir, node))
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range strings.Fields(string(text)) {
		d, err := strconv.Atoi(f)
		if err != nil {
			return nil
		}
		out = append(out, d)
	}
	return out
}

func (t *Topology) readCPUs(root fs.FS, usable []int) error {
	nodeOf := map[int]int{}
	for _, n := range t.Nodes {
		list, err := readList(root, fmt.Sprintf("%s/node%d/cpulist", nodeDir, n.ID))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("topology: %w", err)
		}
		for _, cpu := range list {
			nodeOf[cpu] = n.ID
		}
	}
	onCore := map[int]int{} // how many usable CPUs of the core were seen
	for _, id := range usable {
		c := CPU{ID: id, Node: t.Nodes[0].ID, Core: id}
		if node, known := nodeOf[id]; known {
			c.Node = node
		}
		dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, id)
		if siblings, err := readList(root, dir+"thread_siblings_list"); err == nil && slices.Contains(siblings, id) {
			c.Core = siblings[0]
		}
		if list, err := readList(root, dir+"physical_package_id"); err == nil && len(list) == 1 {
			c.Package = list[0] // virtual machines may say -1, or nothing
		}
		c.Thread = onCore[c.Core]
		onCore[c.Core]++
		t.CPUs = append(t.CPUs, c)
	}
	return nil
}

// readList reads a file that holds a list. The error names the file.
func readList(root fs.FS, name string) ([]int, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	list, err := parseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}
