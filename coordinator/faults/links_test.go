package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// What is sent into a cut is sent again later and later, and a connection carries
// nothing else until then: for up to as long as the cut lasted, whom it has cut off
// still cannot talk to all others. A leader that is broken before that leaves two
// replicas that do not hear each other.

// settle waits until nothing between replicas waits to be sent again.
func (g *group) settle() {
	g.t.Helper()
	eventually(g.t, 30*time.Second, "replicas talk to each other", func(context.Context) bool {
		for _, n := range g.nodes {
			if again, err := n.sendsAgain(); err != nil {
				g.t.Fatal(err)
			} else if again {
				return false
			}
		}
		return true
	})
}

// States of connections, as the kernel numbers them.
const (
	established = "01"
	connecting  = "02"
)

// sendsAgain reports whether a connection of a replica in a namespace of its own, to or
// from another, has sent something that was not acknowledged in time.
func (n *node) sendsAgain() (bool, error) {
	if n.netns == "" {
		return false, nil // there is nothing that could cut it off
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", n.cmd.Process.Pid))
	if err != nil {
		return false, err
	}
	_, at, err := net.SplitHostPort(n.raft) // the same in every namespace
	if err != nil {
		return false, err
	}
	number, err := strconv.Atoi(at)
	if err != nil {
		return false, err
	}
	port := fmt.Sprintf(":%04X", number)
	for _, line := range strings.Split(string(raw), "\n")[1:] {
		// Number, local, remote, state, queues, timer, how often sent again.
		f := strings.Fields(line)
		if len(f) < 7 || f[3] != established && f[3] != connecting {
			continue
		}
		if (strings.HasSuffix(f[1], port) || strings.HasSuffix(f[2], port)) && strings.Trim(f[6], "0") != "" {
			return true, nil
		}
	}
	return false, nil
}
