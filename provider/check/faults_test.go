package check_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/check"
)

// fault is one way to be wrong, and checks that must find it.
type fault struct {
	name  string
	finds string // ids, with spaces between
	lie   func(*liar)
	with  func(*liar, *check.Options)
	hangs bool // the check may end with its time
}

const (
	speculative = pb.MachineState_MACHINE_STATE_SPECULATIVE
	creating    = pb.MachineState_MACHINE_STATE_CREATING
	idle        = pb.MachineState_MACHINE_STATE_IDLE
	configuring = pb.MachineState_MACHINE_STATE_CONFIGURING
	configured  = pb.MachineState_MACHINE_STATE_CONFIGURED
	draining    = pb.MachineState_MACHINE_STATE_DRAINING
	deleting    = pb.MachineState_MACHINE_STATE_DELETING
	failed      = pb.MachineState_MACHINE_STATE_FAILED
)

// machines lies about every record.
func machines(change func(m *pb.Machine)) func(*liar) {
	return func(l *liar) { l.onMachine = func(_ string, m *pb.Machine) { change(m) } }
}

// recode answers with another code where a provider that is right has one.
func recode(from, to codes.Code, methods ...string) func(*liar) {
	return func(l *liar) {
		l.onError = func(method string, err error) error {
			if status.Code(err) == from && (len(methods) == 0 || slices.Contains(methods, method)) {
				return status.Error(to, err.Error())
			}
			return err
		}
	}
}

// fenceOf replaces the fence by another one: passes tells of the newest token under a key and
// the one of the call whether it passes, and keep whether it then is the newest.
func fenceOf(key func(*change) string, passes func(known bool, newest, now [2]int64) (pass, keep bool)) func(*liar) {
	return func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			l.mu.Lock()
			k, now := key(c), [2]int64{c.epoch, c.number}
			newest, known := l.newest[k]
			pass, keep := passes(known, newest, now)
			if keep {
				l.newest[k] = now
			}
			l.mu.Unlock()
			if !pass {
				return nil, status.Error(codes.FailedPrecondition, "fenced")
			}
			return l.unfenced(ctx, c)
		}
	}
}

func perMachine(c *change) string { return c.shard + "\x00" + c.machine }

func newer(known bool, newest, now [2]int64) bool {
	return !known || now[0] > newest[0] || now[0] == newest[0] && now[1] > newest[1]
}

var faults = slices.Concat(metadataFaults, operationFaults, fenceFaults, codeFaults, recordFaults, listFaults, moveFaults, timeFaults, provokedFaults, pageFaults)

