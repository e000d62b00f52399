package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/shard"
)

// The methods that are no shard.Op, as Trouble names them.
const (
	MethodAny  = "any"
	MethodList = "List"
	MethodGet  = "Get"
)

// Kind is what happens to a call.
type Kind uint8

// The kinds of trouble.
const (
	Refuse Kind = iota // it answers Unavailable, and nothing is done
	Lose               // it is carried out, and answers Unavailable
	Slow               // it begins after Delay
)

// DelayMax is the longest delay of a call.
const DelayMax = time.Hour

// TroubleMax is how many troubles there may be at a time.
const TroubleMax = 1000

// Trouble happens to the calls that it fits. Either Times or Probability is
// set.
type Trouble struct {
	Kind        Kind
	Method      string // of a shard.Op, MethodList, MethodGet or MethodAny
	Machine     string // empty = every machine
	Times       int    // the first so many calls
	Probability float64
	Delay       time.Duration // Slow only
}

// Methods returns the names that Trouble.Method may have.
func Methods() []string {
	names := []string{MethodAny, MethodList, MethodGet}
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		names = append(names, op.String())
	}
	return names
}

func (x *Trouble) validate() error {
	switch {
	case x.Kind > Slow:
		return fmt.Errorf("there is no kind %d", x.Kind)
	case !slices.Contains(Methods(), x.Method):
		return fmt.Errorf("there is no method %q", x.Method)
	case x.Times < 0 || !(x.Probability >= 0 && x.Probability <= 1) || (x.Times > 0) == (x.Probability > 0):
		return errors.New("give either times, at least 1, or a probability above 0 and up to 1")
	case x.Kind == Slow && (x.Delay <= 0 || x.Delay > DelayMax):
		return fmt.Errorf("the delay must be above 0 and at most %v, is %v", DelayMax, x.Delay)
	}
	return nil
}

// SetTrouble replaces all trouble there is.
func (s *Server) SetTrouble(all []Trouble) error {
	if len(all) > TroubleMax {
		return fmt.Errorf("at most %d troubles at a time, got %d", TroubleMax, len(all))
	}
	for i := range all {
		if err := all[i].validate(); err != nil {
			return fmt.Errorf("trouble %d: %w", i, err)
		}
	}
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	s.trouble.all = slices.Clone(all)
	return nil
}

// trouble is what happens to calls at present.
type trouble struct {
	mu  sync.Mutex
	all []Trouble
}

// met is what happens to one call.
type met struct {
	refuse, lose bool
	delay        time.Duration
}

// strikes tells whether it happens to a call that it fits. Calls come in any
// order, so that a seed would be no use.
func (x *Trouble) strikes() bool {
	switch {
	case x.Probability > 0:
		return rand.Float64() < x.Probability
	case x.Times > 0:
		x.Times--
		return true
	}
	return false
}

// meet settles what happens to a call: at most one of each kind.
func (t *trouble) meet(method, machine string) met {
	var out met
	var seen [Slow + 1]bool
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.all {
		x := &t.all[i]
		if seen[x.Kind] || x.Method != MethodAny && x.Method != method || x.Machine != "" && x.Machine != machine {
			continue
		}
		if !x.strikes() {
			continue
		}
		seen[x.Kind] = true
		switch x.Kind {
		case Refuse:
			out.refuse = true
		case Lose:
			out.lose = true
		case Slow:
			out.delay = x.Delay
		}
	}
	return out
}

// before is what happens before a call is carried out.
func (m met) before(ctx context.Context) error {
	if m.delay > 0 {
		timer := time.NewTimer(m.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if m.refuse {
		return status.Error(codes.Unavailable, "refused, as was asked for")
	}
	return nil
}

// after is what happens when it was.
func (m met) after() error {
	if m.lose {
		return status.Error(codes.Unavailable, "the answer is lost, as was asked for")
	}
	return nil
}
