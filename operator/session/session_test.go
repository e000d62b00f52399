package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// wire is a stream whose other end a test holds.
type wire struct {
	ctx   context.Context
	said  chan *bigfleet.OperatorMessage // by the operator
	heard chan *bigfleet.ShardMessage    // by the operator
	cut   chan error
}

func (w *wire) Send(m *bigfleet.OperatorMessage) error {
	select {
	case w.said <- m:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

func (w *wire) Recv() (*bigfleet.ShardMessage, error) {
	select {
	case m := <-w.heard:
		return m, nil
	case err := <-w.cut:
		return nil, err
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
}

func (w *wire) ack(echo string) {
	w.heard <- &bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_Ack{Ack: &bigfleet.Acknowledgement{Echo: echo}}}
}

func (w *wire) node(machine string, state bigfleet.MachineState) {
	w.heard <- &bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_NodeStateUpdate{NodeStateUpdate: &bigfleet.NodeStateUpdate{MachineId: machine, State: state}}}
}

func (w *wire) reclaim(id string, machines ...string) {
	w.heard <- &bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_ReclaimInstruction{ReclaimInstruction: &bigfleet.ReclaimInstruction{InstructionId: id, Nodes: machines, GracePeriodSeconds: 30}}}
}

// side is the cluster and its demand.
type side struct {
	mu      sync.Mutex
	did     []string
	fail    map[string]int           // how often a machine's messages fail
	block   map[string]chan struct{} // a machine's messages wait for it
	begins  int
	settled []time.Duration
	acks    int
	began   time.Time
	grown   chan struct{}
	spare   bool // early roll-ups are withheld
	told    string
}

func (s *side) Limit(rows, gangs, sets, keys int, offered map[string]string) {
	s.told = fmt.Sprint(rows, gangs, sets, keys, offered, offered == nil)
}

func (s *side) Begin()                 { s.mu.Lock(); s.begins++; s.mu.Unlock() }
func (s *side) Grown() <-chan struct{} { return s.grown }
func (s *side) Acknowledged()          { s.mu.Lock(); s.acks++; s.mu.Unlock() }

func (s *side) Next(early bool) ([]*bigfleet.CapacityNeed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, !early || !s.spare
}

func (s *side) Settled(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, time.Since(s.began))
	return nil
}

func (s *side) do(ctx context.Context, machine, what string) error {
	s.mu.Lock()
	wait := s.block[machine]
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail[machine] > 0 {
		s.fail[machine]--
		return errors.New("the API server is away")
	}
	s.did = append(s.did, machine+" "+what)
	return nil
}

func (s *side) NodeState(ctx context.Context, u *bigfleet.NodeStateUpdate) error {
	return s.do(ctx, u.MachineId, strings.TrimPrefix(u.State.String(), "MACHINE_STATE_"))
}

func (s *side) Capacity(ctx context.Context, u *bigfleet.AvailableCapacityUpdate) error {
	return s.do(ctx, u.SupersedesKey, fmt.Sprint(u.AvailableCount))
}

func (s *side) Reclaim(ctx context.Context, machine string, grace time.Duration) (bool, error) {
	return machine != "unknown", s.do(ctx, machine, "reclaim "+grace.String())
}

func (s *side) Bootstrap(q *bigfleet.BootstrapRequest) *bigfleet.BootstrapBlobResponse {
	return &bigfleet.BootstrapBlobResponse{RequestId: q.RequestId}
}

func (s *side) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.did, ", ")
}

// rig is a client in a bubble of virtual time.
type rig struct {
	side  *side
	wires chan *wire
	dials []string // address and time of each
	mu    sync.Mutex
}

