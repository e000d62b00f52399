package session

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
)

var errFull = status.Errorf(codes.ResourceExhausted, "the shard has as many sessions as it takes (%d)", SessionsMax)

// The echoes of an acknowledgement.
const (
	echoHello  = "hello"
	echoRollup = "rollup"
)

// read takes what the operator sends, until the session ends.
func (l *link) read(stream pb.Shard_SessionServer) {
	for {
		var f frame
		if err := stream.RecvMsg(&f); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // the operator is done
			}
			l.end(err)
			return
		}
		l.received.Add(1)
		if err := l.take(stream, &f); err != nil {
			l.end(err)
			return
		}
		inbound.Taken(stream.Context())
		select {
		case <-l.done:
			return
		default:
		}
	}
}

// take does what a frame asks for. The error ends the session.
func (l *link) take(stream pb.Shard_SessionServer, f *frame) error {
	if f.kind == frameRollup && l.cluster != "" {
		return l.server.intake.offer(stream.Context(), l, *f)
	}
	defer f.free()
	if f.kind == frameHello {
		return l.hello(f.body)
	}
	if l.cluster == "" {
		return status.Error(codes.InvalidArgument, "the first frame must be a hello")
	}
	switch f.kind {
	case frameBootstrapResponse:
		var m pb.BootstrapBlobResponse
		if err := unmarshal(f.body, &m, "bootstrap_response"); err != nil {
			return err
		}
		if !l.waits.answer(m.GetRequestId(), &m) {
			l.server.log.Debug("bootstrap data that nobody waits for", "cluster", l.cluster, "request", m.GetRequestId())
		}
	case frameReclaimAck:
		var m pb.ReclaimAck
		if err := unmarshal(f.body, &m, "reclaim_ack"); err != nil {
			return err
		}
		if !l.drains.answer(m.GetInstructionId(), &m) {
			l.server.log.Debug("acknowledgement that nobody waits for", "cluster", l.cluster, "instruction", m.GetInstructionId())
		}
	default:
		l.server.log.Debug("frame of a kind that is not known", "cluster", l.cluster)
	}
	return nil
}

func unmarshal(body []byte, m proto.Message, what string) error {
	if err := proto.Unmarshal(body, m); err != nil {
		return status.Errorf(codes.InvalidArgument, "%s is not a valid message: %v", what, err)
	}
	return nil
}

// hello has the session begin, and waits until it has; a later one is
// acknowledged once more.
func (l *link) hello(body []byte) error {
	var m pb.Hello
	if err := unmarshal(body, &m, "hello"); err != nil {
		return err
	}
	cluster := m.GetClusterId()
	if err := model.CheckName(cluster); err != nil {
		return status.Errorf(codes.InvalidArgument, "hello: cluster_id %v", err)
	}
	version := m.GetProtocolVersion()
	if err := model.CheckOptionalName(version); err != nil {
		return status.Errorf(codes.InvalidArgument, "hello: protocol_version %v", err)
	}
	switch {
	case l.cluster == "":
		l.cluster, l.version = cluster, version
		close(l.named)
		select {
		case <-l.greeted:
		case <-l.done:
		}
		return nil
	case l.cluster != cluster:
		return status.Errorf(codes.InvalidArgument, "the session is of cluster %q, and a hello names %q: open one session for each cluster", l.cluster, cluster)
	}
	l.acknowledge(echoHello)
	l.resync()
	return nil
}

// begin makes the session its cluster's. The acknowledgement lies in the
// outbox before anybody can put news there.
func (l *link) begin(stream pb.Shard_SessionServer) error {
	s := l.server
	if err := mtls.Require(stream.Context(), mtls.Cluster(l.cluster)); err != nil {
		s.metrics.identityRejected()
		if n, ok := s.lines.refused.Next(s.clock()); ok {
			s.log.Warn("session refused", "cluster", l.cluster, "peer", l.peer, "error", err, "unreported", n)
		}
		return err
	}
	l.limits = s.policy(l.cluster)
	if err := stream.SetHeader(s.header(l.limits)); err != nil {
		return err
	}
	l.acknowledge(echoHello)
	before, ok := s.links.install(l)
	if !ok {
		return errFull
	}
	s.metrics.installed()
	if before != nil {
		s.metrics.replaced()
		before.end(errReplaced)
	}
	if n, ok := s.lines.began.Next(s.clock()); ok {
		s.log.Info("session began", "cluster", l.cluster, "peer", l.peer, "protocol", l.version, "replaced", before != nil, "unreported", n)
	}
	if s.draining.Load() {
		l.out.end() // Drain may have passed by
	}
	inbound.Admitted(stream.Context())
	close(l.greeted)
	if s.policy(l.cluster) != l.limits {
		l.end(errPolicy) // PolicyChanged may have passed by
	}
	l.resync()
	return nil
}

// acknowledge queues an acknowledgement. An operator that does not read them
// misses nothing that it looks at.
func (l *link) acknowledge(echo string) {
	l.out.reply(&pb.ShardMessage{Payload: &pb.ShardMessage_Ack{Ack: &pb.Acknowledgement{
		Echo: echo, CoordinatorTerm: l.server.term(), ShardEpoch: l.server.epoch(),
	}}})
}

// resync has the operator told of all its machines, beside what it sends: the
// shard may be busy with a cycle. Operators take turns. When all of them come
// back at once, a cycle that waits for the shard's lock waits for one of them. A
// cluster that asks again and again, over however many sessions, is told once an
// interval.
func (l *link) resync() {
	if !l.resyncing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.resyncing.Store(false)
		for wait := l.server.resync.replays.begin(l.cluster); wait > 0; wait = l.server.resync.replays.begin(l.cluster) {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-l.done:
				timer.Stop()
				return
			}
		}
		select {
		case l.server.resync.turn <- struct{}{}:
			defer func() { <-l.server.resync.turn }()
			l.server.core.Resync(l.cluster)
		case <-l.done:
		}
	}()
}

// send sends what waits, until nothing more will.
func (l *link) send(stream pb.Shard_SessionServer) {
	for {
		m, over := l.out.next()
		switch {
		case m != nil:
			l.sending.Store(l.server.clock().UnixNano())
			err := stream.Send(m)
			l.sending.Store(0)
			if err != nil {
				l.end(err)
				return
			}
			l.sent.Add(1)
		case over:
			l.end(errDraining)
			return
		default:
			select {
			case <-l.out.wake:
			case <-l.done:
				return
			}
		}
	}
}