var metadataFaults = []fault{
	{name: "forgets metadata", finds: "metadata.echoed metadata.replaced", lie: machines(func(m *pb.Machine) { m.ShardMetadata = nil })},
	{name: "forgets empty values", finds: "metadata.echoed", lie: machines(func(m *pb.Machine) {
		for k, v := range m.ShardMetadata {
			if v == "" {
				delete(m.ShardMetadata, k)
			}
		}
	})},
	{name: "cuts metadata at a NUL", finds: "metadata.echoed", lie: machines(func(m *pb.Machine) {
		for k, v := range m.ShardMetadata {
			m.ShardMetadata[k], _, _ = strings.Cut(v, "\x00")
		}
	})},
	{name: "forgets metadata with Drain", finds: "metadata.until-drained", lie: machines(func(m *pb.Machine) {
		if m.State == draining {
			m.ShardMetadata = nil
		}
	})},
	{name: "keeps metadata after Drain", finds: "metadata.cleared record.metadata", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			switch m.State {
			case draining:
				l.metadata[m.Id] = m.ShardMetadata
			case idle:
				m.ShardMetadata = l.metadata[m.Id]
			}
		}
	}},
	{name: "merges metadata", finds: "metadata.replaced", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if m.Cluster == "" {
				return
			}
			for k, v := range l.metadata[m.Id] {
				if m.ShardMetadata == nil {
					m.ShardMetadata = map[string]string{}
				}
				m.ShardMetadata[k] = v
			}
			l.metadata[m.Id] = m.ShardMetadata
		}
	}},
	{name: "has metadata of its own", finds: "metadata.none", lie: machines(func(m *pb.Machine) {
		if m.Cluster != "" && len(m.ShardMetadata) == 0 {
			m.ShardMetadata = map[string]string{"provider": "was here"}
		}
	})},
	{name: "cuts much metadata", finds: "metadata.much", lie: machines(func(m *pb.Machine) {
		for k := range m.ShardMetadata {
			if len(m.ShardMetadata) > 32 {
				delete(m.ShardMetadata, k)
			}
		}
	})},
	{name: "takes bootstrap data for text", finds: "bootstrap.opaque", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.ConfigureRequest); ok && !utf8.Valid(r.BootstrapBlob) {
				return nil, status.Error(codes.InvalidArgument, "bootstrap data: no text")
			}
			return c.forward(ctx)
		}
	}},
	{name: "asks for bootstrap data", finds: "bootstrap.none", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.ConfigureRequest); ok && len(r.BootstrapBlob) == 0 {
				return nil, status.Error(codes.InvalidArgument, "bootstrap data: empty")
			}
			return c.forward(ctx)
		}
	}},
	{name: "takes short bootstrap data only", finds: "bootstrap.long", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.ConfigureRequest); ok && len(r.BootstrapBlob) > 16<<10 {
				return nil, status.Error(codes.InvalidArgument, "bootstrap data: too long")
			}
			return c.forward(ctx)
		}
	}},
}

var operationFaults = []fault{
	{name: "starts anew with each repeat", finds: "create.repeat-done configure.repeat-done drain.repeat-done delete.repeat-done create.repeat-under-way configure.repeat-under-way drain.repeat-under-way delete.repeat-under-way", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) { l.count++; ack.OperationId += fmt.Sprint("-", l.count) }
	}},
	{name: "has one operation for all", finds: "record.operations", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) { ack.OperationId = "operation" }
	}},
	{name: "has one operation for each kind of call and machine", finds: "record.operations", lie: func(l *liar) {
		l.onAck = func(c *change, ack *pb.TransitionAck) { ack.OperationId = c.name + c.machine }
	}},
	{name: "has no operations", finds: "create.begins configure.begins drain.begins delete.begins", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) { ack.OperationId = "" }
	}},
	{name: "refuses repeats", finds: "create.repeat-under-way configure.repeat-done", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			l.mu.Lock()
			defer l.mu.Unlock()
			if id := ack.GetOperationId(); err == nil && l.memory[id] != "" {
				return nil, status.Error(codes.AlreadyExists, "it is under way")
			} else if err == nil {
				l.memory[id] = c.machine
			}
			return ack, err
		}
	}},
	{name: "buys twice when Create is repeated", finds: "create.repeat-done", lie: func(l *liar) {
		l.onAck = func(c *change, ack *pb.TransitionAck) {
			if id := ack.OperationId; c.name == "Create" {
				l.memory[id] += "+"
				l.memory[c.machine] = l.memory[id]
			} else {
				l.memory[c.machine] = ""
			}
		}
		l.onMachine = func(where string, m *pb.Machine) {
			if m.State == idle && where == "Get" && len(l.memory[m.Id]) > 2 {
				m.Host.Ref += l.memory[m.Id]
			}
		}
	}},
	{name: "answers with another machine", finds: "record.same-id", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) { ack.Machine.Id += "-new" }
	}},
	{name: "answers without the machine", finds: "create.begins", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) { ack.Machine = nil }
	}},
	{name: "answers with the state of before", finds: "create.begins configure.begins", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) {
			switch ack.Machine.State {
			case creating:
				ack.Machine.State = speculative
			case configuring:
				ack.Machine.State = idle
			}
		}
	}},
}

