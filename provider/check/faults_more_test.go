package check_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/check"
)

// lists lies about every list that the provider behind it gives for the filter that ask makes
// of the caller's.
func lists(ask func(*liar, *pb.ListFilter) *pb.ListFilter, change func(*liar, *pb.ListFilter, *pb.MachineList)) func(*liar) {
	return func(l *liar) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			sent := f
			if ask != nil {
				sent = ask(l, f)
			}
			out, err := l.right.List(ctx, sent)
			if err == nil && change != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				change(l, f, out)
			}
			return out, err
		}
	}
}

var listFaults = []fault{
	{name: "has a machine twice", finds: "list.unique", lie: lists(nil, func(_ *liar, _ *pb.ListFilter, out *pb.MachineList) {
		if n := len(out.Machines); n > 1 {
			out.Machines = append(out.Machines, out.Machines[n-1])
		}
	})},
	{name: "leaves a machine out of every other list", finds: "list.repeats", lie: lists(nil, func(l *liar, _ *pb.ListFilter, out *pb.MachineList) {
		if l.count++; l.count%2 == 0 && len(out.Machines) > 0 {
			out.Machines = out.Machines[1:]
		}
	})},
	{name: "lists machines that Get does not know", finds: "get.listed", lie: lists(nil, func(_ *liar, _ *pb.ListFilter, out *pb.MachineList) {
		if len(out.Machines) > 0 {
			out.Machines = append(out.Machines, &pb.Machine{Id: "made-up", State: idle})
		}
	})},
	{name: "lists other labels than Get has", finds: "get.equals-list create.get-and-list drain.get-and-list delete.get-and-list", lie: func(l *liar) {
		l.onMachine = func(where string, m *pb.Machine) {
			if where == "List" {
				m.Labels = map[string]string{"rack": "r2"}
			}
		}
	}},
	{name: "lists machines later than Get has them", finds: "configure.get-and-list", lie: func(l *liar) {
		l.onMachine = func(where string, m *pb.Machine) {
			if where == "List" && m.State == configured && m.Cluster != "somebody" {
				m.State = configuring
			}
		}
	}},
	{name: "loses the last machine of each page", finds: "list.pages", lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if n := len(out.Machines); f.MaxResults > 1 && n == int(f.MaxResults) {
			out.Machines = out.Machines[:n-1]
		}
	})},
	{name: "begins each page with the last machine of the one before", finds: "list.pages", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{States: f.States, SinceRevision: f.SinceRevision, MaxResults: max(f.MaxResults-1, min(f.MaxResults, 1))}
	}, func(l *liar, f *pb.ListFilter, out *pb.MachineList) {
		if f.MaxResults < 2 || len(out.Machines) == 0 {
			return
		}
		if len(f.SinceRevision) > 0 && len(l.listed) > 0 {
			out.Machines = append(out.Machines, l.listed[0])
		}
		l.listed = out.Machines[:1]
	})},
	{name: "gives the newest revision with a page", finds: "list.pages", lie: func(l *liar) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			out, err := l.right.List(ctx, f)
			if err != nil {
				return nil, err
			}
			now, err := l.right.List(ctx, &pb.ListFilter{})
			out.Revision = now.GetRevision()
			return out, err
		}
	}},
	{name: "stays on the first page", finds: "list.pages", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		if f.MaxResults == 0 {
			return f
		}
		return &pb.ListFilter{MaxResults: f.MaxResults}
	}, nil)},
	{name: "gives no revision with a page", finds: "list.pages", lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if f.MaxResults > 0 {
			out.Revision = nil
		}
	})},
	{name: "has no end of pages", finds: "list.pages", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter { return &pb.ListFilter{MaxResults: f.MaxResults} }, func(l *liar, _ *pb.ListFilter, out *pb.MachineList) {
		l.count++
		out.Revision = []byte(fmt.Sprint(l.count))
		for _, m := range out.Machines {
			m.PricePerHour = float64(l.count)
		}
	})},
	{name: "does not mind max_results", finds: "list.max-results list.pages", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{States: f.States, SinceRevision: f.SinceRevision}
	}, nil)},
	{name: "does not mind states", finds: "list.states", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{MaxResults: f.MaxResults, SinceRevision: f.SinceRevision}
	}, nil)},
	{name: "minds the first state only", finds: "list.states", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{MaxResults: f.MaxResults, SinceRevision: f.SinceRevision, States: f.States[:min(len(f.States), 1)]}
	}, nil)},
	{name: "refuses unknown revisions", finds: "list.unknown-cursor", lie: lists(nil, nil), with: func(l *liar, _ *check.Options) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			if bytes.Equal(f.SinceRevision, []byte("garbage")) {
				return nil, status.Error(codes.InvalidArgument, "since_revision: unknown")
			}
			return l.right.List(ctx, f)
		}
	}},
	{name: "gives nothing for unknown revisions", finds: "list.unknown-cursor", lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if bytes.HasPrefix(f.SinceRevision, []byte{0xde, 0xde}) {
			out.Machines = nil
		}
	})},
	{name: "lists everything for each revision", finds: "list.nothing-changed", lie: lists(func(_ *liar, f *pb.ListFilter) *pb.ListFilter {
		return &pb.ListFilter{States: f.States, MaxResults: f.MaxResults}
	}, nil)},
	{name: "misses changes that have ended", finds: "list.changed", lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if len(f.SinceRevision) > 0 {
			out.Machines = slices.DeleteFunc(out.Machines, func(m *pb.Machine) bool { return m.State == configured })
		}
	})},
	{name: "misses changes that begin", finds: "list.changed", lie: lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
		if len(f.SinceRevision) > 0 {
			out.Machines = slices.DeleteFunc(out.Machines, func(m *pb.Machine) bool { return m.State == configuring || m.State == draining })
		}
	})},
}

