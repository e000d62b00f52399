package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
)

// chunkBytesMax is the most that one message of a snapshot carries.
const chunkBytesMax = 1 << 20

// Status says what this replica is. Any replica answers, also one that has no
// member yet.
func (s *Service) Status(ctx context.Context, _ *tonnage.StatusRequest) (*tonnage.StatusReply, error) {
	if err := mtls.Require(ctx, mtls.ReadOnly(), mtls.Admin()); err != nil {
		return nil, err
	}
	out := &tonnage.StatusReply{Replica: s.config.Name}
	r, _ := s.attached()
	if r == nil {
		return out, nil
	}
	out.HasState = true
	out.Leads = r.Leads()
	if l, known := r.Hint(); known {
		out.LeaderAddress, out.CoordinatorTerm = l.Address, l.Term
	}
	return out, nil
}

// Members lists the Raft group.
func (s *Service) Members(ctx context.Context, _ *tonnage.MembersRequest) (*tonnage.MembersReply, error) {
	if err := s.view(ctx); err != nil {
		return nil, err
	}
	members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	return &tonnage.MembersReply{Members: members}, nil
}

func (s *Service) members(ctx context.Context) ([]*tonnage.Member, error) {
	_, g := s.attached()
	peers, err := g.Peers(ctx)
	if errors.Is(err, store.ErrNoMembers) {
		return nil, status.Error(codes.Unimplemented, err.Error())
	} else if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	out := make([]*tonnage.Member, len(peers))
	for i, p := range peers {
		out[i] = &tonnage.Member{Replica: p.Replica, PeerUrls: p.PeerURLs, Learner: p.Learner, Leads: p.Replica == s.config.Name}
	}
	return out, nil
}

// Join lets a replica into the group, as a learner; it votes once it has caught
// up.
func (s *Service) Join(ctx context.Context, in *tonnage.JoinRequest) (*tonnage.JoinReply, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	if err := s.join(ctx, in.GetReplica(), in.GetRaftAddress(), in.GetHasState()); err != nil {
		return nil, err
	}
	members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	return &tonnage.JoinReply{Members: members}, nil
}

func (s *Service) join(ctx context.Context, name, address string, hasState bool) error {
	if err := model.CheckName(name); err != nil {
		return status.Errorf(codes.InvalidArgument, "node_id %v", err)
	}
	if err := model.CheckName(address); err != nil {
		return status.Errorf(codes.InvalidArgument, "raft_address %v", err)
	}
	if s.config.Alone {
		return status.Error(codes.FailedPrecondition, "this replica has no Raft port that others could reach: restart it with --raft-tls-cert, --raft-tls-key and --raft-tls-ca")
	}
	_, g := s.attached()
	err := g.Join(ctx, name, store.PeerURL(address, s.config.Secure), hasState)
	if errors.Is(err, store.ErrNoMembers) {
		return status.Error(codes.Unimplemented, err.Error())
	} else if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// JoinRaftCluster is Join as the public protocol has it. It does not say whether
// the replica has state: one that the group knows is taken to have.
func (s *Service) JoinRaftCluster(ctx context.Context, in *bigfleet.JoinRaftClusterRequest) (*bigfleet.JoinRaftClusterResponse, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	known := false
	members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		known = known || m.GetReplica() == in.GetNodeId()
	}
	return &bigfleet.JoinRaftClusterResponse{}, s.join(ctx, in.GetNodeId(), in.GetRaftAddress(), known)
}

// RemoveMember takes a replica out of the group. A leader does not remove
// itself: it hands leadership on, and sends the caller to the next leader.
func (s *Service) RemoveMember(ctx context.Context, in *tonnage.RemoveMemberRequest) (*tonnage.RemoveMemberReply, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	_, g := s.attached()
	itself := in.GetReplica() == s.config.Name
	var err error
	if itself {
		err = g.HandOver()
	} else {
		err = g.Remove(ctx, in.GetReplica())
	}
	switch {
	case errors.Is(err, store.ErrNoMembers):
		return nil, status.Error(codes.Unimplemented, err.Error())
	case errors.Is(err, store.ErrLastVoter):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, os.ErrNotExist):
		return nil, status.Errorf(codes.NotFound, "no replica %q in the group", in.GetReplica())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	case itself:
		return nil, s.notLeader()
	}
	return &tonnage.RemoveMemberReply{}, nil
}

// SnapshotSave streams a snapshot: its meta data, then its bytes.
func (s *Service) SnapshotSave(_ *bigfleet.SnapshotSaveRequest, stream grpc.ServerStreamingServer[bigfleet.SnapshotSaveChunk]) error {
	ctx := stream.Context()
	if err := s.change(ctx); err != nil {
		return err
	}
	r, g := s.attached()
	term := int64(0)
	if err := r.Read(ctx, func(_ *coordinator.Core, t int64) { term = t }); err != nil {
		return s.failed(err)
	}
	// A waiting caller learns at once that this replica leads, since a large snapshot
	// takes a while.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	name, meta, err := g.Snapshot(ctx, s.config.TempDir, term)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer os.Remove(name)
	file, err := os.Open(name)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer file.Close()
	text, err := json.Marshal(meta)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := stream.Send(&bigfleet.SnapshotSaveChunk{Payload: &bigfleet.SnapshotSaveChunk_MetaJson{MetaJson: text}}); err != nil {
		return err
	}
	return send(stream, file)
}

func send(stream grpc.ServerStreamingServer[bigfleet.SnapshotSaveChunk], from io.Reader) error {
	for {
		// A message may be on its way still when the next one is made.
		buffer := make([]byte, chunkBytesMax)
		n, err := io.ReadFull(from, buffer)
		if n > 0 {
			if err := stream.Send(&bigfleet.SnapshotSaveChunk{Payload: &bigfleet.SnapshotSaveChunk_Data{Data: buffer[:n]}}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return status.Error(codes.Unavailable, fmt.Sprintf("reading the snapshot: %v", err))
		}
	}
}
