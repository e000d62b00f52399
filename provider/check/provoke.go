package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// restarted is what was seen before and after a restart: one machine Configured, and others, if there are so many, with a
// Configure and with a Drain under way.
type restarted struct {
	quiet              *machine
	moving, leaving    *machine // may be nil
	before             *pb.Machine
	after, afterMoving *pb.Machine
	afterLeaving       *pb.Machine
	list               *pb.MachineList // before the change under way
	listAfter          *pb.MachineList
	late, stale        answer     // a repeat, and a call with an old token
	refused            []*request // calls of before that passed the fence and were refused
	refusedAfter       []error    // what they are answered with after it, with their tokens
	fresh              error      // a finding: a later change has an operation of before
	fromThen           error      // of List since the old revision
	since              *pb.MachineList
}

// acquireForRestart returns three Idle machines, or fewer where there are not so many.
func (t *Target) acquireForRestart(ctx context.Context) (some []*machine, err error) {
	for n := 3; n > 0; n-- {
		if some, err = t.acquireSome(ctx, n, idle); !isSkip(err) {
			break
		}
	}
	return some, err
}

func restart(ctx context.Context, t *Target) (*restarted, error) {
	if t.o.Restart == nil {
		return nil, skipped("there is no command that restarts the provider; give one with --restart-command")
	}
	r := &restarted{}
	some, err := t.acquireForRestart(ctx)
	if err != nil {
		return nil, err
	}
	if len(some) > 2 {
		r.leaving = some[2]
		if err := t.bring(ctx, r.leaving, configured); err != nil {
			return nil, err
		}
	}
	r.quiet = some[0]
	if _, err := t.carryOut(ctx, r.quiet, &request{move: configure, machine: r.quiet.id, metadata: firstMetadata}); err != nil {
		return nil, err
	}
	if r.before, err = t.settle(ctx, r.quiet); err != nil {
		return nil, err
	}
	if r.list, err = t.list(ctx, &pb.ListFilter{}); err != nil {
		return nil, err
	}
	if len(some) > 1 {
		r.moving = some[1]
		if _, err := t.move(ctx, r.moving, configure); err != nil {
			return nil, err
		}
	}
	if r.leaving != nil {
		if _, err := t.move(ctx, r.leaving, drain); err != nil {
			return nil, err
		}
	}
	// Last of all, so that nothing that begins behind them writes their tokens down.
	if err := r.ask(ctx, t); err != nil {
		return nil, err
	}
	if err := t.o.Restart(ctx); err != nil {
		return nil, fmt.Errorf("the command that restarts the provider: %w", err)
	}
	return r, r.look(ctx, t)
}

// ask makes calls that pass the fence and are refused.
func (r *restarted) ask(ctx context.Context, t *Target) error {
	for _, refused := range [...]*request{{move: create, machine: r.quiet.id}, {move: drain, machine: t.ghost("restart")}} {
		if _, err := t.call(ctx, refused); status.Code(err) == codes.OK || status.Code(err) == codes.FailedPrecondition {
			return answered(refused.move.String()+", which cannot be", err, codes.Internal, codes.NotFound)
		}
		r.refused = append(r.refused, refused)
	}
	return nil
}

