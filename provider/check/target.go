package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// The defaults of Options.
const (
	ShardDefault        = "provider-check"
	ClusterDefault      = "provider-check"
	MachinesDefault     = 4
	MachinesMax         = 64 // that may be used
	AnswerWithinDefault = 5 * time.Second
	// AnswerWithinMax is the longest time that an answer can be given: every call ends then.
	AnswerWithinMax = callTimeout
	PollDefault     = 500 * time.Millisecond
)

const (
	callTimeout = 30 * time.Second       // of one call; shards wait as long
	pollMin     = 5 * time.Millisecond   // between the first looks at a change
	retryGap    = 100 * time.Millisecond // while a provider is away
)

// Options are what a target is made with. Zero stands for the default, but for Epoch.
type Options struct {
	Conn grpc.ClientConnInterface
	// Shard is in whose name calls are made, Epoch the epoch of the first one. Both must be
	// newer than what the provider knows of the shard.
	Shard string
	Epoch int64
	// Only names the machines that may be used; nil = those that Allow lets pass.
	Only  []string
	Allow func(*pb.Machine) bool
	// Machines is how many of them are used at most; negative = none.
	Machines int
	// DeleteIdle lets machines that were found Idle be deleted and created again, as those that were found Speculative are. Those
	// with the label of an owned host are, in any case: Delete turns them off, and their slot stays.
	DeleteIdle bool
	// Cluster is for whom machines are bound, Bootstrap what they are started with. Without
	// Bootstrap a few bytes stand for it, and checks that send odd ones run.
	Cluster   string
	Bootstrap []byte
	// AnswerWithin is how long an answer may take.
	AnswerWithin time.Duration
	// Poll is how often it is looked how far a change is, at most.
	Poll time.Duration
	// Restart ends the provider and starts it anew; nil = it cannot be done.
	Restart func(context.Context) error
	// Vanish makes a Configured machine vanish, Fail has the Configure of an Idle one that follows end in Failed; nil = it
	// cannot be done. Such a machine cannot be left as it was found. An error that wraps ErrCannot skips the checks.
	Vanish func(ctx context.Context, machine string) error
	Fail   func(ctx context.Context, machine string) error
}

// labelHost is on machines of owned hosts, which come back by Create when they were deleted.
const labelHost = "tonnage.dev/host"

// machine is one that may be used.
type machine struct {
	id    string
	found *pb.Machine
	again bool     // it was found Idle, and may be deleted and created again
	gone  string   // why it cannot be used any more, "" = it can
	asked bool     // that is because it was asked for
	last  *request // that was carried out
	op    string   // its operation
}

// mayDelete tells whether the machine was bought here, or comes back when it is created again.
func (m *machine) mayDelete() bool { return m.found.GetState() == speculative || m.again }

// Target is a provider that is tried. One check runs at a time.
type Target struct {
	o        Options
	client   pb.CapacityProviderClient
	machines []*machine
	noDelete bool // the provider has no Delete

	mu         sync.Mutex
	epoch      int64
	sequence   int64
	operations map[string]string // operation: of which change
	reused     error             // a finding
	violations map[string]error  // by id of the rule
	host       string            // HostRef.provider, as first seen
	waits      Wait

	life    memo[*journey]
	restart memo[*restarted]
	vanish  memo[*vanished]
	fail    memo[*failure]
}

// memo is something that is made once, for several checks.
type memo[T any] struct {
	made  bool
	value T
	err   error
}

func (m *memo[T]) get(ctx context.Context, t *Target, build func(context.Context, *Target) (T, error)) (T, error) {
	if !m.made {
		m.value, m.err = build(ctx, t)
		m.made = true
	}
	return m.value, m.err
}

// ErrCannot is wrapped by errors of Options.Vanish and Options.Fail where the provider has no way to do it.
var ErrCannot = errors.New("it cannot be done")

// ErrOptions is wrapped by errors of New that are the caller's to mend.
var ErrOptions = errors.New("cannot be used")

