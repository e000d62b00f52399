package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// argumentChecks are what each move answers whatever the machine is.
func argumentChecks() (out []Check) {
	for _, m := range allMoves {
		have := func(do func(context.Context, *Target) error) func(context.Context, *Target) error {
			return func(ctx context.Context, t *Target) error {
				if m == remove && t.noDelete {
					return skipped("the provider has no Delete")
				}
				return do(ctx, t)
			}
		}
		out = append(out,
			Check{m.id("empty-id"), fmt.Sprintf("%s without a machine's id is InvalidArgument, before anything else is looked at.", m), pageOrder, have(func(ctx context.Context, t *Target) error {
				for range 2 {
					_, err := t.call(ctx, &request{move: m, token: &token{t.o.Shard, 1, 1}})
					if err := answered(m.String(), err, codes.InvalidArgument); err != nil {
						return err
					}
				}
				return nil
			})},
			Check{m.id("unknown"), fmt.Sprintf("%s of a machine that does not exist is NotFound.", m), pageOrder, have(func(ctx context.Context, t *Target) error {
				_, err := t.call(ctx, &request{move: m, machine: t.ghost("unknown")})
				return answered(m.String(), err, codes.NotFound)
			})},
			Check{m.id("fenced-unknown"), fmt.Sprintf("%s with an old token is FailedPrecondition before it is looked whether the machine exists.", m), pageOrder, have(func(ctx context.Context, t *Target) error {
				id := t.ghost("fenced-" + m.String())
				r := &request{move: m, machine: id}
				if _, err := t.call(ctx, r); status.Code(err) != codes.NotFound {
					return answered(m.String()+" of a machine that does not exist", err, codes.NotFound)
				}
				_, err := t.call(ctx, &request{move: m, machine: id, token: r.token})
				return answered(m.String()+" of it, with the same token", err, codes.FailedPrecondition)
			})})
	}
	return out
}

// knock makes a call that no state that a machine was found in allows. It tells whether the
// fence let it pass.
func (t *Target) knock(ctx context.Context, m *machine, k token) (passed bool, err error) {
	_, err = t.call(ctx, &request{move: drain, machine: m.id, token: &k})
	switch code := status.Code(err); code {
	case codes.FailedPrecondition:
		return false, nil
	case codes.PermissionDenied, codes.Unauthenticated:
		return false, skipped("the provider lets this certificate call for no other shard than %s: %s", t.o.Shard, said(err))
	case codes.OK, codes.Internal:
		return true, nil
	}
	return false, broken("FailedPrecondition, or Internal where the fence lets it pass", "Drain of a machine of no cluster: %s", said(err))
}

// attempt is a token that is tried, and whether it is newer than those before it.
type attempt struct {
	epoch, sequence int64
	newer           bool
}

// tokens tries attempts on a machine of no cluster.
func tokens(shard string, reserve int64, attempts ...attempt) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		m, err := t.acquireFree(ctx)
		if err != nil {
			return err
		}
		from, epoch := t.o.Shard, int64(0)
		if shard != "" {
			from = t.other(shard)
		} else {
			epoch = t.raise(reserve)
		}
		text := ""
		for _, a := range attempts {
			passed, err := t.knock(ctx, m, token{from, a.epoch + epoch, a.sequence})
			if err != nil {
				return err
			}
			if passed != a.newer {
				return broken(fmt.Sprintf("epoch %d, sequence %d is fenced: %t", a.epoch+epoch, a.sequence, !a.newer), "fenced: %t; before it there were%s", !passed, text)
			}
			text += fmt.Sprintf(" (%d, %d)", a.epoch+epoch, a.sequence)
		}
		return nil
	}
}

// acquireFree returns a machine of no cluster.
func (t *Target) acquireFree(ctx context.Context) (*machine, error) {
	m, err := t.acquire(ctx, speculative)
	if isSkip(err) {
		return t.acquire(ctx, idle)
	}
	return m, err
}

// beyondFloat and the number above it are the same as floating-point numbers.
const beyondFloat = 1 << 53

