package faults

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"
)

var unrestRounds = flag.Int("unrest-rounds", 0, "rounds of three leaders killed, one stopped and one partition each, while machines change their shards; 0 = a short run")

const (
	// unrestPause is how long nothing breaks at most, after what broke was mended.
	unrestPause = 2 * time.Second
	// unrestOpenMove is how long a fault waits at most for a move.
	unrestOpenMove = 10 * time.Second
	// unrestLinger is how long a fault lasts at most after its effect has shown.
	unrestLinger = 2 * time.Second
	// unrestLogShown is how much of the log of a replica is shown when a failover was long.
	unrestLogShown = 2 << 10
	// unrestSlots is how many machines can be bought in a round.
	unrestSlots = 40
)

// unrest breaks a group while machines change their shards.
type unrest struct {
	g      *group
	r      *region
	swings *swings
	rng    *rand.Rand
	hold   time.Duration              // of the fault, after its effect has shown
	next   []time.Duration            // until another replica led
	took   map[string][]time.Duration // until the next command, by fault
	struck int                        // faults while a move was open
	marks  []string
}

// brief shortens what a short run waits.
func brief(d time.Duration) time.Duration {
	if *unrestRounds == 0 {
		return d / 5
	}
	return d
}

// linger waits for a random time.
func (x *unrest) linger() { <-time.After(x.hold) }

// TestMachinesChangeShardsInUnrest: three replicas and their callers with mutual TLS, and shards
// whose demand swings, so that machines change their shards all the time. Leaders are killed,
// stopped and woken, and the network is cut in five kinds. No machine ever has two owners, none is
// lost, as many change their shard as were missing, and no more are bought than demand has grown by.
func TestMachinesChangeShardsInUnrest(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	g, cuts := securedGroup(t, "--rebalance=on", "--rebalance-interval=300ms")
	g.marks = "shard-0"
	zones := []zone{{"a", 16, 0}, {"b", 16, 0}, {"c", 16, 0}, {"d", 0, unrestSlots * (1 + *unrestRounds)}}
	r := newRegion(t, g, zones)
	x := &unrest{g: g, r: r, swings: newSwings(r, seed), rng: rand.New(rand.NewSource(seed)), took: map[string][]time.Duration{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- x.swings.run(ctx) }()
	defer func() { cancel(); ended <- <-ended }() // when a fault ends the test
	began := time.Now()
	for _, f := range x.deck(cuts) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("seed %d: %v", seed, err)
		case <-time.After(time.Duration(x.rng.Int63n(int64(brief(unrestPause))))):
		}
		f()
	}
	x.swings.stop.Store(true)
	err := <-ended
	ended <- err
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := x.swings.chains(); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	checkMarks(t, g, x.marks...)
	x.report(time.Since(began))
}

// securedGroup is three replicas with mutual TLS, each in a namespace of its own, and how they can
// be cut off; on loopback, without partitions, where TONNAGE_NO_NETNS is set.
func securedGroup(t *testing.T, extra ...string) (*group, [][]partition) {
	t.Helper()
	var g *group
	cuts := partitions
	if reason := netnsMissing(); reason == "" {
		g = netnsGroup(t, extra...)
	} else {
		if os.Getenv("TONNAGE_NO_NETNS") == "" {
			t.Fatal(reason)
		}
		t.Log("replicas are not cut off: ", reason)
		g, cuts = loopbackGroup(t, extra...), nil
	}
	g.secure()
	g.startAll()
	return g, cuts
}