// New lists the machines of a provider and claims those that may be used. It only lists; call
// Begin before the first check.
func New(ctx context.Context, o Options) (*Target, error) {
	o.Shard, o.Cluster = cmp.Or(o.Shard, ShardDefault), cmp.Or(o.Cluster, ClusterDefault)
	o.Machines, o.AnswerWithin, o.Poll = cmp.Or(o.Machines, MachinesDefault), cmp.Or(o.AnswerWithin, AnswerWithinDefault), cmp.Or(o.Poll, PollDefault)
	t := &Target{
		o: o, client: pb.NewCapacityProviderClient(o.Conn), epoch: o.Epoch,
		operations: map[string]string{}, violations: map[string]error{},
	}
	l, err := t.list(ctx, &pb.ListFilter{})
	if err != nil {
		return nil, fmt.Errorf("list the provider's machines: %w", err)
	}
	if err := t.claim(l.GetMachines()); err != nil {
		return nil, err
	}
	return t, nil
}

// claim chooses the machines to be used: those that are named, or slots that can be bought
// and one machine that is idle.
func (t *Target) claim(listed []*pb.Machine) error {
	if t.o.Machines < 0 {
		return nil
	}
	if t.o.Machines > MachinesMax {
		return fmt.Errorf("%d machines: at most %d are used: %w", t.o.Machines, MachinesMax, ErrOptions)
	}
	byID := map[string]*pb.Machine{}
	for _, m := range listed {
		byID[m.GetId()] = m
	}
	var slots, hosts []*machine
	add := func(m *pb.Machine) {
		switch m.GetState() {
		case speculative:
			slots = append(slots, &machine{id: m.GetId(), found: m})
		case idle:
			hosts = append(hosts, &machine{id: m.GetId(), found: m, again: t.o.DeleteIdle || m.GetLabels()[labelHost] != ""})
		}
	}
	for _, id := range t.o.Only {
		m := byID[id]
		switch {
		case m == nil:
			return fmt.Errorf("machine %q: the provider does not list it: %w", id, ErrOptions)
		case !isOneOf(m.GetState(), speculative, idle):
			return fmt.Errorf("machine %q is %s; only Speculative and Idle ones are used: %w", id, nameOf(m.GetState()), ErrOptions)
		}
		add(m)
	}
	if len(t.o.Only) == 0 {
		for _, m := range listed {
			if t.o.Allow == nil || t.o.Allow(m) {
				add(m)
			}
		}
	}
	bought := t.o.Machines
	if len(hosts) > 0 && bought > 1 {
		bought--
	}
	slots = slots[:min(len(slots), bought)]
	t.machines = slices.Concat(slots, hosts[:min(len(hosts), t.o.Machines-len(slots))])
	return nil
}

// Begin finds out whether calls are accepted, and whether the provider has Delete. One that has
// not cannot give back what is bought, so nothing is.
func (t *Target) Begin(ctx context.Context) error {
	if !slices.ContainsFunc(t.machines, (*machine).mayDelete) {
		return nil
	}
	_, err := t.call(ctx, &request{move: remove, machine: t.ghost("delete")})
	switch status.Code(err) {
	case codes.Unimplemented:
		t.noDelete = true
		for _, m := range t.machines {
			m.again = false
		}
		t.machines = slices.DeleteFunc(t.machines, (*machine).mayDelete)
	case codes.Unavailable, codes.DeadlineExceeded, codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("delete a machine that does not exist: %w", err)
	case codes.FailedPrecondition:
		return fmt.Errorf("epoch %d of shard %q is fenced; name a higher epoch or another shard: %w: %w", t.o.Epoch, t.o.Shard, err, ErrOptions)
	}
	return nil
}

// Claim is a machine that may be used.
type Claim struct {
	ID    string `json:"id"`
	State string `json:"state"` // in which it was found
}

// Claims returns the machines that may be used.
func (t *Target) Claims() (out []Claim) {
	for _, m := range t.machines {
		out = append(out, Claim{m.id, nameOf(m.found.GetState())})
	}
	return out
}

// Left is a machine that is not as it was found.
type Left struct {
	ID    string `json:"id"`
	Found string `json:"found"`
	Now   string `json:"now"`
	Why   string `json:"why"`
	// Asked tells that Options.Vanish or Options.Fail did it.
	Asked bool `json:"asked"`
}