// accept answers a call that is illegal in a state as if it began something.
func accept(name string, in, to pb.MachineState) func(*liar) {
	return func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			m, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine})
			if err != nil || c.name != name || m.State != in {
				return c.forward(ctx)
			}
			m.State = to
			return &pb.TransitionAck{OperationId: "accepted", Machine: m}, nil
		}
	}
}

var moveFaults = []fault{
	{name: "drains what is idle", finds: "illegal.drain-idle", lie: accept("Drain", idle, draining)},
	{name: "creates what is idle", finds: "illegal.create-idle", lie: accept("Create", idle, creating)},
	{name: "deletes what is not there", finds: "illegal.delete-speculative", lie: accept("Delete", speculative, deleting)},
	{name: "creates what is configured", finds: "illegal.create-configured", lie: accept("Create", configured, creating)},
	{name: "deletes what is configured", finds: "illegal.delete-configured", lie: accept("Delete", configured, deleting)},
	{name: "configures what is not there", finds: "illegal.configure-speculative", lie: accept("Configure", speculative, configuring)},
	{name: "configures what is being created", finds: "create.illegal-under-way", lie: accept("Configure", creating, configuring)},
	{name: "drains what is being configured", finds: "configure.illegal-under-way", lie: accept("Drain", configuring, draining)},
	{name: "deletes what is being drained", finds: "drain.illegal-under-way", lie: accept("Delete", draining, deleting)},
	{name: "gives one machine to two clusters", finds: "illegal.second-cluster", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			r, ok := c.request.(*pb.ConfigureRequest)
			if m, e := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); ok && e == nil && m.State != idle && status.Code(err) == codes.Internal {
				m.Cluster = r.ClusterId
				return &pb.TransitionAck{OperationId: "second", Machine: m}, nil
			}
			return ack, err
		}
	}},
	{name: "starts anew for all who ask at once", finds: "race.same-call", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			_, _ = c.forward(ctx)
			m, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine})
			return &pb.TransitionAck{OperationId: fmt.Sprint(c.number), Machine: m}, err
		}
	}},
	{name: "gives a machine to all who ask at once", finds: "race.two-clusters", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			r, ok := c.request.(*pb.ConfigureRequest)
			if m, e := l.right.Get(ctx, &pb.MachineRef{Id: c.machine}); ok && e == nil && m.State != idle && err != nil {
				m.Cluster = r.ClusterId
				return &pb.TransitionAck{OperationId: "for-" + r.ClusterId, Machine: m}, nil
			}
			return ack, err
		}
	}},
	{name: "configures for no cluster", finds: "configure.no-cluster", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.ConfigureRequest); ok && r.ClusterId == "" {
				r.ClusterId = "default"
			}
			return c.forward(ctx)
		}
	}},
	{name: "is Configuring while it is created and deleted", finds: "create.ends delete.ends", lie: machines(func(m *pb.Machine) {
		if m.State == creating || m.State == deleting {
			m.State = configuring
		}
	})},
	{name: "passes over Draining", finds: "drain.ends", lie: machines(func(m *pb.Machine) {
		if m.State == draining {
			m.State = configured
		}
	})},
	{name: "is Creating before it is Configured", finds: "configure.ends", lie: func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if m.State == configuring {
				m.State, m.Cluster, m.ShardMetadata = creating, "", nil
			}
		}
	}},
	{name: "never ends a Drain", hangs: true, finds: "drain.ends", lie: machines(func(m *pb.Machine) {
		if m.State == idle {
			m.State, m.Cluster = draining, "c"
		}
	}), with: func(_ *liar, o *check.Options) {
		o.Allow = func(m *pb.Machine) bool { return m.GetState() == speculative }
	}},
	{name: "breaks at a negative grace", finds: "drain.negative-grace", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			if r, ok := c.request.(*pb.DrainRequest); ok && r.GracePeriodSeconds < 0 {
				return nil, status.Error(codes.Unknown, "panic: negative duration")
			}
			return c.forward(ctx)
		}
	}},
	{name: "breaks at odd ids", finds: "odd.ids", lie: func(l *liar) {
		l.onGet = func(ctx context.Context, id string) (*pb.Machine, error) {
			if strings.ContainsAny(id, "\x00\n") {
				return nil, status.Error(codes.Unknown, "no such file")
			}
			return l.right.Get(ctx, &pb.MachineRef{Id: id})
		}
	}},
	{name: "lets both of two racing calls win", finds: "race.configure-delete", lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			m, e := l.right.Get(ctx, &pb.MachineRef{Id: c.machine})
			if c.name == "Delete" && e == nil && err != nil || c.name == "Configure" && e == nil && err != nil && m.State != configured {
				return &pb.TransitionAck{OperationId: "also", Machine: m}, nil
			}
			return ack, err
		}
	}},
	{name: "buys once for each shard", finds: "race.two-shards", lie: func(l *liar) {
		l.onAck = func(c *change, ack *pb.TransitionAck) { ack.OperationId += c.shard }
	}},
	{name: "numbers operations by machine and call", finds: "race.machines", lie: func(l *liar) {
		l.onAck = func(c *change, ack *pb.TransitionAck) { ack.OperationId = c.name }
	}},
}