// deck is the faults in a random order: in each round three kills, a stop and a partition.
// The short run has one of each.
func (x *unrest) deck(cuts [][]partition) (deck []func()) {
	add := func(f fault, n int) {
		for range n {
			deck = append(deck, func() { x.breakLeader(f) })
		}
	}
	rounds, each := *unrestRounds, 3
	if rounds == 0 {
		rounds, each = 1, 1
	}
	add(faults[0], each*rounds)
	add(faults[1], rounds)
	for i := range rounds {
		if len(cuts) == 0 {
			break
		}
		forms := cuts[i%len(cuts)]
		p := forms[i/len(cuts)%len(forms)]
		deck = append(deck, func() { x.part(p) })
	}
	x.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// begin waits for the moment of a fault, and returns a mark.
func (x *unrest) begin() string {
	if x.rng.Intn(2) == 0 { // at any moment, or while a move is open
		for end := time.Now().Add(brief(unrestOpenMove)); !x.swings.open.Load() && time.Now().Before(end); {
			<-time.After(swingLook)
		}
	}
	if x.swings.open.Load() {
		x.struck++
	}
	x.hold = time.Duration(x.rng.Int63n(int64(brief(unrestLinger))))
	mark := fmt.Sprint("mark-", len(x.marks))
	x.marks = append(x.marks, mark)
	return mark
}

// breakLeader breaks the leader itself, and mends it when another one has led for a while.
func (x *unrest) breakLeader(f fault) {
	x.g.t.Helper()
	mark, n := x.begin(), x.g.leader(x.g.nodes...)
	f.strike(x.g, n)
	took := x.g.failover(x.g.others(n), mark)
	x.ask()
	x.linger()
	f.mend(x.g, n)
	x.done(f.name, n, took, true)
}

// ask has a tool ask all replicas: it must find the leader, also past one that is silent.
func (x *unrest) ask() {
	x.g.t.Helper()
	if out, err := x.g.tryCtl("list-shards"); err != nil {
		x.g.t.Errorf("while a replica does not answer: %v\n%s", err, out)
	}
}

// part cuts the network around the leader, and mends it.
func (x *unrest) part(p partition) {
	x.g.t.Helper()
	mark, n := x.begin(), x.g.leader(x.g.nodes...)
	p.cut(x.g, n)
	took := p.during(x, n, mark)
	for _, n := range x.g.nodes {
		open(x.g, n)
	}
	x.done(p.name, n, took, p.passes)
}

// done waits until the group is whole again.
func (x *unrest) done(name string, n *node, took time.Duration, passed bool) {
	x.g.t.Helper()
	x.g.t.Logf("%s (%s led): the next command after %v", name, n.id, took.Round(time.Millisecond))
	x.took[name] = append(x.took[name], took)
	if passed {
		x.next = append(x.next, took)
	}
	if passed && took > failoverMax {
		for _, n := range x.g.nodes {
			text := n.text()
			x.g.t.Logf("that was long; at %v the log of %s ends with:\n%s", time.Now().UTC().Format(time.StampMilli), n.id, text[max(0, len(text)-unrestLogShown):])
		}
	}
	x.g.whole(n)
}

// whole waits until a replica takes part again, and the replicas talk to each other.
func (g *group) whole(n *node) {
	g.t.Helper()
	eventually(g.t, 30*time.Second, n.id+" takes part again", func(ctx context.Context) bool {
		s, err := g.status(ctx, n)
		return err == nil && s.GetHasState() && s.GetLeaderAddress() != "" && (!s.GetLeads() || s.GetLeaderAddress() == n.listen)
	})
	g.settle()
}

// report prints what was measured, and holds failovers to their limit: in the middle, since
// other work may take the processor away.
func (x *unrest) report(took time.Duration) {
	t := x.g.t
	slices.Sort(x.next)
	middle := x.next[len(x.next)/2]
	if middle > failoverMax && !raceEnabled {
		t.Errorf("another replica led after %v in the middle, the limit is %v", middle, failoverMax)
	}
	s := x.swings
	moved, phases := s.moved(), map[string]int{}
	for _, m := range s.history {
		phases[m.GetPhase()]++
	}
	t.Logf("%v: %d faults, %d of them while a move was open; another replica led after %v in the middle, %v at most",
		took.Round(time.Second), len(x.marks), x.struck, middle.Round(10*time.Millisecond), x.next[len(x.next)-1].Round(10*time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(x.took)) {
		each := x.took[name]
		slices.Sort(each)
		t.Logf("%s: %d times, the next command after %v in the middle, %v at most", name, len(each), each[len(each)/2].Round(10*time.Millisecond), each[len(each)-1].Round(10*time.Millisecond))
	}
	t.Logf("%d changes of demand, each met within %v; %d machines have changed their shard, as many as were missing, in %d moves (%v); %d were bought",
		s.steps, s.slowest.Round(10*time.Millisecond), moved, len(s.history), phases, s.bought)
	if moved == 0 || x.struck == 0 && *unrestRounds > 0 {
		t.Errorf("%d machines have changed their shard, and %d faults came while one did: too little was tried", moved, x.struck)
	}
}
