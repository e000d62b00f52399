// Package skeleton is a provider of the bare protocol, to be copied and filled in where HERE stands. It keeps
// its machines in a JSON file, and passes every check of `tonnage provider check`.
package skeleton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// machine is a record, with the last move that began (−1 = none) and the name of its operation.
type machine struct {
	Record    *pb.Machine
	Move      int
	Operation string
}

// moves are the states before, during and after Create, Configure, Drain and Delete.
var moves = [...][3]pb.MachineState{{1, 2, 3}, {3, 4, 5}, {5, 6, 3}, {3, 7, 1}}

// Provider serves machines; register it with a gRPC server.
type Provider struct {
	pb.UnimplementedCapacityProviderServer
	path     string
	takes    time.Duration
	mu       sync.Mutex
	Machines map[string]*machine
	Tokens   map[string][]int64 // the newest epoch and sequence number of each shard and machine
}

// New returns the provider of a file, which begins with the machines of seed. Changes take the time given.
func New(path string, takes time.Duration, seed []*pb.Machine) (*Provider, error) {
	p := &Provider{path: path, takes: takes, Machines: map[string]*machine{}, Tokens: map[string][]int64{}}
	for _, m := range seed {
		p.Machines[m.GetId()] = &machine{m, -1, ""}
	}
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, p) != nil {
		return nil, fmt.Errorf("%s: not what was written", path)
	}
	for _, m := range p.Machines {
		if m.Move >= 0 && m.Record.State == moves[m.Move][1] {
			p.start(m) // what was under way goes on
		}
	}
	return p, p.save()
}

// save has everything on disk before anybody hears of it. HERE: fsync, where power may fail.
func (p *Provider) save() error {
	text, err := json.MarshalIndent(p, "", " ")
	return errors.Join(err, os.WriteFile(p.path+".new", text, 0o600), os.Rename(p.path+".new", p.path))
}

// start has a move done. HERE: ask for it, and call end when it is done.
func (p *Provider) start(m *machine) { time.AfterFunc(p.takes, func() { p.end(m) }) }

// end ends a move. HERE: where it failed, set State to FAILED and LastError to the reason instead.
func (p *Provider) end(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Record.State = moves[m.Move][2]; m.Move {
	case 0:
		m.Record.Host = &pb.HostRef{Provider: "skeleton", Ref: "host-" + m.Record.Id} // HERE: what identifies it
	case 2:
		m.Record.Cluster, m.Record.ShardMetadata = "", nil
	case 3:
		m.Record.Host = nil
	}
	_ = p.save() // HERE: end the process when the file cannot be written
}

// begin checks a call, in the order of the protocol, and starts its move. A cluster is that of Configure.
func (p *Provider) begin(id, shard string, token []int64, move int, cluster string, metadata map[string]string) (*pb.TransitionAck, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "machine_id: must not be empty")
	}
	if key := fmt.Sprintf("%q %q", shard, id); shard != "" {
		if last, seen := p.Tokens[key]; seen && slices.Compare(token, last) <= 0 {
			return nil, status.Errorf(codes.FailedPrecondition, "epoch and sequence number %v are not newer than %v", token, last)
		}
		p.Tokens[key] = token
	}
	m, err := p.Machines[id], p.save() // the token counts, whatever becomes of the call
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, status.Errorf(codes.NotFound, "there is no machine %q", id)
	case move == 1 && cluster == "":
		return nil, status.Error(codes.InvalidArgument, "cluster_id: must not be empty")
	case m.Record.State == moves[move][0]:
		m.Move, m.Operation, m.Record.State = move, fmt.Sprintf("%s-%d", id, time.Now().UnixNano()), moves[move][1]
		if move == 1 {
			m.Record.Cluster, m.Record.ShardMetadata = cluster, metadata
		}
		p.start(m)
	case m.Move != move || move == 1 && m.Record.Cluster != cluster: // no repeat
		return nil, status.Errorf(codes.Internal, "machine %q is %v for %q", id, m.Record.State, m.Record.Cluster)
	}
	return &pb.TransitionAck{OperationId: m.Operation, Machine: proto.CloneOf(m.Record)}, p.save()
}

func (p *Provider) Create(_ context.Context, r *pb.CreateRequest) (*pb.TransitionAck, error) { //nolint:revive // the protocol says what it does
	return p.begin(r.GetMachineId(), r.GetShardId(), []int64{r.GetShardEpoch(), r.GetSequenceNumber()}, 0, "", nil)
}
func (p *Provider) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.TransitionAck, error) { //nolint:revive // the protocol says what it does
	return p.begin(r.GetMachineId(), r.GetShardId(), []int64{r.GetShardEpoch(), r.GetSequenceNumber()}, 1, r.GetClusterId(), r.GetShardMetadata()) // HERE: hand r.GetBootstrapBlob() to the machine
}
func (p *Provider) Drain(_ context.Context, r *pb.DrainRequest) (*pb.TransitionAck, error) { //nolint:revive // the protocol says what it does
	return p.begin(r.GetMachineId(), r.GetShardId(), []int64{r.GetShardEpoch(), r.GetSequenceNumber()}, 2, "", nil)
}
func (p *Provider) Delete(_ context.Context, r *pb.DeleteRequest) (*pb.TransitionAck, error) { //nolint:revive // the protocol says what it does
	return p.begin(r.GetMachineId(), r.GetShardId(), []int64{r.GetShardEpoch(), r.GetSequenceNumber()}, 3, "", nil)
}

func (p *Provider) Get(_ context.Context, r *pb.MachineRef) (*pb.Machine, error) { //nolint:revive // the protocol says what it does
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.Machines[r.GetId()]; m != nil {
		return proto.CloneOf(m.Record), nil
	} else if r.GetId() == "" {
		return nil, status.Error(codes.InvalidArgument, "id: must not be empty")
	}
	return nil, status.Errorf(codes.NotFound, "there is no machine %q", r.GetId())
}
func (p *Provider) List(_ context.Context, f *pb.ListFilter) (*pb.MachineList, error) { //nolint:revive // the protocol says what it does
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &pb.MachineList{} // without a revision: it has no cursors
	for _, m := range p.Machines {
		if n := int(f.GetMaxResults()); (n == 0 || len(out.Machines) < n) && (len(f.GetStates()) == 0 || slices.Contains(f.GetStates(), m.Record.State)) {
			out.Machines = append(out.Machines, proto.CloneOf(m.Record))
		}
	}
	return out, nil
}