// inBubble runs a client and a test against it.
func inBubble(t *testing.T, refuse bool, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{side: &side{fail: map[string]int{}, block: map[string]chan struct{}{}, began: time.Now(), grown: make(chan struct{}, 1)}, wires: make(chan *wire, 100)}
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		c := New(Config{
			ClusterID: "blue", Addresses: []string{"a", "b"}, RollupInterval: 10 * time.Second, SettleAfter: time.Minute,
			Demand: r.side, Cluster: r.side, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Dial: func(ctx context.Context, address string) (Stream, error) {
				r.mu.Lock()
				r.dials = append(r.dials, fmt.Sprintf("%s %s", address, time.Since(began)))
				r.mu.Unlock()
				if refuse {
					return nil, errors.New("refused")
				}
				w := &wire{ctx: ctx, said: make(chan *bigfleet.OperatorMessage, 1000), heard: make(chan *bigfleet.ShardMessage, 1000), cut: make(chan error, 1)}
				r.wires <- w
				return w, nil
			},
		})
		var run sync.WaitGroup
		run.Go(func() { c.Run(ctx) })
		test(t, r)
		cancel()
		run.Wait()
	})
}

// greeted waits for a session and greets.
func (r *rig) greeted(t *testing.T) *wire {
	t.Helper()
	w := <-r.wires
	if hello := (<-w.said).GetHello(); hello == nil || hello.ClusterId != "blue" || hello.ProtocolVersion != "v1alpha1" {
		t.Fatalf("the first message is not hello: %v", hello)
	}
	w.ack("hello")
	return w
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// TestPauses: they double up to thirty seconds, and addresses take turns.
func TestPauses(t *testing.T) {
	inBubble(t, true, func(t *testing.T, r *rig) {
		pass(5 * time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		limit, last := pauseMin, time.Duration(0)
		for i, dial := range r.dials {
			address, text, _ := strings.Cut(dial, " ")
			at, err := time.ParseDuration(text)
			if err != nil || address != string("ab"[i%2]) {
				t.Fatalf("dial %d is %q", i, dial)
			}
			if i > 0 {
				if pause := at - last; pause > limit || pause < limit/2 {
					t.Errorf("pause %d is %s, want %s to %s", i, pause, limit/2, limit)
				}
				limit = min(2*limit, pauseMax)
			}
			last = at
		}
		if len(r.dials) < 12 {
			t.Errorf("%d dials in five minutes", len(r.dials))
		}
	})
}

// TestPausesBeginAnew: after a session that lasted, the same address is tried
// again soon.
func TestPausesBeginAnew(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		for range 5 { // short ones
			(<-r.wires).cut <- io.EOF
		}
		w := r.greeted(t)
		for range 4 {
			pass(10 * time.Second)
			w.ack("rollup")
		}
		began := time.Now()
		w.cut <- io.EOF
		<-r.wires
		if took := time.Since(began); took > pauseMin {
			t.Errorf("the next session began after %s", took)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.dials); r.dials[n-1][0] != r.dials[n-2][0] {
			t.Errorf("dials were %v", r.dials)
		}
	})
}

// TestNoGreeting: a shard that says nothing is left.
func TestNoGreeting(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		began := time.Now()
		<-r.wires
		<-r.wires
		if took := time.Since(began); took < helloTimeout || took > helloTimeout+pauseMin {
			t.Errorf("left after %s", took)
		}
	})
}

// rollups returns when roll-ups were sent, until the session ends.
func rollups(w *wire, acked bool) []time.Duration {
	began := time.Now()
	var at []time.Duration
	for {
		select {
		case m := <-w.said:
			if m.GetRollup() != nil {
				at = append(at, time.Since(began))
				if acked {
					w.ack("rollup")
				}
			}
			if len(at) == 6 {
				return at
			}
		case <-w.ctx.Done():
			return append(at, time.Since(began))
		}
	}
}

// TestRollupsInTime: at once, then every interval.
func TestRollupsInTime(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		if got := fmt.Sprint(rollups(r.greeted(t), true)); got != "[0s 10s 20s 30s 40s 50s]" {
			t.Errorf("roll-ups at %s", got)
		}
		synctest.Wait()
		if r.side.acks != 6 {
			t.Errorf("%d acknowledgements were handed on", r.side.acks)
		}
	})
}

