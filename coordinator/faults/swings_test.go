package faults

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
)

const (
	// swingFall is by how many machines at most the demand of a cluster falls at a time, and
	// swingRise by how many the sum of all demand rises, beside what idle machines are taken up.
	swingFall, swingRise = 6, 2
	// swingFloor is the least demand of a cluster.
	swingFloor = 3
	// swingLook is how often everybody is asked.
	swingLook = 150 * time.Millisecond
	// swingLimit is within which demand is met, faults included.
	swingLimit = 2 * time.Minute
)

// swings lets demand swing between the clusters of a region, so that machines change their shards
// all the time, and keeps account of it. The last shard has no demand: it has what can be bought.
type swings struct {
	r     *region
	rng   *rand.Rand
	conns []*grpc.ClientConn // of the replicas
	stop  atomic.Bool        // after the step under way
	open  atomic.Bool        // a move is

	want    []int                    // machines by cluster
	history map[string]*tonnage.Move // by id, as they were last seen
	steps   int
	bought  int
	slowest time.Duration
}

func newSwings(r *region, seed int64) *swings {
	s := &swings{r: r, rng: rand.New(rand.NewSource(seed)), want: make([]int, len(r.zones)-1), history: map[string]*tonnage.Move{}}
	for _, n := range r.g.nodes {
		c, err := grpc.NewClient(n.listen, append(slices.Clone(r.g.dial), grpc.WithConnectParams(fastConnect))...)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { c.Close() })
		s.conns = append(s.conns, c)
	}
	return s
}

// run makes steps until it is stopped, and then waits until all is as it was asked for.
func (s *swings) run(ctx context.Context) error {
	for i := range s.want {
		s.want[i] = s.r.zones[i].idle / 2
		s.r.clusters[i].demands(s.want[i], demandPriority)
	}
	if err := s.settle(ctx, s.met); err != nil {
		return err
	}
	for !s.stop.Load() {
		if err := s.step(ctx); err != nil {
			return fmt.Errorf("step %d, demand %v: %w", s.steps, s.want, err)
		}
		s.steps++
	}
	return s.settle(ctx, s.met)
}

// step moves demand from the other clusters to one: its shard has all it has in use then and is
// short of some machines, and exactly so many must come.
func (s *swings) step(ctx context.Context) error {
	x := s.rng.Intn(len(s.want))
	missing := 0
	for i, w := range s.want {
		if i != x {
			fall := min(1+s.rng.Intn(swingFall), w-swingFloor)
			s.want[i] -= fall
			missing += fall
		}
	}
	missing = max(1, missing+s.rng.Intn(swingRise+1))
	before, bound, moved := hosts(s.r.machines()), s.r.bound()[x], s.moved()
	began := time.Now()
	s.want[x] = len(s.r.last[x]) + missing
	for i, w := range s.want {
		s.r.clusters[i].demands(w, demandPriority)
	}
	if err := s.settle(ctx, func(bound []int) bool { return bound[x] == s.want[x] }); err != nil {
		return err
	}
	s.slowest = max(s.slowest, time.Since(began))
	if n := s.moved() - moved; n != missing {
		return fmt.Errorf("%d machines have changed their shard, and %d were missing in %s%s", n, missing, s.r.shards[x].id, s.since(began))
	}
	bought := hosts(s.r.machines()) - before
	if most := s.want[x] - bound; bought > most {
		return fmt.Errorf("%d machines were bought for a demand of %d more", bought, most)
	}
	s.bought += bought
	return nil
}

func (s *swings) met(bound []int) bool { return slices.Equal(bound[:len(s.want)], s.want) }

