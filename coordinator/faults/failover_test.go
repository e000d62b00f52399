package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// failoverMax is what a failover may take: from the fault to the first command
// that another leader has made durable.
const failoverMax = 3 * time.Second

// failoverTries bounds how often a failover is tried until it keeps the limit.
const failoverTries = 3

var fastConnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 100 * time.Millisecond},
	MinConnectTimeout: 500 * time.Millisecond,
}

// shards registers three shards.
func (g *group) shards() {
	g.t.Helper()
	c := g.client()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := c.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			ack, err := bigfleet.NewCoordinatorClient(conn).ReportShard(ctx, &bigfleet.ShardReport{ShardId: fmt.Sprintf("s-%d", i), Cycle: 1, ShardEpoch: 1})
			if err == nil && !ack.GetAcknowledged() {
				return fmt.Errorf("the report was not taken")
			}
			return err
		})
		cancel()
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// failover is the time until a command is durable with a leader among those
// given.
func (g *group) failover(among []*node, mark string) time.Duration {
	g.t.Helper()
	return eventually(g.t, 20*time.Second, "another replica leads", func(ctx context.Context) bool {
		for _, n := range among {
			if g.assignOn(ctx, n, mark) == nil {
				return true
			}
		}
		return false
	})
}

func (g *group) assignOn(ctx context.Context, n *node, mark string) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	conn, err := grpc.NewClient(n.listen, g.dial...)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = bigfleet.NewCoordinatorClient(conn).AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: "mark", TopologyValue: mark, ShardId: cmp.Or(g.marks, "s-0")})
	return err
}

// fault breaks the leader and mends it again.
type fault struct {
	name   string
	strike func(g *group, n *node)
	mend   func(g *group, n *node)
}

var faults = []fault{
	{"kill -9", func(_ *group, n *node) { n.kill() }, func(g *group, n *node) { g.start(n) }},
	{"SIGSTOP", func(_ *group, n *node) { n.signal(syscall.SIGSTOP) }, func(_ *group, n *node) { n.signal(syscall.SIGCONT) }},
}

// breakLeader breaks and mends the leader, and holds the failover to its limit.
// Where other work takes the processor away, it may have to be tried again.
func (g *group) breakLeader(f fault, mark string) {
	g.t.Helper()
	limit := failoverMax
	if g.etcd != "" {
		limit = leaseFailoverMax
	}
	for range failoverTries {
		if g.breakOnce(f, mark) <= limit || raceEnabled {
			return
		}
	}
	g.t.Errorf("%s: %d failovers in a row took longer than %v", f.name, failoverTries, limit)
}

func (g *group) breakOnce(f fault, mark string) time.Duration {
	g.t.Helper()
	n := g.leader(g.nodes...)
	f.strike(g, n)
	took := g.failover(g.others(n), mark)
	g.t.Logf("%s of %s: another replica led after %v", f.name, n.id, took.Round(time.Millisecond))
	f.mend(g, n)
	g.whole(n)
	return took
}

// checkMarks: what was answered is still there.
func checkMarks(t *testing.T, g *group, marks ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := g.client().Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		got, err := bigfleet.NewCoordinatorClient(conn).ListDomainAssignments(ctx, &bigfleet.ListDomainAssignmentsRequest{})
		have := map[string]bool{}
		for _, a := range got.GetAssignments() {
			have[a.GetTopologyValue()] = true
		}
		for _, m := range marks {
			if err == nil && !have[m] {
				t.Errorf("%q was answered, and is lost", m)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSoak draws one fault after the other, for as long as -soak says.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("a long run; make soak-coordinator")
	}
	g, all := newGroup(t), faults
	if reason := netnsMissing(); reason == "" {
		g = newNetnsGroup(t)
		all = append(all, cuts...)
	} else {
		t.Log("replicas are not cut off: ", reason)
	}
	g.shards()
	s := newSeed(t)
	rng := rand.New(rand.NewSource(s))
	var marks []string
	r := &recorder{g: g}
	r.run(6, s, func() {
		for end := time.Now().Add(*soak); time.Now().Before(end); {
			mark := fmt.Sprintf("mark-%d", len(marks))
			marks = append(marks, mark)
			g.breakLeader(all[rng.Intn(len(all))], mark)
		}
	})
	checkMarks(t, g, marks...)
}
