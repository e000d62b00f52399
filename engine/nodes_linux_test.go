//go:build linux && (amd64 || arm64) && !purego && !race && !msan && !asan

package engine_test

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/pin"
	"github.com/tonnage/tonnage/internal/topology"
	"github.com/tonnage/tonnage/internal/twin"
)

// decided returns an engine that has decided about an input by so many workers,
// and the digest of its plan.
func decided(t *testing.T, in engine.Input, workers int, pin func(int), nodes []int) (*engine.Engine, uint64) {
	t.Helper()
	opts := engine.DefaultOptions()
	opts.Workers, opts.Pin, opts.Nodes = workers, pin, nodes
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	return e, plan.Digest()
}

// smallFleet is one that needs no mapped memory.
func smallFleet(t *testing.T) engine.Input {
	t.Helper()
	w := fleet.Random(3, fleet.Small)
	s, d, _, err := twin.Tables(inputOf(w))
	if err != nil {
		t.Fatal(err)
	}
	return engine.Input{Supply: s, Demand: d, Now: w.Now}
}

// mappedBytes is what arenas are asked for: more than they keep on the heap.
const mappedBytes = 2 * alloc.ChunkBytes

// TestNodesAreAskedForWorkersOwnArenas: a node that no system has is refused for
// what is asked to lie there, and for nothing else. It never changes a plan.
func TestNodesAreAskedForWorkersOwnArenas(t *testing.T) {
	const nowhere = 1023
	in := smallFleet(t)
	_, want := decided(t, in, 3, nil, nil)
	before := alloc.Mapped()
	e, got := decided(t, in, 3, nil, []int{alloc.AnyNode, nowhere}) // nothing is said of the third
	if got != want {
		t.Errorf("the plan has digest %016x, without nodes %016x", got, want)
	}
	if now := alloc.Mapped(); now.Misplaced != before.Misplaced {
		t.Errorf("%d chunks were refused their node, and the fleet is too small for any", now.Misplaced-before.Misplaced)
	}
	refusals := make([]int64, 3)
	for worker := range refusals { // one after the other: the count is the process's
		before := alloc.Mapped().Misplaced
		e.OnWorkers(func(w int, own [2]*alloc.Arena, shared *alloc.Arena) {
			if w != worker {
				return
			}
			for _, a := range append(own[:], shared) {
				alloc.MakeDirty[byte](a, mappedBytes)[0] = 1 // it serves all the same
			}
		})
		refusals[worker] = alloc.Mapped().Misplaced - before
	}
	if !slices.Equal(refusals, []int64{0, 2, 0}) {
		t.Errorf("chunks refused their node, by worker: %v, want both of the second's", refusals)
	}
}

// TestArenasLieWhereTheirWorkersRun starts a worker for every CPU of the machine,
// lets the engine decide, and asks the system for the node that each worker runs
// on, and for those of the pages that its own arenas get.
func TestArenasLieWhereTheirWorkersRun(t *testing.T) {
	host, err := topology.Host()
	if err != nil {
		t.Fatal(err)
	}
	places := host.Workers(host.Width())
	nodes := []int{alloc.AnyNode} // the first is not tied
	for _, p := range places[1:] {
		nodes = append(nodes, p.Node)
	}
	if !slices.ContainsFunc(nodes, func(node int) bool { return node != alloc.AnyNode }) {
		t.Skip("there is no choice of nodes here; make test-numa has one")
	}
	refused := alloc.Mapped().Misplaced
	e, _ := decided(t, smallFleet(t), len(places), pin.Hook(places, func(worker int, err error) { t.Errorf("worker %d: %v", worker, err) }), nodes)
	e.OnWorkers(func(worker int, own [2]*alloc.Arena, _ *alloc.Arena) {
		for _, a := range own {
			memory := alloc.MakeDirty[byte](a, mappedBytes)
			if node, got := currentNode(t), nodesOfPages(t, memory); worker > 0 && (node != nodes[worker] || !slices.Equal(got, []int{node})) {
				t.Errorf("worker %d runs on node %d, its memory lies on %v; want both on %d", worker, node, got, nodes[worker])
			}
		}
	})
	if got := alloc.Mapped().Misplaced - refused; got != 0 {
		t.Errorf("%d chunks were refused their node", got)
	}
	t.Logf("arenas of workers lie on nodes %v", nodes)
}

// currentNode returns the node that the calling thread runs on.
func currentNode(t *testing.T) int {
	var cpu, node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		t.Errorf("getcpu: %v", errno)
	}
	return int(node)
}

// nodesOfPages returns the nodes that pages of the memory lie on, each once; a
// page that is not there gives a negative number.
func nodesOfPages(t *testing.T, memory []byte) (out []int) {
	page := unix.Getpagesize()
	addresses, status := make([]unsafe.Pointer, len(memory)/page), make([]int32, len(memory)/page)
	for i := range addresses {
		addresses[i] = unsafe.Pointer(&memory[i*page])
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(addresses)), uintptr(unsafe.Pointer(unsafe.SliceData(addresses))), 0, uintptr(unsafe.Pointer(unsafe.SliceData(status))), 0)
	if errno != 0 {
		t.Errorf("move_pages: %v", errno)
	}
	for _, node := range status {
		if !slices.Contains(out, int(node)) {
			out = append(out, int(node))
		}
	}
	return out
}
