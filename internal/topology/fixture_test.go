package topology

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
)

// machine describes the files of one, as Linux writes them.
type machine struct {
	sockets, cores, threads int // a node per socket; threads per core, cores per socket
	offline                 []int
	memoryless              []int             // nodes
	files                   map[string]string // further ones, "" removes
}

// tree writes the machine's files. CPUs are numbered as on x86: the first
// threads of all cores, socket by socket, then the second ones.
func (m machine) tree() fs.FS {
	f := map[string]string{}
	all := m.sockets * m.cores
	gone := func(cpu int) bool { return slices.Contains(m.offline, cpu) }
	var online []string
	perNode := make([][]string, m.sockets)
	for cpu := range all * m.threads {
		if gone(cpu) {
			continue // it keeps its folder, without topology
		}
		core := cpu % all
		name := strconv.Itoa(cpu)
		online = append(online, name)
		perNode[core/m.cores] = append(perNode[core/m.cores], name)
		var siblings []string
		for thread := range m.threads {
			if s := core + thread*all; !gone(s) {
				siblings = append(siblings, strconv.Itoa(s))
			}
		}
		dir := cpuDir + "/cpu" + name + "/topology/"
		f[dir+"thread_siblings_list"] = strings.Join(siblings, ",") + "\n"
		f[dir+"physical_package_id"] = fmt.Sprintln(core / m.cores)
	}
	f[cpuDir+"/online"] = strings.Join(online, ",") + "\n"
	f[nodeDir+"/online"] = fmt.Sprintf("0-%d\n", m.sockets-1)
	if m.sockets == 1 {
		f[nodeDir+"/online"] = "0\n"
	}
	for node := range m.sockets {
		dir := fmt.Sprintf("%s/node%d/", nodeDir, node)
		kib := 16 << 20
		if slices.Contains(m.memoryless, node) {
			kib = 0
		}
		f[dir+"cpulist"] = strings.Join(perNode[node], ",") + "\n"
		f[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        7 kB\n", node, kib, node)
		var distance []string
		for other := range m.sockets {
			distance = append(distance, strconv.Itoa(10+11*max(node-other, other-node)))
		}
		f[dir+"distance"] = strings.Join(distance, " ") + "\n"
	}
	for name, text := range m.files {
		f[name] = text
	}
	out := fstest.MapFS{}
	for name, text := range f {
		if text != "" {
			out[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return out
}

// describe writes a topology on a line: each node with its CPUs, core by core,
// a second thread behind a plus.
func describe(t *Topology) string {
	var out []string
	for _, n := range t.Nodes {
		line := fmt.Sprintf("node%d", n.ID)
		if n.MemoryBytes == 0 {
			line += "(no memory)"
		}
		line += ":"
		for _, c := range t.CPUs {
			if c.Node == n.ID {
				line += fmt.Sprintf(" %d", c.ID)
				if c.Thread > 0 {
					line += fmt.Sprintf("+%d", c.Core)
				}
			}
		}
		out = append(out, line)
	}
	if t.Quota > 0 {
		out = append(out, fmt.Sprintf("quota %.4g", t.Quota))
	}
	return strings.Join(out, "; ")
}

// describePlaces writes CPU@node for each worker.
func describePlaces(places []Place) string {
	var out []string
	for _, p := range places {
		text := "free"
		if p.CPU != NoCPU {
			text = strconv.Itoa(p.CPU)
		}
		if p.Node != AnyNode {
			text += "@" + strconv.Itoa(p.Node)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}