// TestRollupsUnanswered: the next one waits for an answer, but not for ever, and
// in the end the session is left.
func TestRollupsUnanswered(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		if got := fmt.Sprint(rollups(r.greeted(t), false)); got != "[0s 20s 40s 1m0s]" {
			t.Errorf("roll-ups, and the end, at %s", got)
		}
	})
}

// TestEarlyRollups: what was added is reported when nothing more is added for a
// second, two seconds after the last roll-up at the soonest; those of the period
// keep their time.
func TestEarlyRollups(t *testing.T) {
	for name, c := range map[string]struct {
		grown []time.Duration // since the first roll-up
		spare bool
		want  string
	}{
		"one":                             {grown: seconds(3), want: "[0s 4s 10s 20s 30s 40s]"},
		"a burst is one":                  {grown: seconds(3, 3.5, 4.4, 5.3), want: "[0s 6.3s 10s 20s 30s 40s]"},
		"without end it is of the period": {grown: seconds(1, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4, 7.3, 8.2, 9.1, 9.9), want: "[0s 10s 20s 30s 40s 50s]"},
		"past the period's":               {grown: seconds(9.5, 10.4, 11.2), want: "[0s 10s 12.2s 20s 30s 40s]"},
		"not soon after the last":         {grown: seconds(0.1, 2.2), want: "[0s 2s 4s 10s 20s 30s]"},
		"withheld":                        {grown: seconds(3, 13), spare: true, want: "[0s 10s 20s 30s 40s 50s]"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, false, func(t *testing.T, r *rig) {
				r.side.spare = c.spare
				w := r.greeted(t)
				began := time.Now()
				for _, at := range c.grown {
					time.AfterFunc(at-time.Since(began), func() { r.side.grown <- struct{}{} })
				}
				if got := fmt.Sprint(rollups(w, true)); got != c.want {
					t.Errorf("roll-ups at %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestEarlyRollupsWait: as others do, for the acknowledgement of the one before.
func TestEarlyRollupsWait(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		w := r.greeted(t)
		began := time.Now()
		<-w.said
		pass(3 * time.Second)
		r.side.grown <- struct{}{}
		pass(3 * time.Second)
		synctest.Wait()
		if len(w.said) > 0 {
			t.Error("two are under way")
		}
		w.ack("rollup")
		if got := rollups(w, true); got[0] != 0 || time.Since(began) != 50*time.Second {
			t.Errorf("roll-ups at %s after the acknowledgement", got)
		}
	})
}

func seconds(all ...float64) []time.Duration {
	out := make([]time.Duration, len(all))
	for i, s := range all {
		out[i] = time.Duration(s * float64(time.Second))
	}
	return out
}

// TestMessagesOfOneMachine: they keep their order; a newer state replaces one that
// waits; another machine does not wait.
func TestMessagesOfOneMachine(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		open := make(chan struct{})
		r.side.block["m"] = open
		w := r.greeted(t)
		w.node("m", 3)
		synctest.Wait()
		w.node("m", 4)
		w.node("m", 5)
		w.reclaim("i", "m", "unknown", "o")
		w.node("m", 6)
		w.node("m", 3)
		synctest.Wait()
		if got := r.side.all(); !strings.Contains(got, "o reclaim 30s") || strings.Contains(got, "CONFIG") {
			t.Errorf("while m is stuck: %s", got)
		}
		close(open)
		synctest.Wait()
		if got := r.side.all(); !strings.HasSuffix(got, "m IDLE, m CONFIGURED, m reclaim 30s, m IDLE") {
			t.Errorf("in the end: %s", got)
		}
		for m := range w.said {
			if ack := m.GetReclaimAck(); ack != nil {
				if ack.InstructionId != "i" || ack.NodesStarted != 2 {
					t.Errorf("acknowledgement is %v", ack)
				}
				break
			}
		}
	})
}

// TestFailuresAreTriedAgain: later and later, unless something newer is there.
func TestFailuresAreTriedAgain(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		r.side.fail["m"], r.side.fail["n"] = 3, 1
		w := r.greeted(t)
		w.node("m", 3)
		w.node("n", 3)
		synctest.Wait()
		w.node("n", 4)
		pass(retryMin)
		synctest.Wait()
		if got := r.side.all(); got != "n CONFIGURING" {
			t.Errorf("after the first pause: %s", got)
		}
		pass(6 * retryMin)
		synctest.Wait()
		if got := r.side.all(); got != "n CONFIGURING, m IDLE" {
			t.Errorf("in the end: %s", got)
		}
	})
}