// wait waits until a machine is on its way nowhere.
func (l *liar) wait(ctx context.Context, id string) (m *pb.Machine, err error) {
	tick := time.NewTicker(liarGap)
	defer tick.Stop()
	for {
		l.rig.step()
		m, err = l.right.Get(ctx, &pb.MachineRef{Id: id})
		if err != nil || slices.Contains([]pb.MachineState{speculative, idle, configured, failed}, m.State) {
			return m, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// impatient wants answers while a change that a liar waits for is still under way.
func impatient(_ *liar, o *check.Options) { o.AnswerWithin = liarGap * looks / 3 }

// liarGap is how long a liar waits between two looks.
const liarGap = 5 * time.Millisecond

var timeFaults = []fault{
	{name: "answers when the work is done", finds: "create.answers-at-once configure.answers-at-once drain.answers-at-once delete.answers-at-once", with: impatient, lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			ack, err := c.forward(ctx)
			if err == nil {
				ack.Machine, err = l.wait(ctx, c.machine)
			}
			return ack, err
		}
	}},
	{name: "does one thing after the other", finds: "race.machines", with: impatient, lie: func(l *liar) {
		var one sync.Mutex
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			one.Lock()
			defer one.Unlock()
			ack, err := c.forward(ctx)
			if err == nil {
				_, err = l.wait(ctx, c.machine)
			}
			return ack, err
		}
	}},
	{name: "answers Get when the work is done", finds: "race.reads", with: func(_ *liar, o *check.Options) { o.AnswerWithin = time.Millisecond }, lie: func(l *liar) {
		l.onGet = func(ctx context.Context, id string) (*pb.Machine, error) {
			if m, err := l.right.Get(ctx, &pb.MachineRef{Id: id}); err != nil || m.State != configuring {
				return m, err
			}
			return l.wait(ctx, id)
		}
	}},
	{name: "looks long for each machine", finds: "get.answer-time", with: func(_ *liar, o *check.Options) { o.AnswerWithin = time.Nanosecond }},
}