var fenceChecks = []Check{
	{"fence.newer", "A call passes whose epoch is higher, or whose epoch is the same and sequence number higher, than the newest of its shard for its machine.", pageFence, tokens("", 12,
		attempt{2, 5, true}, attempt{2, 6, true}, attempt{3, 1, true}, attempt{4, 0, true}, attempt{10, 7, true})},
	{"fence.older", "A call whose token is the same or older is FailedPrecondition.", pageFence, tokens("", 12,
		attempt{2, 5, true}, attempt{2, 5, false}, attempt{2, 4, false}, attempt{1, 99999, false}, attempt{2, 6, true}, attempt{2, 6, false}, attempt{3, 0, true}, attempt{3, 0, false},
		attempt{2, 999999, false}, attempt{10, 7, true}, attempt{9, 999, false})},
	{"fence.negative", "Negative sequence numbers are low numbers.", pageFence, tokens("", 4,
		attempt{1, 1, true}, attempt{1, -1, false}, attempt{2, -1, true}, attempt{2, -1, false}, attempt{2, -2, false}, attempt{2, 0, true})},
	{"fence.first-contact", "The first token of a shard for a machine passes whatever it is, and negative epochs are low ones.", pageFence, tokens("first", 0,
		attempt{-7, -3, true}, attempt{-7, -3, false}, attempt{-7, -4, false}, attempt{-8, 1, false}, attempt{-6, math.MinInt64, true}, attempt{0, 0, true})},
	{"fence.largest", "The largest numbers are numbers like any other, and neighbours among them differ.", pageFence, tokens("largest", 0,
		attempt{1, beyondFloat, true}, attempt{1, beyondFloat + 1, true}, attempt{1, math.MaxInt64, true}, attempt{beyondFloat, 1, true}, attempt{beyondFloat + 1, 1, true}, attempt{math.MaxInt64, 0, true}, attempt{math.MaxInt64, math.MaxInt64, true}, attempt{math.MaxInt64, math.MaxInt64, false},
		attempt{math.MaxInt64 - 1, math.MaxInt64, false}, attempt{math.MinInt64, math.MaxInt64, false})},
	{"fence.refused-changes-no-mark", "A call that is refused does not change which token is the newest.", pageFence, tokens("", 12,
		attempt{5, 5, true}, attempt{4, 9, false}, attempt{4, 10, false}, attempt{5, 5, false}, attempt{5, 6, true})},
	{"fence.failed-call-counts", "A token that passes counts, also when the call is then refused.", pageFence, func(ctx context.Context, t *Target) error {
		id := t.ghost("counts")
		k := t.next()
		if _, err := t.call(ctx, &request{move: create, machine: id, token: k}); status.Code(err) != codes.NotFound {
			return answered("Create of a machine that does not exist", err, codes.NotFound)
		}
		_, err := t.call(ctx, &request{move: drain, machine: id, token: k})
		return answered("Drain of it, with the token of that call", err, codes.FailedPrecondition)
	}},
	{"fence.all-moves", "The fence holds for all four calls together: a token that one has used is old for the others.", pageFence, func(ctx context.Context, t *Target) error {
		m, err := t.acquireFree(ctx)
		if err != nil {
			return err
		}
		k := token{t.o.Shard, t.raise(1), 1}
		switch passed, err := t.knock(ctx, m, k); {
		case err != nil:
			return err
		case !passed:
			return broken("a newer token passes", "it is fenced")
		}
		before, err := t.get(ctx, m.id)
		if err != nil {
			return err
		}
		for _, what := range allMoves {
			if t.noDelete && what == remove {
				continue
			}
			_, err := t.call(ctx, &request{move: what, machine: m.id, token: &k})
			if err := answered(what.String()+" with a token that Drain had", err, codes.FailedPrecondition); err != nil {
				return err
			}
		}
		after, err := t.get(ctx, m.id)
		if err != nil {
			return err
		}
		return unchanged("after calls with an old token", before, after)
	}},
	{"fence.per-machine", "The fence of one machine does not hold for another one.", pageFence, func(ctx context.Context, t *Target) error {
		some, err := t.acquireSome(ctx, 2, idle)
		if err != nil {
			return err
		}
		e := t.raise(8)
		for _, x := range []struct {
			m *machine
			k token
		}{{some[0], token{t.o.Shard, e + 7, 9}}, {some[1], token{t.o.Shard, e, 1}}} {
			passed, err := t.knock(ctx, x.m, x.k)
			if err != nil {
				return err
			}
			if !passed {
				return broken("a token passes that is the newest for its machine", "epoch %d for %s is fenced after a higher one for %s", x.k.epoch, x.m.id, some[0].id)
			}
		}
		return nil
	}},
	{"fence.per-shard", "The fence of one shard does not hold for another one.", pageFence, func(ctx context.Context, t *Target) error {
		m, err := t.acquireFree(ctx)
		if err != nil {
			return err
		}
		if _, err := t.knock(ctx, m, token{t.o.Shard, t.raise(2) + 1, 9}); err != nil {
			return err
		}
		passed, err := t.knock(ctx, m, token{t.other("second"), 1, 1})
		if err == nil && !passed {
			return broken("the first call of another shard passes", "it is fenced")
		}
		return err
	}},
	{"fence.shard-names", "Two shards are two, whatever their ids have in common: also when only the case of a letter differs, or the last of a hundred letters.", pageFence, shardNames},
	{"fence.delete", "Delete forgets no token: an older one is FailedPrecondition afterwards.", pageFence, fenceAfterDelete},
	{"fence.no-cached-answer", "A repeat with the token of the call that it repeats is FailedPrecondition, and is not told the operation.", pageFence, func(ctx context.Context, t *Target) error {
		m, err := t.acquire(ctx, idle)
		if err != nil {
			return err
		}
		if _, err := t.move(ctx, m, configure); err != nil {
			return err
		}
		before, err := t.settle(ctx, m)
		if err != nil {
			return err
		}
		_, err = t.call(ctx, m.last)
		if err := answered("Configure with the token of the Configure before it", err, codes.FailedPrecondition); err != nil {
			return err
		}
		after, err := t.get(ctx, m.id)
		if err != nil {
			return err
		}
		return unchanged("after a call with an old token", before, after)
	}},
	{"fence.reads", "Get and List are answered whatever was fenced.", pageFence, func(ctx context.Context, t *Target) error {
		m, err := t.acquireFree(ctx)
		if err != nil {
			return err
		}
		e := t.raise(2)
		_, err = t.knock(ctx, m, token{t.o.Shard, e + 1, 1})
		_, err2 := t.knock(ctx, m, token{t.o.Shard, e, 1})
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if _, err := t.get(ctx, m.id); err != nil {
			return broken("OK", "Get: %s", said(err))
		}
		if _, err := t.list(ctx, &pb.ListFilter{}); err != nil {
			return broken("OK", "List: %s", said(err))
		}
		return nil
	}},
	{"fence.no-token", "Calls without shard, epoch and sequence number are not fenced; a provider may refuse them to all but administrators.", pageFence, func(ctx context.Context, t *Target) error {
		m, err := t.acquireFree(ctx)
		if err != nil {
			return err
		}
		for range 2 {
			_, err = t.call(ctx, &request{move: drain, machine: m.id, token: &token{}})
			switch status.Code(err) {
			case codes.FailedPrecondition:
				return broken("no fence", "%s", said(err))
			case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
				return skipped("the provider refuses calls without a shard: %s", said(err))
			}
		}
		return nil
	}},
	{"fence.whole-shard", "With the metadata tonnage-fence: shard, an epoch is old when the shard had a higher one for any machine (optional).", pageWholeShard, func(ctx context.Context, t *Target) error {
		some, err := t.acquireSome(ctx, 2, idle)
		if err != nil {
			return err
		}
		e := t.raise(8)
		if _, err := t.knock(ctx, some[0], token{t.o.Shard, e + 7, 1}); err != nil {
			return err
		}
		passed, err := t.knock(metadata.AppendToOutgoingContext(ctx, "tonnage-fence", "shard"), some[1], token{t.o.Shard, e, 1})
		if err == nil && passed {
			return skipped("the provider fences each machine by itself, as the protocol says")
		}
		return err
	}},
}