var fenceFaults = []fault{
	{name: "has no fence", finds: "fence.older fence.no-cached-answer fence.all-moves create.fenced-unknown configure.fenced-unknown drain.fenced-unknown delete.fenced-unknown fence.failed-call-counts", lie: func(l *liar) { l.onCall = l.unfenced }},
	{name: "fences all machines of a shard together", finds: "fence.per-machine", lie: fenceOf(func(c *change) string { return c.shard }, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newer(known, newest, now)
		return pass, pass
	})},
	{name: "fences all shards together", finds: "fence.per-shard", lie: fenceOf(func(c *change) string { return c.machine }, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newer(known, newest, now)
		return pass, pass
	})},
	{name: "fences each call by itself", finds: "fence.all-moves fence.failed-call-counts", lie: fenceOf(func(c *change) string { return perMachine(c) + c.name }, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newer(known, newest, now)
		return pass, pass
	})},
	{name: "looks at sequence numbers only", finds: "fence.newer fence.older", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := !known || now[1] > newest[1]
		return pass, pass
	})},
	{name: "looks at epochs only", finds: "fence.older", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := !known || now[0] >= newest[0]
		return pass, pass
	})},
	{name: "lets the same token pass again", finds: "fence.older fence.no-cached-answer", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newest == now || newer(known, newest, now)
		return pass, pass
	})},
	{name: "takes negative numbers for large ones", finds: "fence.negative fence.first-contact", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := !known || uint64(now[0]) > uint64(newest[0]) || now[0] == newest[0] && uint64(now[1]) > uint64(newest[1])
		return pass, pass
	})},
	{name: "counts in 32 bits", finds: "fence.largest", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newer(known, [2]int64{int64(int32(newest[0])), int64(int32(newest[1]))}, [2]int64{int64(int32(now[0])), int64(int32(now[1]))})
		return pass, pass
	})},
	{name: "remembers tokens that it refused", finds: "fence.refused-changes-no-mark", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		return newer(known, newest, now), true
	})},
	{name: "refuses negative tokens as malformed", finds: "fence.negative fence.first-contact", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if c.epoch < 0 || c.number < 0 {
				return nil, status.Error(codes.InvalidArgument, "negative")
			}
			return c.forward(ctx)
		}
	}},
	{name: "looks for the machine before the fence", finds: "create.fenced-unknown fence.failed-call-counts", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if _, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); c.machine != "" && status.Code(err) == codes.NotFound {
				return nil, err
			}
			return c.forward(ctx)
		}
	}},
	{name: "answers old tokens from its memory", finds: "fence.no-cached-answer", lie: func(l *liar) {
		answers := map[string]*pb.TransitionAck{}
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			key := fmt.Sprint(c.name, c.machine, c.shard, c.epoch, c.number)
			l.mu.Lock()
			known := answers[key]
			l.mu.Unlock()
			if known != nil {
				return known, nil
			}
			ack, err := c.forward(ctx)
			if err == nil {
				l.mu.Lock()
				answers[key] = proto.CloneOf(ack)
				l.mu.Unlock()
			}
			return ack, err
		}
	}},
	{name: "fences Get", finds: "fence.reads", lie: func(l *liar) {
		l.onError = func(_ string, err error) error {
			if status.Code(err) == codes.FailedPrecondition {
				l.onGet = func(context.Context, string) (*pb.Machine, error) { return nil, err }
			}
			return err
		}
	}},
	{name: "fences calls without a token", finds: "fence.no-token", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if c.shard == "" {
				return nil, status.Error(codes.FailedPrecondition, "fenced")
			}
			return c.forward(ctx)
		}
	}},
}

