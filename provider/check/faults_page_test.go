package check_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// settledState tells whether a machine in the state is on its way nowhere.
func settledState(s pb.MachineState) bool {
	return slices.Contains([]pb.MachineState{speculative, idle, configured, failed}, s)
}

// fenceNewer is a fence that is right, but for what it takes for a pair of shard and machine.
func fenceNewer(key func(*change) string) func(*liar) {
	return fenceOf(key, func(known bool, newest, now [2]int64) (bool, bool) {
		pass := newer(known, newest, now)
		return pass, pass
	})
}

// pageFaults were thought of with docs/provider.md alone, by somebody who had not read the checks. Of the twenty, four are in
// the other lists: "remembers tokens that it refused", "forgets empty values", "looks for the machine before the fence" and "gives
// nothing for revisions of before a restart". A fifth is in none: a pool of four workers shows by nothing but how long answers take.
// Three are variants that came with the checks: of pages of what changed at once, and of the answers to who loses a race.
var pageFaults = []fault{
	{name: "loses machines of one revision at the end of a page", finds: "list.pages", lie: func(l *liar) {
		const group, mark = 3, "group-"
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			if len(f.States) > 0 || len(f.SinceRevision) == 0 && f.MaxResults == 0 || len(f.SinceRevision) > 0 && !strings.HasPrefix(string(f.SinceRevision), mark) {
				return l.right.List(ctx, f)
			}
			all, err := l.right.List(ctx, &pb.ListFilter{})
			if err != nil {
				return nil, err
			}
			slices.SortFunc(all.Machines, func(a, b *pb.Machine) int { return cmp.Compare(a.Id, b.Id) })
			since := 0
			_, _ = fmt.Sscanf(string(f.SinceRevision), mark+"%d", &since)
			out := &pb.MachineList{}
			for i, m := range all.Machines {
				if revision := i/group + 1; revision > since && (f.MaxResults == 0 || len(out.Machines) < int(f.MaxResults)) {
					out.Machines = append(out.Machines, m)
					out.Revision = fmt.Append(nil, mark, revision)
				}
			}
			if len(out.Machines) == 0 {
				out.Revision = f.SinceRevision
			}
			return out, nil
		}
	}},
	{name: "loses machines that changed at once at the end of a page", finds: "race.pages", lie: func(l *liar) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			if len(f.SinceRevision) == 0 {
				return l.right.List(ctx, f)
			}
			out, err := l.right.List(ctx, &pb.ListFilter{SinceRevision: f.SinceRevision, States: f.States})
			if n := int(f.MaxResults); err == nil && n > 0 && n < len(out.Machines) {
				out.Machines = out.Machines[:n]
			}
			return out, err
		}
	}},
	{name: "counts max_results before it looks at states", finds: "list.states-limited", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{MaxResults: f.MaxResults, SinceRevision: f.SinceRevision}
	}, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		out.Machines = slices.DeleteFunc(out.Machines, func(m *pb.Machine) bool { return len(f.States) > 0 && !slices.Contains(f.States, m.State) })
	})},
	{name: "loses tokens of refused calls with a restart", finds: "restart.refused-fence", lie: func(l *liar) {
		fenceNewer(perMachine)(l)
		fenced := l.onCall
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			key, now := perMachine(c), [2]int64{c.epoch, c.number}
			ack, err := fenced(ctx, c)
			if err == nil {
				l.mu.Lock()
				l.kept[key] = now
				l.mu.Unlock()
			}
			return ack, err
		}
	}, with: provoked(func(l *liar) { l.newest = maps.Clone(l.kept) })},
	{name: "compares tokens as floating-point numbers", finds: "fence.largest", lie: fenceOf(perMachine, func(known bool, newest, now [2]int64) (bool, bool) {
		e, n := [2]float64{float64(newest[0]), float64(now[0])}, [2]float64{float64(newest[1]), float64(now[1])}
		pass := !known || e[1] > e[0] || e[1] == e[0] && n[1] > n[0]
		return pass, pass
	})},
	{name: "forgets tokens with Delete", finds: "fence.delete", lie: func(l *liar) {
		fenceNewer(perMachine)(l)
		fenced := l.onCall
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := fenced(ctx, c)
			if err == nil && c.name == "Delete" {
				l.mu.Lock()
				l.memory[c.machine] = "deleted"
				l.mu.Unlock()
			}
			return ack, err
		}
		l.onMachine = func(_ string, m *pb.Machine) {
			if m.State == speculative && l.memory[m.Id] != "" {
				delete(l.memory, m.Id)
				maps.DeleteFunc(l.newest, func(key string, _ [2]int64) bool { return strings.HasSuffix(key, "\x00"+m.Id) })
			}
		}
	}},
	{name: "answers old tokens of what has ended from its memory", finds: "fence.no-cached-answer", lie: func(l *liar) {
		answers := map[string]*pb.TransitionAck{}
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			key := fmt.Sprint(c.name, c.machine, c.shard, c.epoch, c.number)
			l.mu.Lock()
			known := answers[key]
			l.mu.Unlock()
			if m, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); known != nil && err == nil && settledState(m.State) {
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
	{name: "takes Configure for another cluster for a repeat", finds: "illegal.second-cluster configure.illegal-under-way", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.ConfigureRequest); ok {
				if m, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); err == nil && (m.State == configuring || m.State == configured) {
					r.ClusterId = m.Cluster
				}
			}
			return c.forward(ctx)
		}
	}},
	{name: "answers all clusters that ask at once as the first one", finds: "race.two-clusters", lie: func(l *liar) {
		var one sync.Mutex
		first := map[string]*pb.TransitionAck{}
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			one.Lock()
			defer one.Unlock()
			ack, err := c.forward(ctx)
			switch {
			case c.name != "Configure":
			case err == nil:
				first[c.machine] = proto.CloneOf(ack)
			case first[c.machine] != nil:
				return proto.CloneOf(first[c.machine]), nil
			}
			return ack, err
		}
	}},
	{name: "has the metadata of before where Configure has none", finds: "metadata.none", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			switch {
			case m.Cluster == "":
			case len(m.ShardMetadata) > 0:
				l.metadata[m.Id] = m.ShardMetadata
			default:
				m.ShardMetadata = l.metadata[m.Id]
			}
		}
	}},
	{name: "numbers operations from one again after a restart", finds: "restart.operations", lie: func(l *liar) {
		l.onAck = func(_ *change, ack *pb.TransitionAck) {
			if l.memory[ack.OperationId] == "" {
				l.count++
				l.memory[ack.OperationId] = fmt.Sprint("op-", l.count)
			}
			ack.OperationId = l.memory[ack.OperationId]
		}
	}, with: provoked(func(l *liar) { l.count = 0 })},
	{name: "goes back to Configured where a restart finds it Draining", finds: "restart.draining", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if l.memory[m.Id] = ""; m.State == draining {
				l.memory[m.Id] = m.Cluster
			}
		}
	}, with: provoked(func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if cluster := l.memory[m.Id]; cluster != "" {
				m.State, m.Cluster = configured, cluster
			}
		}
	})},
	{name: "does not know a finished change after a restart", finds: "restart.repeat", with: provoked(func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			m, errGet := l.right.Get(ctx, &pb.MachineRef{Id: c.machine})
			ack, err := c.forward(ctx)
			if errGet == nil && err == nil && m.State == ack.Machine.State {
				return nil, status.Error(codes.Internal, "it is there already")
			}
			return ack, err
		}
	})},
	{name: "deletes what is Failed", finds: "failed.refuses-delete", with: asItIs, lie: accept("Delete", failed, deleting)},
	{name: "lists no changes that have failed", finds: "failed.changed", with: asItIs, lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if len(f.SinceRevision) > 0 {
			out.Machines = slices.DeleteFunc(out.Machines, func(m *pb.Machine) bool { return m.State == failed })
		}
	})},
	{name: "takes shards for one whose ids differ in case", finds: "fence.shard-names", lie: fenceNewer(func(c *change) string { return strings.ToLower(c.shard) + "\x00" + c.machine })},
	{name: "cuts ids of shards after 63 characters", finds: "fence.shard-names", lie: fenceNewer(func(c *change) string { return c.shard[:min(len(c.shard), 63)] + "\x00" + c.machine })},
	{name: "answers what is illegal meanwhile with Unavailable", finds: "create.illegal-under-way configure.illegal-under-way drain.illegal-under-way delete.illegal-under-way", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			if m, errGet := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); status.Code(err) == codes.Internal && errGet == nil && !settledState(m.State) {
				return nil, status.Error(codes.Unavailable, "try later")
			}
			return ack, err
		}
	}},
	{name: "answers who loses a race with Aborted", finds: "race.configure-delete", lie: func(l *liar) {
		l.onError = func(_ string, err error) error {
			if code := status.Code(err); code == codes.Internal || code == codes.FailedPrecondition {
				return status.Error(codes.Aborted, err.Error())
			}
			return err
		}
	}},
}