// longShard is how long the ids of shards are that differ in their last letter.
const longShard = 100

// shardNames has a shard with a high epoch for a machine, and then another one of nearly the same id with a low one.
func shardNames(ctx context.Context, t *Target) error {
	m, err := t.acquireFree(ctx)
	if err != nil {
		return err
	}
	long := t.other("long-")
	long += strings.Repeat("x", max(0, longShard-1-len(long)))
	for _, pair := range [...][2]string{{t.other("case"), t.other("Case")}, {long + "a", long + "b"}} {
		if _, err := t.knock(ctx, m, token{pair[0], 9, 9}); err != nil {
			return err
		}
		passed, err := t.knock(ctx, m, token{pair[1], 1, 1})
		switch {
		case err != nil:
			return err
		case !passed:
			return broken("the first call of shard "+pair[1]+" passes", "it is fenced after a call of shard %s", pair[0])
		}
	}
	return nil
}

// fenceAfterDelete makes a call with a token of before a Delete when the machine is Speculative again.
func fenceAfterDelete(ctx context.Context, t *Target) error {
	m, err := t.acquireBought(ctx, idle)
	if err != nil {
		return err
	}
	old := t.next()
	if _, err := t.move(ctx, m, remove); err != nil {
		return broken("OK", "Delete: %s", said(err))
	}
	before, err := t.settle(ctx, m)
	if err != nil {
		return err
	}
	for _, k := range [...]*token{m.last.token, old} {
		_, err := t.call(ctx, &request{move: create, machine: m.id, token: k})
		if err := answered("Create of the machine that was deleted, with a token that is not newer than that of Delete", err, codes.FailedPrecondition); err != nil {
			return err
		}
	}
	after, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	return unchanged("after calls with old tokens", before, after)
}