// provoked hands on what makes trouble, and lies from then on.
func provoked(lieAfter func(*liar)) func(*liar, *check.Options) {
	return func(l *liar, o *check.Options) {
		o.Restart = func(ctx context.Context) error {
			err := l.rig.restart(ctx)
			l.mu.Lock()
			lieAfter(l)
			l.mu.Unlock()
			return err
		}
		o.Vanish, o.Fail = l.rig.vanish, l.rig.fail
	}
}

var asItIs = provoked(func(*liar) {})

var provokedFaults = []fault{
	{name: "loses a machine with a restart", finds: "restart.machines", with: provoked(func(l *liar) {
		l.onList = func(ctx context.Context, f *pb.ListFilter) (*pb.MachineList, error) {
			out, err := l.right.List(ctx, f)
			if n := len(out.GetMachines()); n > 0 {
				out.Machines = out.Machines[:n-1]
			}
			return out, err
		}
	})},
	{name: "loses metadata with a restart", finds: "restart.record", with: provoked(func(l *liar) { l.onMachine = func(_ string, m *pb.Machine) { m.ShardMetadata = nil } })},
	{name: "loses tokens with a restart", finds: "restart.fence", with: provoked(func(l *liar) { l.onCall = l.unfenced })},
	{name: "loses operations with a restart", finds: "restart.repeat", with: provoked(func(l *liar) { l.onAck = func(_ *change, ack *pb.TransitionAck) { ack.OperationId += "-2" } })},
	{name: "loses changes under way with a restart", finds: "restart.under-way", with: provoked(func(l *liar) {
		l.onMachine = func(_ string, m *pb.Machine) {
			if m.State == configuring {
				l.memory[m.Id] = "lost"
			}
			if l.memory[m.Id] != "" {
				m.State, m.Cluster, m.ShardMetadata = idle, "", nil
			}
		}
	})},
	{name: "gives nothing for revisions of before a restart", finds: "restart.cursor", with: provoked(func(l *liar) {
		lists(nil, func(_ *liar, f *pb.ListFilter, out *pb.MachineList) {
			if len(f.SinceRevision) > 0 {
				out.Machines = nil
			}
		})(l)
	})},
	{name: "says not why a change failed", finds: "failed.says-why record.last-error", with: asItIs, lie: machines(func(m *pb.Machine) { m.LastError = "" })},
	{name: "makes Failed machines whole when it is called", finds: "failed.refuses", with: asItIs, lie: func(l *liar) {
		l.onCall = func(ctx context.Context, c *change) (*pb.TransitionAck, error) {
			m, err := l.right.Get(ctx, &pb.MachineRef{Id: c.machine})
			if err == nil && m.State == failed {
				return &pb.TransitionAck{OperationId: "healed", Machine: m}, nil
			}
			return c.forward(ctx)
		}
	}},
	{name: "lists no Failed machines", finds: "failed.listed", with: asItIs, lie: lists(nil, func(_ *liar, _ *pb.ListFilter, out *pb.MachineList) {
		out.Machines = slices.DeleteFunc(out.Machines, func(m *pb.Machine) bool { return m.State == failed })
	})},
	{name: "answers Unknown for what is gone", finds: "vanished.get vanished.changes", with: asItIs, lie: recode(codes.NotFound, codes.Unknown)},
	{name: "lists what is gone", finds: "vanished.list", with: asItIs, lie: lists(nil, func(l *liar, _ *pb.ListFilter, out *pb.MachineList) {
		if len(l.listed) == 0 {
			l.listed = slices.Clone(out.Machines)
		}
		have := map[string]bool{}
		for _, m := range out.Machines {
			have[m.Id] = true
		}
		for _, m := range l.listed {
			if !have[m.Id] {
				out.Machines = append(out.Machines, m)
			}
		}
	})},
}

