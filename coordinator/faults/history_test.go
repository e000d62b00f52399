package faults

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// keys is over how many domains the calls are spread: a history of one key with
// thousands of calls cannot be decided.
const keys = 12

type verb int

const (
	assign verb = iota
	unassign
	read
)

// input and output are one call as the model sees it.
type input struct {
	verb  verb
	key   int
	shard string
}

type output struct {
	known bool   // false: no answer, it may or may not have had its effect
	owner string // read
	taken bool   // assign: somebody else has it
}

// owned is one domain: who has it.
var owned = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make([][]porcupine.Operation, keys)
		for _, op := range history {
			k := op.Input.(input).key
			byKey[k] = append(byKey[k], op)
		}
		return byKey
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		owner, i, o := state.(string), in.(input), out.(output)
		switch i.verb {
		case assign:
			free := owner == "" || owner == i.shard
			if o.known && o.taken == free {
				return false, owner
			}
			if free {
				owner = i.shard
			}
			return true, owner
		case unassign:
			return true, ""
		}
		return !o.known || o.owner == owner, owner
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

// recorder makes calls and writes down what they did.
type recorder struct {
	g     *group
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	open  []int // that were not answered
	done  int   // answered
}

func (r *recorder) note(worker int, in input, out output, call, back time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !out.known {
		r.open = append(r.open, len(r.ops))
	} else {
		r.done++
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: worker, Input: in, Output: out, Call: int64(call), Return: int64(back)})
}

func domain(k int) string { return fmt.Sprintf("rack-%02d", k) }

// work makes calls on one replica after the other until ctx ends. It does not
// follow the leader: whoever answers must be right.
func (r *recorder) work(ctx context.Context, worker int, rng *rand.Rand) {
	conns := make([]*grpc.ClientConn, len(r.g.nodes))
	for i, n := range r.g.nodes {
		c, err := grpc.NewClient(n.listen, append(slices.Clone(r.g.dial), grpc.WithConnectParams(fastConnect))...)
		if err != nil {
			r.g.t.Error(err)
			return
		}
		defer c.Close()
		conns[i] = c
	}
	at := worker % len(conns)
	for ctx.Err() == nil {
		in := input{verb: verb(rng.Intn(3)), key: rng.Intn(keys), shard: fmt.Sprintf("s-%d", rng.Intn(3))}
		call := time.Since(r.began)
		outs, retry := r.call(ctx, conns[at], in)
		back := time.Since(r.began)
		for k, out := range outs {
			one := in
			one.key = k
			r.note(worker, one, out, call, back)
		}
		if retry {
			at = (at + 1) % len(conns)
		}
	}
}

// call makes one call; a call that certainly had no effect leaves nothing.
func (r *recorder) call(ctx context.Context, conn *grpc.ClientConn, in input) (outs map[int]output, retry bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond)
	defer cancel()
	k := bigfleet.NewCoordinatorClient(conn)
	var err error
	switch in.verb {
	case assign:
		_, err = k.AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: "rack", TopologyValue: domain(in.key), ShardId: in.shard})
	case unassign:
		_, err = k.UnassignDomain(ctx, &bigfleet.UnassignDomainRequest{TopologyKey: "rack", TopologyValue: domain(in.key)})
	default:
		var got *bigfleet.ListDomainAssignmentsResponse
		if got, err = k.ListDomainAssignments(ctx, &bigfleet.ListDomainAssignmentsRequest{}); err == nil {
			outs = map[int]output{}
			for i := range keys {
				outs[i] = output{known: true}
			}
			for _, a := range got.GetAssignments() {
				for i := range keys {
					if domain(i) == a.GetTopologyValue() {
						outs[i] = output{known: true, owner: a.GetShardId()}
					}
				}
			}
			return outs, false
		}
	}
	s := status.Convert(err)
	switch {
	case err == nil:
		return map[int]output{in.key: {known: true}}, false
	case s.Code() == codes.AlreadyExists:
		return map[int]output{in.key: {known: true, taken: true}}, false
	case s.Code() == codes.FailedPrecondition,
		s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connection refused"),
		in.verb == read:
		return nil, true
	case s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled:
		return map[int]output{in.key: {}}, true
	}
	r.g.t.Errorf("%+v: %v", in, err)
	return nil, true
}

// run lets workers call until during returns, and holds what they saw to the
// model.
func (r *recorder) run(workers int, seed int64, during func()) {
	t := r.g.t
	t.Helper()
	r.began = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { r.work(ctx, w, rand.New(rand.NewSource(seed+int64(w)))) })
	}
	func() {
		defer all.Wait()
		defer cancel()
		during()
	}()
	// The last word: what a leader says when all is quiet.
	r.final()
	end := int64(time.Since(r.began))
	for _, i := range r.open {
		r.ops[i].Return = end
	}
	result := porcupine.CheckOperationsTimeout(owned, r.ops, time.Minute)
	t.Logf("%d calls answered, %d without an answer, %d in the history: %s (seed %d)", r.done, len(r.open), len(r.ops), result, seed)
	if result != porcupine.Ok {
		t.Errorf("the history is %s; repeat with -seed %d", result, seed)
	}
	if r.done < 100 {
		t.Errorf("only %d calls were answered", r.done)
	}
}

func (r *recorder) final() {
	c := r.g.client()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	call := time.Since(r.began)
	var got *bigfleet.ListDomainAssignmentsResponse
	err := c.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		got, err = bigfleet.NewCoordinatorClient(conn).ListDomainAssignments(ctx, &bigfleet.ListDomainAssignmentsRequest{})
		return err
	})
	if err != nil {
		r.g.t.Fatalf("no answer after all faults were mended: %v", err)
	}
	owners := map[string]string{}
	for _, a := range got.GetAssignments() {
		owners[a.GetTopologyValue()] = a.GetShardId()
	}
	for k := range keys {
		r.note(-1, input{verb: read, key: k}, output{known: true, owner: owners[domain(k)]}, call, time.Since(r.began))
	}
}

// newSeed is the flag's, or a new one.
func newSeed(t *testing.T) int64 {
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	t.Logf("seed %d", s)
	return s
}