// illegalChecks are what moves answer that a settled state does not allow.
func illegalChecks() []Check {
	out := []Check{}
	for _, x := range []struct {
		what move
		in   pb.MachineState
	}{{configure, speculative}, {drain, speculative}, {remove, speculative}, {create, configured}, {remove, configured}} {
		id := fmt.Sprintf("illegal.%s-%s", lower(x.what), lowerState(x.in))
		promise := fmt.Sprintf("%s of a %s machine is refused with Internal and changes nothing.", x.what, nameOf(x.in))
		if x.what == remove && x.in == speculative {
			promise = "Delete of a Speculative machine starts nothing: it is a repeat, or refused with Internal."
		}
		out = append(out, Check{id, promise, pageLife, func(ctx context.Context, t *Target) error {
			return t.refuses(ctx, x.what, x.in, x.what == remove && x.in == speculative)
		}})
	}
	for _, what := range [...]move{create, drain} {
		out = append(out, Check{"illegal." + lower(what) + "-idle", fmt.Sprintf("%s of an Idle machine starts nothing: it is a repeat, or refused with Internal.", what), pageLife, func(ctx context.Context, t *Target) error {
			return t.refuses(ctx, what, idle, true)
		}})
	}
	return append(out, Check{"illegal.second-cluster", "Configure of a Configured machine for another cluster is refused with Internal, and leaves it with the first one.", pageLife, rebind},
		Check{"configure.no-cluster", "Configure without a cluster is InvalidArgument or Internal and binds nothing.", pageLife, func(ctx context.Context, t *Target) error {
			m, err := t.acquire(ctx, idle)
			if err != nil {
				return err
			}
			_, err = t.call(ctx, &request{move: configure, machine: m.id, noneOf: true})
			if err := answered("Configure without a cluster", err, codes.InvalidArgument, codes.Internal); err != nil {
				return err
			}
			return t.still(ctx, m, idle)
		}})
}

// refuses makes a call that the state does not allow. Where it may also be a repeat of
// something long done, OK is right as well, but nothing may begin.
func (t *Target) refuses(ctx context.Context, what move, in pb.MachineState, mayRepeat bool) error {
	acquire := t.acquire
	if what == remove {
		acquire = t.acquireBought
	}
	m, err := acquire(ctx, in)
	if err != nil {
		return err
	}
	before, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	right := []codes.Code{codes.Internal}
	if mayRepeat {
		right = append(right, codes.OK)
	}
	ack, err := t.call(ctx, &request{move: what, machine: m.id})
	if err := answered(fmt.Sprintf("%s of a machine that is %s", what, nameOf(in)), err, right...); err != nil {
		return err
	}
	if s := ack.GetMachine().GetState(); ack.GetMachine() != nil && s != in {
		return broken("the machine, "+nameOf(in)+" as it was", "%s answers with %s", what, brief(ack.GetMachine()))
	}
	after, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	return unchanged("after "+what.String(), before, after)
}

