package main

import (
	"runtime"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/topology"
)

// TestPinnedWorkersGetMemoryNearThem: the engine is told the node of each worker's
// place; on a machine without a choice, and of workers that stay untied, any.
func TestPinnedWorkersGetMemoryNearThem(t *testing.T) {
	const memory = 1 << 30
	sockets := func(n int) *topology.Topology {
		x := new(topology.Topology)
		for i := range n {
			x.Nodes = append(x.Nodes, topology.Node{ID: i, MemoryBytes: memory})
			x.CPUs = append(x.CPUs, topology.CPU{ID: 2 * i, Node: i, Core: 2 * i}, topology.CPU{ID: 2*i + 1, Node: i, Core: 2*i + 1})
		}
		return x
	}
	for _, c := range []struct {
		says string
		host *topology.Topology
		want []int
	}{
		{"one socket", sockets(1), []int{-1, -1, -1, -1, -1}},
		{"two sockets", sockets(2), []int{-1, 1, 0, 1, -1}},
	} {
		opts := engine.DefaultOptions()
		opts.Workers = len(c.want)
		pinOn(c.host, &opts, nil)
		if opts.Pin == nil || !slices.Equal(opts.Nodes, c.want) {
			t.Errorf("%s: nodes %v, want %v; pinned: %v", c.says, opts.Nodes, c.want, opts.Pin != nil)
		}
		if err := opts.Validate(); err != nil {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	opts := engine.DefaultOptions()
	if err := pinWorkers(&opts, false, nil); err != nil || opts.Pin != nil || opts.Nodes != nil {
		t.Errorf("without --pin: %v, nodes %v, pinned: %v", err, opts.Nodes, opts.Pin != nil)
	}
}

// TestWorkersLeaveRoomForAnswers: beside the workers of a server something else may
// run, unless GOMAXPROCS says how much may; a second server adds nothing to that.
func TestWorkersLeaveRoomForAnswers(t *testing.T) {
	was, all := runtime.GOMAXPROCS(processors), min(processors, engine.WorkersMax)
	defer runtime.GOMAXPROCS(was)
	for _, c := range []struct {
		says                     string
		set                      string
		workers, shards          int
		wantWorkers, wantAtATime int
	}{
		{"GOMAXPROCS is set", "1", 0, 1, all, processors},
		{"nothing is set", "", 0, 1, all, processors + 1},
		{"once more", "", 0, 1, all, processors + 1},
		{"the workers are given", "", 7, 3, 7, processors + 1},
		{"more shards than processors", "", 0, 1000 * processors, 1, processors + 1},
	} {
		t.Setenv("GOMAXPROCS", c.set)
		opts := engine.DefaultOptions()
		opts.Workers = c.workers
		runBeside(&opts, c.shards)
		if got := runtime.GOMAXPROCS(0); got != c.wantAtATime || opts.Workers != c.wantWorkers {
			t.Errorf("%s: %d workers, %d at a time; want %d, %d", c.says, opts.Workers, got, c.wantWorkers, c.wantAtATime)
		}
	}
}