// Restore brings all machines back into the states in which they were found. It returns those
// that are not.
func (t *Target) Restore(ctx context.Context) (out []Left) {
	for _, m := range t.machines {
		err := t.bring(ctx, m, m.found.GetState())
		if err == nil {
			continue
		}
		now := "unknown"
		if at, err := t.get(ctx, m.id); err == nil {
			now = nameOf(at.GetState())
		} else if status.Code(err) == codes.NotFound {
			now = "gone"
		}
		out = append(out, Left{m.id, nameOf(m.found.GetState()), now, shorten(err.Error()), m.asked})
	}
	return out
}

// acquire returns a machine in a state, which it brings about.
func (t *Target) acquire(ctx context.Context, want pb.MachineState) (*machine, error) {
	some, err := t.acquireSome(ctx, 1, want)
	if err != nil {
		return nil, err
	}
	return some[0], nil
}

// acquireBought returns a machine in a state that was bought here, so that it may be deleted.
func (t *Target) acquireBought(ctx context.Context, want pb.MachineState) (*machine, error) {
	some, err := t.acquireOf(ctx, 1, want, (*machine).mayDelete, "Speculative")
	if err != nil {
		return nil, err
	}
	return some[0], nil
}

// acquireSome returns so many machines in a state.
func (t *Target) acquireSome(ctx context.Context, n int, want pb.MachineState) ([]*machine, error) {
	if want == speculative {
		return t.acquireOf(ctx, n, want, (*machine).mayDelete, "Speculative")
	}
	return t.acquireOf(ctx, n, want, func(*machine) bool { return true }, "Speculative or Idle")
}

// acquireOf returns so many machines in a state, those that need the fewest moves. Not enough
// of those that fit, which were found in the states named, skips the check.
func (t *Target) acquireOf(ctx context.Context, n int, want pb.MachineState, fits func(*machine) bool, found string) ([]*machine, error) {
	type candidate struct {
		*machine
		moves int
	}
	var all []candidate
	for _, m := range t.machines {
		if m.gone != "" || !fits(m) {
			continue
		}
		now, err := t.get(ctx, m.id)
		if err != nil {
			return nil, err
		}
		all = append(all, candidate{m, distance(now.GetState(), want)})
	}
	switch {
	case len(all) >= n:
	case t.noDelete && found == "Speculative":
		return nil, skipped("the provider has no Delete, so nothing is bought of it")
	case n == 1:
		return nil, skipped("no machine that was found %s may be used; %s", found, t.remedy(found))
	default:
		return nil, skipped("it needs %d machines that were found %s and may be used, and there are %d; %s", n, found, len(all), t.remedy(found))
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.moves - b.moves })
	var out []*machine
	for _, c := range all[:n] {
		if err := t.bring(ctx, c.machine, want); err != nil {
			return nil, err
		}
		out = append(out, c.machine)
	}
	return out, nil
}

// remedy says what lets more machines be used.
func (t *Target) remedy(found string) string {
	idles := slices.ContainsFunc(t.machines, func(m *machine) bool { return !m.mayDelete() && m.gone == "" })
	switch {
	case t.o.Machines < 0:
		return "let some be used with --max-machines"
	case found == "Speculative" && idles:
		return "let Idle ones be deleted and created again with --delete-idle, or have the provider offer a slot"
	}
	return "have the provider offer more, or let more be used with --machines, --filter or --max-machines"
}

// movesMost is how many moves lead from any state to any other, with room for a change that
// was under way.
const movesMost = 8

// bring changes a machine until it is in a settled state.
func (t *Target) bring(ctx context.Context, m *machine, want pb.MachineState) error {
	if m.gone != "" {
		return errors.New(m.gone)
	}
	for range movesMost {
		now, err := t.settle(ctx, m)
		if err != nil {
			return err
		}
		if now.GetState() == want {
			return nil
		}
		if _, err := t.move(ctx, m, towards(now.GetState(), want)); err != nil {
			return fmt.Errorf("bring machine %q, which is %s, to %s: %w", m.id, nameOf(now.GetState()), nameOf(want), err)
		}
	}
	return broken("machine "+m.id+" in "+nameOf(want), "it never gets there")
}

