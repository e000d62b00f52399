package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// What an Acknowledgement answers.
const (
	echoHello  = "hello"
	echoRollup = "rollup"
)

// live is one session.
type live struct {
	cfg     Config
	stream  Stream
	out     *outbox
	work    *dispatcher
	greeted func(*bigfleet.Acknowledgement)
	above   above

	began  bool          // the shard has greeted; only receive looks at it
	start  chan struct{} // closed when the shard has greeted
	answer chan struct{} // one roll-up was acknowledged
	spared chan struct{} // the early roll-up that was asked for was withheld
}

func newLive(cfg Config, stream Stream) *live {
	return &live{
		cfg: cfg, stream: stream,
		out:   newOutbox(cfg.Metrics),
		work:  newDispatcher(cfg.Metrics, cfg.Log),
		start: make(chan struct{}), answer: make(chan struct{}, unansweredMax+1), spared: make(chan struct{}, 1),
	}
}

// run ends when one of the session's loops does, and all of them with it.
func (s *live) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	s.cfg.Demand.Begin()
	s.cfg.Cluster.Begin()
	var wg sync.WaitGroup
	loop := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	loop(s.send)
	loop(s.receive)
	loop(s.report)
	loop(s.settle)
	loop(s.look)
	s.work.run(ctx, &wg)
	<-ctx.Done()
	wg.Wait()
	return context.Cause(ctx)
}

// send is the one that writes to the stream.
func (s *live) send(ctx context.Context) error {
	hello := &bigfleet.Hello{ClusterId: s.cfg.ClusterID, ProtocolVersion: protocolVersion}
	if err := s.stream.Send(&bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Hello{Hello: hello}}); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	for {
		message, rollup, ok := s.out.next(ctx)
		if !ok {
			return nil
		}
		if rollup != notDue {
			rows, send := s.cfg.Demand.Next(rollup == dueEarly)
			if !send {
				select {
				case s.spared <- struct{}{}:
				case <-ctx.Done():
				}
				continue
			}
			s.above.look(rows, s.cfg.Metrics, s.cfg.Log)
			message = &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Rollup{Rollup: &bigfleet.ClusterCapacityNeeds{
				ClusterId: s.cfg.ClusterID, TimestampUnixNanos: s.cfg.Now().UnixNano(), Needs: rows,
			}}}
		}
		if err := s.stream.Send(message); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
	}
}

// settle tells the cluster when the resynchronisation is over.
func (s *live) settle(ctx context.Context) error {
	select {
	case <-s.start:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-time.After(s.cfg.SettleAfter):
		return s.work.add("settle", job{run: s.cfg.Cluster.Settled})
	case <-ctx.Done():
		return nil
	}
}

// receive hands on what the shard says.
func (s *live) receive(ctx context.Context) error {
	for {
		message, err := s.stream.Recv()
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		if err := s.handle(ctx, message); err != nil {
			return err
		}
	}
}

func (s *live) handle(ctx context.Context, message *bigfleet.ShardMessage) error {
	switch p := message.Payload.(type) {
	case *bigfleet.ShardMessage_Ack:
		return s.acknowledged(p.Ack)
	case *bigfleet.ShardMessage_BootstrapRequest:
		s.out.reply("bootstrap:"+p.BootstrapRequest.RequestId, &bigfleet.OperatorMessage{
			Payload: &bigfleet.OperatorMessage_BootstrapResponse{BootstrapResponse: s.cfg.Cluster.Bootstrap(p.BootstrapRequest)},
		})
	case *bigfleet.ShardMessage_ReclaimInstruction:
		return s.reclaim(p.ReclaimInstruction)
	case *bigfleet.ShardMessage_NodeStateUpdate:
		u := p.NodeStateUpdate
		if u.MachineId == "" {
			s.cfg.Log.Warn("news of a machine without an id are left aside")
			return nil
		}
		return s.work.add("node:"+u.MachineId, job{replaces: true, run: func(ctx context.Context) error { return s.cfg.Cluster.NodeState(ctx, u) }})
	case *bigfleet.ShardMessage_AvailableCapacity:
		u := p.AvailableCapacity
		return s.work.add(u.SupersedesKey, job{replaces: true, run: func(ctx context.Context) error { return s.cfg.Cluster.Capacity(ctx, u) }})
	default:
		s.cfg.Log.Info("the shard says something that this operator does not know", "message", fmt.Sprintf("%T", p))
	}
	return ctx.Err()
}

// acknowledged notes what the shard has taken.
func (s *live) acknowledged(ack *bigfleet.Acknowledgement) error {
	switch ack.Echo {
	case echoHello:
		if !s.began {
			s.began = true
			s.greeted(ack)
			s.learn()
			s.cfg.Metrics.Connected(true)
			close(s.start)
		}
	case echoRollup:
		if !s.began {
			return errors.New("a roll-up is acknowledged before the greeting")
		}
		s.cfg.Demand.Acknowledged()
		select {
		case s.answer <- struct{}{}:
		default: // more acknowledgements than roll-ups; report has enough of them
		}
	}
	return nil
}

// reclaim begins the drains of an instruction, and acknowledges it when nothing
// new is scheduled on any of its nodes.
func (s *live) reclaim(in *bigfleet.ReclaimInstruction) error {
	grace := time.Duration(min(in.GracePeriodSeconds, graceSecondsMax)) * time.Second
	acknowledge := func(started int32) {
		s.out.reply("reclaim:"+in.InstructionId, &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_ReclaimAck{
			ReclaimAck: &bigfleet.ReclaimAck{InstructionId: in.InstructionId, NodesStarted: started},
		}})
	}
	if len(in.Nodes) == 0 {
		acknowledge(0)
		return nil
	}
	var mu sync.Mutex
	left, started := len(in.Nodes), int32(0)
	for _, machine := range in.Nodes {
		err := s.work.add("node:"+machine, job{run: func(ctx context.Context) error {
			cordoned, err := s.cfg.Cluster.Reclaim(ctx, machine, grace)
			if err != nil {
				return fmt.Errorf("reclaim of %s: %w", machine, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if cordoned {
				started++
			}
			if left--; left == 0 {
				acknowledge(started)
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
