package server

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/shard/provider/epoch"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// Limits of arguments.
const (
	BlobBytesMax     = 4 << 20 // of the bootstrap data
	MetadataBytesMax = 64 << 10
	MetadataMax      = wire.EntriesMax // entries
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// checkName refuses a name that breaks the rule of model.CheckName; one that is not
// required may be empty.
func checkName(field, name string, required bool) error {
	if name == "" && !required {
		return nil
	}
	if err := model.CheckName(name); err != nil {
		return invalid("%s %v", field, err)
	}
	return nil
}

// checkToken refuses what the fence cannot tell apart: a call for no machine, or with a
// token of no shard. Epochs and sequence numbers may be any number.
func checkToken(c *calls.Call) error {
	if err := checkName("machine_id", c.Machine, true); err != nil {
		return err
	}
	if c.Shard == "" && c.Token != (epoch.Token{}) {
		return invalid("shard_id: must not be empty when there is an epoch or a sequence number")
	}
	return checkName("shard_id", c.Shard, false)
}

// checkArguments says what is wrong with the arguments of a call whatever the machine
// is. A replaced process is told that it is fenced instead, hence the store returns it.
func checkArguments(req proto.Message) error {
	switch r := req.(type) {
	case *pb.ConfigureRequest:
		return checkConfigure(r)
	case *pb.DrainRequest:
		if g := r.GetGracePeriodSeconds(); g < 0 {
			return invalid("grace_period_seconds: must not be negative, is %d", g)
		}
	}
	return nil
}

func checkConfigure(r *pb.ConfigureRequest) error {
	if err := checkName("cluster_id", r.GetClusterId(), true); err != nil {
		return err
	}
	if n := len(r.GetBootstrapBlob()); n > BlobBytesMax {
		return invalid("bootstrap_blob: must have at most %d bytes, has %d", BlobBytesMax, n)
	}
	if n := len(r.GetShardMetadata()); n > MetadataMax {
		return invalid("shard_metadata: must have at most %d entries, has %d", MetadataMax, n)
	}
	n := 0
	for k, v := range r.GetShardMetadata() {
		n += len(k) + len(v)
	}
	if n > MetadataBytesMax {
		return invalid("shard_metadata: must have at most %d bytes together, has %d", MetadataBytesMax, n)
	}
	return nil
}

// filterOf reads a filter.
func filterOf(r *pb.ListFilter) (calls.ListFilter, error) {
	f := calls.ListFilter{Since: r.GetSinceRevision(), Max: int(r.GetMaxResults())}
	if f.Max < 0 {
		return f, invalid("max_results: must not be negative, is %d", f.Max)
	}
	for _, s := range r.GetStates() {
		if s < 0 || int(s) >= model.NumStates {
			return f, invalid("states: there is no state %d", s)
		}
		f.States = append(f.States, model.State(s))
	}
	return f, nil
}

// fencesWholeShard tells whether the caller's epoch is to be held against all calls of its shard.
func fencesWholeShard(ctx context.Context) bool {
	return slices.Contains(metadata.ValueFromIncomingContext(ctx, epoch.FenceKey), epoch.FenceShard)
}