// look sees what is there after the restart.
func (r *restarted) look(ctx context.Context, t *Target) (err error) {
	for {
		if r.listAfter, err = t.list(ctx, &pb.ListFilter{}); status.Code(err) != codes.Unavailable {
			break
		}
		if err := pause(ctx, retryGap); err != nil {
			return fmt.Errorf("the provider does not come back: %w", err)
		}
	}
	if err != nil {
		return err
	}
	r.after = find(r.listAfter, r.quiet.id)
	r.since, r.fromThen = t.list(ctx, &pb.ListFilter{SinceRevision: r.list.GetRevision()})
	for _, refused := range r.refused {
		_, err := t.call(ctx, refused)
		r.refusedAfter = append(r.refusedAfter, err)
	}
	last := *r.quiet.last
	r.stale.ack, r.stale.err = t.call(ctx, &last)
	last.token = nil
	r.late.ack, r.late.err = t.call(ctx, &last)
	if r.moving != nil {
		if r.afterMoving, err = t.endOf(ctx, r.moving); err != nil {
			return err
		}
	}
	if r.leaving != nil {
		if r.afterLeaving, err = t.endOf(ctx, r.leaving); err != nil {
			return err
		}
	}
	// A change that nobody has asked for before: its operation is new.
	again := &request{move: drain, machine: r.quiet.id}
	ack, err := t.call(ctx, again)
	if err != nil {
		r.fresh = broken("OK", "Drain of a machine that was Configured before the restart: %s", said(err))
		return nil
	}
	if before := t.changeOf(ack.GetOperationId()); before != "" {
		r.fresh = broken("a new operation for each change", "%q names Drain of %s, after the restart, and %s", ack.GetOperationId(), again.machine, before)
	}
	t.began(again, ack)
	return nil
}

// endOf waits for the end of a change that was under way at a restart; Failed is one, too.
func (t *Target) endOf(ctx context.Context, m *machine) (*pb.Machine, error) {
	end, err := t.watch(ctx, m, nil)
	if m.gone != "" {
		return t.get(ctx, m.id)
	}
	return end, err
}

// changeOf returns of which change an operation is, "" = of none.
func (t *Target) changeOf(operation string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.operations[operation]
}

func afterRestart(look func(*restarted) error) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		r, err := t.restart.get(ctx, t, restart)
		if err != nil {
			return err
		}
		return look(r)
	}
}

var restartChecks = []Check{
	{"restart.machines", "After a restart the same machines are there.", pageRestart, afterRestart(func(r *restarted) error {
		for _, id := range ids(r.list) {
			if find(r.listAfter, id) == nil {
				return broken("all machines of before", "%s is not there", id)
			}
		}
		return nil
	})},
	{"restart.record", "A machine that was Configured is so after a restart, with its host, cluster and metadata.", pageRestart, afterRestart(func(r *restarted) error {
		if err := unchanged("after the restart", r.before, r.after); err != nil {
			return err
		}
		if !maps.Equal(r.after.GetShardMetadata(), firstMetadata) {
			return broken("the metadata of Configure", "%q", r.after.GetShardMetadata())
		}
		return nil
	})},
	{"restart.fence", "A restart forgets no token: what was old is FailedPrecondition.", pageRestart, afterRestart(func(r *restarted) error {
		return answered("Configure with the token of before the restart", r.stale.err, codes.FailedPrecondition)
	})},
	{"restart.refused-fence", "A restart forgets no token of a call that was refused, either.", pageRestart, afterRestart(func(r *restarted) error {
		for i, err := range r.refusedAfter {
			if err := answered(r.refused[i].move.String()+" of "+r.refused[i].machine+", with the token of before the restart", err, codes.FailedPrecondition); err != nil {
				return err
			}
		}
		return nil
	})},
	{"restart.operations", "A change after a restart has an operation that none before it had.", pageRepeats, afterRestart(func(r *restarted) error { return r.fresh })},
	{"restart.repeat", "A repeat after a restart answers with the operation of before.", pageRestart, afterRestart(func(r *restarted) error {
		if r.late.err != nil {
			return broken("OK", "Configure repeated: %s", said(r.late.err))
		}
		if got := r.late.ack.GetOperationId(); got != r.quiet.op {
			return broken("operation "+r.quiet.op, "%q", got)
		}
		return nil
	})},
	{"restart.draining", "A Drain that was under way at a restart ends, or the machine is Failed and says why.", pageRestart, afterRestart(func(r *restarted) error {
		if r.leaving == nil {
			return skipped("it needs three machines; let more be used with --max-machines, or have the provider offer more")
		}
		if m := r.afterLeaving; m.GetState() != idle && (m.GetState() != failed || m.GetLastError() == "") {
			return broken(nameOf(idle)+", or Failed with last_error", "%s", brief(m))
		}
		return nil
	})},
	{"restart.under-way", "A change that was under way at a restart ends, or the machine is Failed and says why.", pageRestart, afterRestart(func(r *restarted) error {
		if r.moving == nil {
			return skipped("it needs two machines; let more be used with --max-machines, or have the provider offer more")
		}
		if m := r.afterMoving; m.GetState() != configured && (m.GetState() != failed || m.GetLastError() == "") {
			return broken(nameOf(configured)+", or Failed with last_error", "%s", brief(m))
		}
		return nil
	})},
	{"restart.cursor", "A revision of before a restart loses no change: a list since then holds what changed, or everything.", pageRestart, afterRestart(func(r *restarted) error {
		if len(r.list.GetRevision()) == 0 {
			return skipped("the provider has no cursors; it is listed in full each time")
		}
		if r.fromThen != nil {
			return broken("OK", "List since the revision of before: %s", said(r.fromThen))
		}
		if r.moving == nil {
			return skipped("it needs two machines; let more be used with --max-machines, or have the provider offer more")
		}
		if find(r.since, r.moving.id) == nil {
			return broken("machine "+r.moving.id+", which changed", "a list of %d machines without it", len(r.since.GetMachines()))
		}
		return nil
	})},
}