var codeFaults = []fault{
	{name: "answers illegal moves like fenced ones", finds: "illegal.configure-speculative illegal.drain-speculative illegal.create-configured illegal.delete-configured", lie: recode(codes.Internal, codes.FailedPrecondition)},
	{name: "answers like fenced ones what is illegal meanwhile", finds: "create.illegal-under-way delete.illegal-under-way", lie: recode(codes.Internal, codes.FailedPrecondition)},
	{name: "answers illegal moves with Unavailable", finds: "illegal.configure-speculative illegal.create-configured", lie: recode(codes.Internal, codes.Unavailable)},
	{name: "answers the fence with Aborted", finds: "fence.older create.fenced-unknown fence.no-cached-answer", lie: recode(codes.FailedPrecondition, codes.Aborted)},
	{name: "does not know NotFound", finds: "get.unknown create.unknown configure.unknown drain.unknown delete.unknown odd.ids", lie: recode(codes.NotFound, codes.Internal)},
	{name: "does not know InvalidArgument", finds: "get.empty-id create.empty-id configure.empty-id drain.empty-id delete.empty-id", lie: recode(codes.InvalidArgument, codes.NotFound)},
	{name: "refuses unknown fields", finds: "odd.unknown-fields", lie: func(l *liar) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			if len(f.ProtoReflect().GetUnknown()) > 0 {
				return nil, status.Error(codes.InvalidArgument, "unknown field")
			}
			return l.right.List(ctx, f)
		}
	}},
	{name: "breaks at long messages", finds: "odd.large-message", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if proto.Size(c.request) > 4<<20 {
				return nil, status.Error(codes.Unknown, "out of memory")
			}
			return c.forward(ctx)
		}
	}},
	{name: "breaks at filters that make no sense", finds: "odd.filters", lie: recode(codes.InvalidArgument, codes.Internal, "List")},
}

var recordFaults = []fault{
	{name: "has no provider in hosts", finds: "record.host", lie: machines(func(m *pb.Machine) {
		if m.Host != nil {
			m.Host.Provider = ""
		}
	})},
	{name: "has hosts for slots", finds: "record.host", lie: machines(func(m *pb.Machine) { m.Host = &pb.HostRef{Provider: "p", Ref: m.Id} })},
	{name: "has hosts of two providers", finds: "record.host-provider", lie: machines(func(m *pb.Machine) {
		if m.Host != nil {
			m.Host.Provider += m.Zone + m.State.String()
		}
	})},
	{name: "takes the cluster away when Drain begins", finds: "record.cluster", lie: machines(func(m *pb.Machine) {
		if m.State == draining {
			m.Cluster = ""
		}
	})},
	{name: "keeps the cluster after Drain", finds: "record.cluster metadata.cleared", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if m.Cluster != "" {
				l.memory[m.Id] = m.Cluster
			} else if m.State == idle {
				m.Cluster = l.memory[m.Id]
			}
		}
	}},
	{name: "has no prices", finds: "record.price", lie: machines(func(m *pb.Machine) { m.PricePerHour = -1 })},
	{name: "has prices that are no numbers", finds: "record.price", lie: machines(func(m *pb.Machine) { m.PricePerHour = math.NaN() })},
	{name: "says probabilities in percent", finds: "record.interruption", lie: machines(func(m *pb.Machine) { m.InterruptionProbability = 5 })},
	{name: "has words for quantities", finds: "record.resources", lie: machines(func(m *pb.Machine) { m.Resources = &pb.Resources{Resources: map[string]string{"cpu": "many"}} })},
	{name: "has no resources", finds: "record.resources", lie: machines(func(m *pb.Machine) { m.Resources, m.Allocatable = nil, nil })},
	{name: "has no types", finds: "record.type", lie: machines(func(m *pb.Machine) { m.InstanceType = "" })},
	{name: "has control characters in ids", finds: "record.id", lie: machines(func(m *pb.Machine) {
		if m.Cluster == "somebody" {
			m.Id += "\x1b"
		}
	})},
	{name: "has control characters in labels", finds: "record.names", lie: machines(func(m *pb.Machine) { m.Labels = map[string]string{"a\x1bb": "c"} })},
	{name: "has a ninth state", finds: "record.state", lie: machines(func(m *pb.Machine) {
		if m.State == configured && m.Cluster == "somebody" {
			m.State = 9
		}
	})},
}