func (t *Target) still(ctx context.Context, m *machine, in pb.MachineState) error {
	now, err := t.get(ctx, m.id)
	if err == nil && now.GetState() != in {
		return broken(nameOf(in)+", as it was", "%s", brief(now))
	}
	return err
}

// secondCluster is behind the name of the cluster for which machines are bound, in that of another one.
const secondCluster = "-2"

// rebind calls for a second cluster.
func rebind(ctx context.Context, t *Target) error {
	m, err := t.acquire(ctx, configured)
	if err != nil {
		return err
	}
	before, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	_, err = t.call(ctx, &request{move: configure, machine: m.id, cluster: t.o.Cluster + secondCluster})
	if err := answered("Configure for another cluster", err, codes.Internal); err != nil {
		return err
	}
	after, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	return unchanged("after Configure for another cluster", before, after)
}

// underWayChecks are what moves answer while another one is under way.
func underWayChecks() (out []Check) {
	for _, m := range allMoves {
		promise := fmt.Sprintf("While a machine is %s, the three other calls are refused with Internal, and it goes on.", nameOf(m.during()))
		if m == configure {
			promise = "While a machine is Configuring, the three other calls and Configure for another cluster are refused with Internal, and it goes on."
		}
		out = append(out, Check{m.id("illegal-under-way"), promise, pageLife, func(ctx context.Context, t *Target) error {
			return t.refusesWhile(ctx, m)
		}})
	}
	return out
}

// errSlow is returned when a call may have come when the change before it had ended.
var errSlow = errors.New("the change may have ended before the call")

// slowTries is how often such a call is made before it counts as wrong. A provider that is right
// would have to end the change in each of them between the look at the machine and the call.
const slowTries = 5

// refusesWhile makes all other calls while a move is under way. A call that would be legal
// when it has ended, and is accepted, is tried again: the change may just have ended.
func (t *Target) refusesWhile(ctx context.Context, what move) error {
	var err error
	for range slowTries {
		if err = t.refusesWhileOnce(ctx, what); !errors.Is(err, errSlow) {
			return err
		}
	}
	return err
}

func (t *Target) refusesWhileOnce(ctx context.Context, what move) error {
	m, err := t.acquireFor(ctx, what)
	if err != nil {
		return err
	}
	if _, err := t.move(ctx, m, what); err != nil {
		return broken("OK", "%s: %s", what, said(err))
	}
	tried := 0
	for _, other := range allMoves {
		r := &request{move: other, machine: m.id}
		switch {
		case other == configure && what == configure:
			r.cluster = t.o.Cluster + secondCluster
		case other == what, other == remove && !m.mayDelete():
			continue
		}
		now, err := t.get(ctx, m.id)
		if err != nil {
			return err
		}
		if now.GetState() != what.during() {
			break
		}
		tried++
		_, err = t.call(ctx, r)
		wrong := answered(fmt.Sprintf("%s while the machine is %s", other, nameOf(what.during())), err, codes.Internal)
		if err == nil && other.from() == what.to() {
			wrong = errors.Join(errSlow, wrong)
		}
		if wrong != nil {
			return wrong
		}
	}
	if tried == 0 {
		return skipped("%s was done at once", what)
	}
	end, err := t.settle(ctx, m)
	if err == nil && end.GetState() != what.to() {
		return broken("the machine in "+nameOf(what.to())+" in the end", "%s", brief(end))
	}
	return err
}

// acquireFor returns a machine in the state that a move begins in: one that may be deleted,
// where there is one and where the move is Delete.
func (t *Target) acquireFor(ctx context.Context, what move) (*machine, error) {
	m, err := t.acquireBought(ctx, what.from())
	if isSkip(err) && what != remove {
		return t.acquire(ctx, what.from())
	}
	return m, err
}

func lower(m move) string { return strings.ToLower(m.String()) }

func lowerState(s pb.MachineState) string { return strings.ToLower(nameOf(s)) }