// vanished is what is seen of a machine that was made to vanish.
type vanished struct {
	machine *machine
	get     error
	list    *pb.MachineList
	moves   []error // by move
}

func vanish(ctx context.Context, t *Target) (*vanished, error) {
	if t.o.Vanish == nil {
		return nil, skipped("there is no command that makes a machine vanish; give one with --vanish-command")
	}
	m, err := t.acquire(ctx, configured) // a free slot may be nothing that could vanish
	if err != nil {
		return nil, err
	}
	switch err := t.o.Vanish(ctx, m.id); {
	case errors.Is(err, ErrCannot):
		return nil, skipped("no machine can be made to vanish here: %v", err)
	case err != nil:
		return nil, fmt.Errorf("the command that makes a machine vanish: %w", err)
	}
	m.gone, m.asked = "it was made to vanish", true
	v := &vanished{machine: m}
	for {
		if _, v.get = t.get(ctx, m.id); v.get != nil {
			break
		}
		if err := pause(ctx, min(retryGap, t.o.Poll)); err != nil {
			return v, broken("NotFound", "Get still finds %s", m.id)
		}
	}
	if v.list, err = t.list(ctx, &pb.ListFilter{}); err != nil {
		return v, err
	}
	for _, what := range [...]move{create, configure, drain} {
		_, err := t.call(ctx, &request{move: what, machine: m.id})
		v.moves = append(v.moves, err)
	}
	return v, nil
}

func onVanished(look func(*vanished) error) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		v, err := t.vanish.get(ctx, t, vanish)
		if err != nil {
			return err
		}
		return look(v)
	}
}

// failure is what is seen of a machine whose change failed.
type failure struct {
	machine *machine
	what    move
	call    answer
	began   *pb.MachineList // a list right behind the call
	failed  *pb.Machine
	moves   map[move]error
	after   *pb.Machine
	listed  *pb.MachineList
	since   *pb.MachineList // since began
}