// TestUserDataDoNotWait: not even when every worker is stuck.
func TestUserDataDoNotWait(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		w := r.greeted(t)
		for i := range 2 * workersMax {
			name := fmt.Sprint("m", i)
			r.side.mu.Lock()
			r.side.block[name] = make(chan struct{})
			r.side.mu.Unlock()
			w.node(name, 3)
		}
		synctest.Wait()
		w.heard <- &bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_BootstrapRequest{BootstrapRequest: &bigfleet.BootstrapRequest{RequestId: "q"}}}
		w.heard <- &bigfleet.ShardMessage{} // unknown
		for m := range w.said {
			if got := m.GetBootstrapResponse(); got != nil {
				if got.RequestId != "q" {
					t.Errorf("answer is %v", got)
				}
				break
			}
		}
	})
}

// TestSettles: once a session, when it has lasted.
func TestSettles(t *testing.T) {
	inBubble(t, false, func(t *testing.T, r *rig) {
		w := r.greeted(t)
		for range 9 {
			pass(10 * time.Second)
			w.ack("rollup")
		}
		synctest.Wait()
		r.side.mu.Lock()
		defer r.side.mu.Unlock()
		if got := fmt.Sprint(r.side.settled); got != "[1m0s]" || r.side.begins != 2 { // of demand and cluster
			t.Errorf("settled at %s, %d begins", got, r.side.begins)
		}
	})
}

// TestOutbox: a roll-up goes first, a reply replaces its elder, the last that does
// not fit is dropped.
func TestOutbox(t *testing.T) {
	o := newOutbox(nil)
	for i := range repliesMax + 1 {
		o.reply(fmt.Sprint(i), &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_ReclaimAck{ReclaimAck: &bigfleet.ReclaimAck{NodesStarted: int32(i)}}})
	}
	o.reply("1", &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_ReclaimAck{ReclaimAck: &bigfleet.ReclaimAck{NodesStarted: -1}}})
	o.rollup(dueNow)
	o.rollup(dueEarly)
	if _, rollup, ok := o.next(t.Context()); rollup != dueNow || !ok {
		t.Errorf("the roll-up is not first: %v", rollup)
	}
	for i := range repliesMax {
		m, rollup, _ := o.next(t.Context())
		want := int32(i)
		if i == 1 {
			want = -1
		}
		if rollup != notDue || m.GetReclaimAck().NodesStarted != want {
			t.Fatalf("reply %d is %v", i, m)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, ok := o.next(ended); ok {
		t.Error("more is sent than fits")
	}
}

// TestDispatcherIsBounded: one machine cannot pile up without end.
func TestDispatcherIsBounded(t *testing.T) {
	d := newDispatcher(nil, slog.New(slog.DiscardHandler))
	var err error
	for range laneJobsMax {
		if err = d.add("m", job{}); err != nil {
			t.Fatal(err)
		}
	}
	if err = d.add("m", job{}); !errors.Is(err, errBehind) {
		t.Errorf("one more: %v", err)
	}
	if err = d.add("n", job{}); err != nil {
		t.Errorf("another machine: %v", err)
	}
}