// looks is how many looks a change takes: more than a check takes to see it from all sides.
const looks = 8

// shortStep is of how many faults one is tried in a short run.
const shortStep = 5

// atOnce is how many faults are tried at the same time: they mostly wait.
const atOnce = 16

// TestFaultsAreFound: each fault fails each check that is to find it, and a liar that does not
// lie fails none.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	byID := map[string]check.Check{}
	for _, c := range check.Checks() {
		byID[c.ID] = c
	}
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, f := range append(faults, fault{name: "none"}) {
		if testing.Short() && f.finds != "" && i%shortStep != 0 {
			continue // under the race detector the checks are what is looked at
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(f.name, func(t *testing.T) { tryFault(t, startRig(t, looks), f, byID, nil) })
		})
	}
	all.Wait()
	if len(faults) < 60 {
		t.Errorf("%d faults", len(faults))
	}
}

// unfound are the checks that no fault fails, each with a reason.
var unfound = map[string]string{
	"fence.whole-shard": "a provider without it is right, too",
	"list.answer-time":  "it would take half a minute",
}

// row is a fault in the table of the page.
func (f *fault) row() string {
	return fmt.Sprintf("| %s | `%s` |", f.name, strings.ReplaceAll(f.finds, " ", "` `"))
}

// TestEachCheckFindsAFault: a check that nothing fails checks nothing. The page lists all faults.
func TestEachCheckFindsAFault(t *testing.T) {
	finds, page := map[string]bool{}, read(t, "docs/how-to/check-a-provider.md")
	for _, f := range faults {
		if !strings.Contains(page, f.row()+"\n") {
			t.Errorf("the page lacks\n%s", f.row())
		}
		for _, id := range strings.Fields(f.finds) {
			finds[id] = true
		}
	}
	for _, c := range check.Checks() {
		if finds[c.ID] == (unfound[c.ID] != "") {
			t.Errorf("%s is found by a fault: %t, with the reason %q why not", c.ID, finds[c.ID], unfound[c.ID])
		}
	}
}

// tryFault has a provider that is right be wrong in one way, and wants the checks to fail that are named for it, but for those that
// cannot be made there.
func tryFault(t *testing.T, r right, f fault, byID map[string]check.Check, without map[string]bool) {
	var options func(*liar, *check.Options)
	var l *liar
	address := startLiar(t, r, func(x *liar) {
		l = x
		if f.lie != nil {
			f.lie(x)
		}
	})
	options = f.with
	x := targetOf(t, r, address, func(o *check.Options) {
		if options != nil {
			options(l, o)
		}
	})
	if f.finds == "" {
		for _, got := range check.RunAll(context.Background(), x, check.Checks(), each, nil) {
			if got.Status == check.Failed {
				t.Errorf("a right provider fails %s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
			}
		}
		return
	}
	for _, id := range strings.Fields(f.finds) {
		c, ok := byID[id]
		if !ok {
			t.Errorf("there is no check %s", id)
		}
		if !ok || without[id] {
			continue
		}
		limit := each
		if f.hangs {
			limit = hangLimit
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		got := c.Run(ctx, x)
		if late := strings.HasPrefix(got.Seen, "none after"); got.Status != check.Failed || late && !f.hangs {
			t.Errorf("%s %s%s", id, got.Status, " "+got.Reason)
		} else if testing.Verbose() {
			t.Logf("%s: expected %s, saw %s", id, got.Expected, got.Seen)
		}
		cancel()
	}
}

// hangLimit is how long a check takes with a fault that has no end.
const hangLimit = time.Second