func fail(ctx context.Context, t *Target) (*failure, error) {
	if t.o.Fail == nil {
		return nil, skipped("there is no command that has a change fail; give one with --fail-command")
	}
	m, err := t.acquireFor(ctx, configure) // a slot that is late-bound is Idle at once, which cannot fail
	if err != nil {
		return nil, err
	}
	switch err := t.o.Fail(ctx, m.id); {
	case errors.Is(err, ErrCannot):
		return nil, skipped("no change can be made to fail here: %v", err)
	case err != nil:
		return nil, fmt.Errorf("the command that has a change fail: %w", err)
	}
	m.asked = true
	f := &failure{machine: m, what: configure, moves: map[move]error{}}
	f.call.ack, f.call.err = t.call(ctx, &request{move: f.what, machine: m.id})
	if f.began, err = t.list(ctx, &pb.ListFilter{}); err != nil {
		return f, err
	}
	end, watched := t.watch(ctx, m, nil)
	if watched == nil {
		return f, broken("a Failed machine", "%s; %s was to fail", brief(end), f.what)
	}
	if f.failed, err = t.get(ctx, m.id); err != nil {
		return f, errors.Join(watched, err)
	}
	for _, what := range allMoves {
		if what == remove && !m.mayDelete() {
			continue
		}
		_, f.moves[what] = t.call(ctx, &request{move: what, machine: m.id})
	}
	if f.after, err = t.get(ctx, m.id); err != nil {
		return f, err
	}
	if f.listed, err = t.list(ctx, &pb.ListFilter{States: []pb.MachineState{failed}}); err != nil {
		return f, err
	}
	f.since, err = t.list(ctx, &pb.ListFilter{SinceRevision: f.began.GetRevision()})
	return f, err
}

func onFailed(look func(*failure) error) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		f, err := t.fail.get(ctx, t, fail)
		if err != nil {
			return err
		}
		return look(f)
	}
}

var faultChecks = []Check{
	{"failed.says-why", "A change that fails leaves the machine Failed, with last_error.", pageRestart, onFailed(func(f *failure) error {
		if f.failed.GetState() != failed || f.failed.GetLastError() == "" {
			return broken("Failed with last_error", "%s, last_error %q", brief(f.failed), f.failed.GetLastError())
		}
		return nil
	})},
	{"failed.refuses", "A Failed machine refuses all changes with Internal and stays as it is.", pageRestart, onFailed(func(f *failure) error {
		for _, what := range [...]move{create, configure, drain} {
			if err := answered(what.String()+" of a Failed machine", f.moves[what], codes.Internal); err != nil {
				return err
			}
		}
		return unchanged("after calls that were refused", f.failed, f.after)
	})},
	{"failed.refuses-delete", "Delete of a Failed machine is refused with Internal, too.", pageRestart, onFailed(func(f *failure) error {
		err, tried := f.moves[remove]
		if !tried {
			return skipped("the machine that failed must not be deleted; have the provider offer a slot, or let Idle machines be deleted with --delete-idle")
		}
		if err := answered("Delete of a Failed machine", err, codes.Internal); err != nil {
			return err
		}
		return unchanged("after calls that were refused", f.failed, f.after)
	})},
	{"failed.changed", "A list since a revision holds a machine whose change has ended in Failed since.", pageLists, onFailed(func(f *failure) error {
		switch m := find(f.began, f.machine.id); {
		case len(f.began.GetRevision()) == 0:
			return skipped("the provider has no cursors; it is listed in full each time")
		case m.GetState() != f.what.during():
			return skipped("%s was done at once", f.what)
		}
		if m := find(f.since, f.machine.id); m.GetState() != failed {
			return broken("machine "+f.machine.id+", Failed", "List since a revision of when it was %s: %s", nameOf(f.what.during()), brief(m))
		}
		return nil
	})},
	{"failed.listed", "A Failed machine is listed as such.", pageRestart, onFailed(func(f *failure) error {
		if find(f.listed, f.machine.id) == nil {
			return broken("machine "+f.machine.id, "a list of the Failed without it")
		}
		return nil
	})},
	{"vanished.get", "Get of a machine that is gone is NotFound.", pageRestart, onVanished(func(v *vanished) error { return answered("Get", v.get, codes.NotFound) })},
	{"vanished.list", "A full list does not name a machine that is gone.", pageRestart, onVanished(func(v *vanished) error {
		if slices.Contains(ids(v.list), v.machine.id) {
			return broken("a list without "+v.machine.id, "it is listed")
		}
		return nil
	})},
	{"vanished.changes", "Changes of a machine that is gone are NotFound.", pageRestart, onVanished(func(v *vanished) error {
		for _, err := range v.moves {
			if err := answered("a change of a machine that is gone", err, codes.NotFound); err != nil {
				return err
			}
		}
		return nil
	})},
}
