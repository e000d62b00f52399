// Package demandclient is an operator's session without a cluster: it reports demand from a file,
// answers the shard's requests, and reports changes of machines.
//
// It speaks the public protocol as the operator does and knows nothing of Kubernetes. Its machines run no
// pods, so a machine that is reclaimed is empty at once.
//
// A session that ends is begun again after a pause that doubles from one second to thirty. The newest demand is
// sent first thing. A shard does not report that it refuses a roll-up, it only does not acknowledge it; the
// client reports that after a while.
package demandclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// The times of a session.
const (
	pauseMin = time.Second
	pauseMax = 30 * time.Second
	// AnswerMax is how long a shard may take to acknowledge a roll-up before that is told.
	AnswerMax = 15 * time.Second
	// repliesMax is how many answers may wait to be sent; beyond it nothing more is read until they are.
	repliesMax = 64

	protocolVersion = "v1alpha1"
	echoHello       = "hello"
	echoRollup      = "rollup"
)

// Config is what a session is made of.
type Config struct {
	Cluster string
	Conn    grpc.ClientConnInterface
	// UserData is what machines start with.
	UserData []byte
	// Say tells people what happens, a line each.
	Say func(line string)
	// Now is what roll-ups are stamped with.
	Now func() time.Time
}

// Session reports the demand of one cluster.
type Session struct {
	cfg   Config
	fresh chan struct{} // there is newer demand to send
	taken chan struct{} // closed when a roll-up was acknowledged

	mu       sync.Mutex
	demand   []*bigfleet.CapacityNeed
	offered  bool
	once     sync.Once
	greeted  bool
	answered bool
}

// New returns a session that has not begun.
func New(cfg Config) *Session {
	return &Session{cfg: cfg, fresh: make(chan struct{}, 1), taken: make(chan struct{})}
}

// Offer makes rows the demand of the cluster; they are sent as soon as there is a session.
func (s *Session) Offer(rows []*bigfleet.CapacityNeed) {
	s.mu.Lock()
	s.demand, s.offered = rows, true
	s.mu.Unlock()
	select {
	case s.fresh <- struct{}{}:
	default:
	}
}

// Taken is closed when the shard has acknowledged demand.
func (s *Session) Taken() <-chan struct{} { return s.taken }

// Run keeps a session until the context ends.
func (s *Session) Run(ctx context.Context) {
	pause := pauseMin
	for ctx.Err() == nil {
		s.greeted = false
		err := s.live(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.greeted {
			pause = pauseMin
		}
		s.say("the session has ended: %v; again in %v", err, pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, pauseMax)
	}
}

func (s *Session) say(format string, args ...any) {
	s.cfg.Say(s.cfg.Cluster + ": " + fmt.Sprintf(format, args...))
}

// live holds one session until it fails.
func (s *Session) live(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := bigfleet.NewShardClient(s.cfg.Conn).Session(ctx)
	if err != nil {
		return err
	}
	hello := &bigfleet.Hello{ClusterId: s.cfg.Cluster, ProtocolVersion: protocolVersion}
	if err := stream.Send(&bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	heard, failed := make(chan *bigfleet.ShardMessage, repliesMax), make(chan error, 1)
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case heard <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s.talk(ctx, stream, heard, failed)
}

// talk is the one that writes to the stream.
func (s *Session) talk(ctx context.Context, stream bigfleet.Shard_SessionClient, heard <-chan *bigfleet.ShardMessage, failed <-chan error) error {
	late := time.NewTimer(AnswerMax)
	defer late.Stop()
	for {
		var fresh <-chan struct{}
		if s.greeted {
			fresh = s.fresh
		}
		var reply *bigfleet.OperatorMessage
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-late.C:
			if !s.greeted {
				return fmt.Errorf("the shard has not greeted within %v", AnswerMax)
			}
			if !s.answered {
				s.say("the shard has not acknowledged the demand within %v; its log says why", AnswerMax)
			}
			continue
		case m := <-heard:
			reply = s.handle(m)
		case <-fresh:
			if reply = s.rollup(); reply != nil {
				s.answered = false
				late.Reset(AnswerMax)
			}
		}
		if reply == nil {
			continue
		}
		if err := stream.Send(reply); err != nil && !errors.Is(err, io.EOF) { // what ended it is in failed
			return err
		}
	}
}

// rollup is the newest demand; nil = there is none yet.
func (s *Session) rollup() *bigfleet.OperatorMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.offered {
		return nil
	}
	return &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_Rollup{Rollup: &bigfleet.ClusterCapacityNeeds{
		ClusterId: s.cfg.Cluster, TimestampUnixNanos: s.cfg.Now().UnixNano(), Needs: s.demand,
	}}}
}

// handle takes over what the shard says, and returns the answer to it, if there is one.
func (s *Session) handle(m *bigfleet.ShardMessage) *bigfleet.OperatorMessage {
	switch p := m.Payload.(type) {
	case *bigfleet.ShardMessage_Ack:
		s.acknowledged(p.Ack)
	case *bigfleet.ShardMessage_BootstrapRequest:
		return &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_BootstrapResponse{BootstrapResponse: &bigfleet.BootstrapBlobResponse{
			RequestId: p.BootstrapRequest.GetRequestId(), UserData: s.cfg.UserData,
		}}}
	case *bigfleet.ShardMessage_ReclaimInstruction:
		in := p.ReclaimInstruction
		s.say("gives back %d machines: %v", len(in.GetNodes()), in.GetNodes())
		return &bigfleet.OperatorMessage{Payload: &bigfleet.OperatorMessage_ReclaimAck{ReclaimAck: &bigfleet.ReclaimAck{
			InstructionId: in.GetInstructionId(), NodesStarted: int32(len(in.GetNodes())),
		}}}
	case *bigfleet.ShardMessage_NodeStateUpdate:
		u := p.NodeStateUpdate
		s.say("machine %s is %s", u.GetMachineId(), stateName(u.GetState()))
	}
	return nil
}

func (s *Session) acknowledged(ack *bigfleet.Acknowledgement) {
	switch {
	case ack.GetEcho() == echoHello && !s.greeted:
		s.greeted = true
		s.say("the session has begun")
		select {
		case s.fresh <- struct{}{}: // what was sent before may be lost
		default:
		}
	case ack.GetEcho() == echoRollup && s.greeted:
		s.answered = true
		s.once.Do(func() { close(s.taken) })
	}
}