// move makes the usual call of a move.
func (t *Target) move(ctx context.Context, m *machine, what move) (*pb.TransitionAck, error) {
	return t.carryOut(ctx, m, &request{move: what, machine: m.id})
}

// carryOut makes a call that is expected to begin a change.
func (t *Target) carryOut(ctx context.Context, m *machine, r *request) (*pb.TransitionAck, error) {
	ack, err := t.call(ctx, r)
	if err != nil {
		return nil, err
	}
	m.last, m.op = r, ack.GetOperationId()
	t.began(r, ack)
	return ack, nil
}

// began notes the operation of a change. None may be that of two.
func (t *Target) began(r *request, ack *pb.TransitionAck) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change := fmt.Sprintf("%s of %s at token %d/%d", r.move, r.machine, r.token.epoch, r.token.sequence)
	if before, known := t.operations[ack.GetOperationId()]; known && t.reused == nil {
		t.reused = broken("a new operation for each change", "%q names %s and %s", ack.GetOperationId(), before, change)
	}
	t.operations[ack.GetOperationId()] = change
}

// Wait is a machine that is waited for.
type Wait struct {
	Machine, State string // empty = none is
	Since          time.Time
}

// Waiting returns the machine that is waited for.
func (t *Target) Waiting() Wait {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits
}

// wait notes which machine is waited for, nil = none.
func (t *Target) wait(m *pb.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m == nil:
		t.waits = Wait{}
	case t.waits.Machine != m.GetId() || t.waits.State != nameOf(m.GetState()):
		t.waits = Wait{m.GetId(), nameOf(m.GetState()), time.Now()}
	}
}

// settle waits until a machine is on its way nowhere.
func (t *Target) settle(ctx context.Context, m *machine) (*pb.Machine, error) {
	return t.watch(ctx, m, nil)
}

// watch waits until a machine is on its way nowhere, and shows each look at it.
func (t *Target) watch(ctx context.Context, m *machine, look func(*pb.Machine) error) (*pb.Machine, error) {
	for gap := min(pollMin, t.o.Poll); ; gap = min(2*gap, t.o.Poll) {
		now, err := t.get(ctx, m.id)
		if err != nil {
			return nil, err
		}
		if look != nil {
			if err := look(now); err != nil {
				return nil, err
			}
		}
		if now.GetState() == failed {
			m.gone = "it is Failed: " + shorten(now.GetLastError())
			return nil, broken("a change that ends well", "machine %s is Failed: %s", m.id, shorten(now.GetLastError()))
		}
		if !underWay(now.GetState()) {
			t.wait(nil)
			return now, nil
		}
		t.wait(now)
		if err := pause(ctx, gap); err != nil {
			return nil, fmt.Errorf("machine %s is still %s: %w", m.id, nameOf(now.GetState()), err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unchanged tells whether a machine is as it was, but for what may change by itself.
func unchanged(what string, before, after *pb.Machine) error {
	a, b := proto.CloneOf(before), proto.CloneOf(after)
	for _, m := range [...]*pb.Machine{a, b} {
		m.PricePerHour, m.InterruptionProbability = 0, 0
	}
	if proto.Equal(a, b) {
		return nil
	}
	return broken("the machine as it was: "+brief(before), "%s: %s", what, brief(after))
}

// brief is what matters of a machine, in a few words.
func brief(m *pb.Machine) string {
	if m == nil {
		return "no machine"
	}
	out := fmt.Sprintf("%s %s", m.GetId(), nameOf(m.GetState()))
	if m.GetHost() != nil {
		out += fmt.Sprintf(" on %s/%s", m.GetHost().GetProvider(), m.GetHost().GetRef())
	}
	if m.GetCluster() != "" {
		out += " for " + m.GetCluster()
	}
	if n := len(m.GetShardMetadata()); n > 0 {
		out += fmt.Sprintf(" with %d entries of metadata", n)
	}
	return shorten(out)
}