// settle waits until the machines that are bound are as done wants them, no move is open and
// every machine has one owner. On the way no machine may be lost, Failed, or had by two shards.
func (s *swings) settle(ctx context.Context, done func(bound []int) bool) error {
	tick := time.NewTicker(swingLook)
	defer tick.Stop()
	for end := time.Now().Add(swingLimit); time.Now().Before(end); {
		ms := s.r.machines()
		if err := s.r.whole(ms); err != nil {
			return err
		}
		one, err := s.r.look()
		if err != nil {
			return err
		}
		if quiet := s.see(ctx); quiet && one && done(s.r.count(ms)) {
			return s.r.served(ms)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return fmt.Errorf("not within %v: demand is met and no move is open; bound are %v", swingLimit, s.r.bound())
}

// see reads the moves from whoever leads, and tells whether none is open.
func (s *swings) see(ctx context.Context) (quiet bool) {
	for _, c := range s.conns {
		ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		got, err := tonnage.NewFleetClient(c).Rebalancing(ctx, &tonnage.RebalancingRequest{})
		cancel()
		if err != nil {
			continue
		}
		quiet = true
		for _, m := range got.GetMoves() {
			s.history[m.GetMoveId()] = m
			quiet = quiet && !openMove(m)
		}
		s.open.Store(!quiet)
		return quiet
	}
	return false
}

func openMove(m *tonnage.Move) bool {
	switch m.GetPhase() {
	case "asked", "released", "adopted", "returning":
		return true
	}
	return false
}

// moved is how many machines have changed their shard, as far as it was seen.
func (s *swings) moved() (n int) {
	for _, m := range s.history {
		if m.GetPhase() == "adopted" || m.GetPhase() == "settled" {
			n += len(m.GetMachineIds())
		}
	}
	return n
}

// since lists the moves that began after a time.
func (s *swings) since(began time.Time) string {
	var out []string
	for id, m := range s.history {
		if at := m.GetBeganUnixNanos(); at >= began.UnixNano() {
			out = append(out, fmt.Sprintf("\n%s of %s: %d machines of tier %d from %s to %s, %s %v", time.Unix(0, at).UTC().Format(time.StampMilli), id,
				len(m.GetMachineIds()), m.GetTier(), m.GetDonor(), m.GetReceiver(), m.GetPhase(), m.GetNote()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// chains holds the coordinator's history to the shards' word: each machine went from the shard
// of its zone, one move after the other, to the shard that has it.
func (s *swings) chains() error {
	owner := map[string]string{}
	for i, z := range s.r.zones {
		for k := range z.idle + z.slots {
			owner[fmt.Sprintf("%s-%03d", z.name, k)] = s.r.shards[i].id
		}
	}
	moves := make([]*tonnage.Move, 0, len(s.history))
	for _, m := range s.history {
		if m.GetPhase() == "settled" {
			moves = append(moves, m)
		}
	}
	slices.SortFunc(moves, func(a, b *tonnage.Move) int { return int(a.GetBeganUnixNanos() - b.GetBeganUnixNanos()) })
	for _, m := range moves {
		for _, id := range m.GetMachineIds() {
			if owner[id] != m.GetDonor() {
				return fmt.Errorf("move %s takes %s from %s, and %s had it", m.GetMoveId(), id, m.GetDonor(), owner[id])
			}
			owner[id] = m.GetReceiver()
		}
	}
	for i, n := range s.r.shards {
		for id := range s.r.last[i] {
			if owner[id] != n.id {
				return fmt.Errorf("%s has %s, and by the moves it is %s's", n.id, id, owner[id])
			}
		}
	}
	return nil
}

// hosts is how many machines there are, beside slots.
func hosts(ms map[string]*bigfleet.Machine) (n int) {
	for _, m := range ms {
		if m.GetState() != bigfleet.MachineState_MACHINE_STATE_SPECULATIVE {
			n++
		}
	}
	return n
}

// whole: the provider has every machine, and none is Failed.
func (r *region) whole(ms map[string]*bigfleet.Machine) error {
	if ms == nil {
		return fmt.Errorf("the provider does not answer")
	}
	for id := range r.all {
		if m := ms[id]; m == nil || m.GetState() == bigfleet.MachineState_MACHINE_STATE_FAILED {
			return fmt.Errorf("machine %s is lost or Failed: %v", id, m)
		}
	}
	return nil
}

// served: what is bound to a cluster is its shard's, as that was last asked.
func (r *region) served(ms map[string]*bigfleet.Machine) error {
	for id, m := range ms {
		for i, c := range r.clusters {
			if m.GetCluster() == c.cluster && !r.last[i][id] {
				return fmt.Errorf("machine %s is bound to %s, and %s does not have it", id, c.cluster, r.shards[i].id)
			}
		}
	}
	return nil
}
