package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// racers is how many calls are made at once.
const racers = 6

// race makes calls at the same time.
func (t *Target) race(ctx context.Context, calls ...*request) []answer {
	out := make([]answer, len(calls))
	for _, r := range calls {
		if r.token == nil {
			r.token = t.next()
		}
	}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i, r := range calls {
		all.Go(func() {
			<-begin
			out[i].ack, out[i].err = t.call(ctx, r)
		})
	}
	close(begin)
	all.Wait()
	return out
}

// oneOperation holds the answers to calls that ask for the same work: those that are OK have
// one operation, and what did not get through was older than what did, or illegal by then.
func oneOperation(all []answer, right ...codes.Code) error {
	var won *pb.TransitionAck
	for _, a := range all {
		switch {
		case a.err != nil:
			if err := answered("a call that lost the race", a.err, append([]codes.Code{codes.FailedPrecondition}, right...)...); err != nil {
				return err
			}
		case won == nil:
			won = a.ack
		case won.GetOperationId() != a.ack.GetOperationId():
			return broken("one operation", "%q and %q", won.GetOperationId(), a.ack.GetOperationId())
		}
	}
	if won == nil {
		return broken("one call that is accepted", "none: %s", said(all[0].err))
	}
	return nil
}

// blobChecks send bootstrap data that start nothing.
var blobChecks = []Check{
	{"bootstrap.opaque", "Bootstrap data are any bytes; a provider does not look into them.", pageMetadata, blob([]byte("\x00\xff\xfe not text \x80\u009b"))},
	{"bootstrap.none", "A machine can be configured without bootstrap data.", pageMetadata, blob([]byte{})},
	{"bootstrap.long", "Bootstrap data of 256 KiB are accepted.", pageMetadata, blob(make([]byte, 256<<10))},
	{"drain.negative-grace", "Drain with a negative grace is InvalidArgument, or is as one without.", pageLife, func(ctx context.Context, t *Target) error {
		m, err := t.acquire(ctx, configured)
		if err != nil {
			return err
		}
		_, err = t.call(ctx, &request{move: drain, machine: m.id, grace: -5})
		if err := answered("Drain with a grace of -5", err, codes.OK, codes.InvalidArgument); err != nil {
			return err
		}
		if err != nil {
			return t.still(ctx, m, configured)
		}
		_, err = t.settle(ctx, m)
		return err
	}},
}

func blob(data []byte) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		if t.o.Bootstrap != nil {
			return skipped("bootstrap data are given; with others the machine may not start")
		}
		m, err := t.acquire(ctx, idle)
		if err != nil {
			return err
		}
		if _, err := t.carryOut(ctx, m, &request{move: configure, machine: m.id, blob: data}); err != nil {
			return broken("OK", "Configure: %s", said(err))
		}
		now, err := t.settle(ctx, m)
		if err == nil && now.GetState() != configured {
			return broken("a Configured machine", "%s", brief(now))
		}
		return err
	}
}

// acquireToBind returns a machine that is free, and the next call on its way to Configured.
func (t *Target) acquireToBind(ctx context.Context) (*machine, move, error) {
	m, err := t.acquireFree(ctx)
	if err != nil {
		return nil, 0, err
	}
	now, err := t.get(ctx, m.id)
	if err != nil {
		return nil, 0, err
	}
	return m, towards(now.GetState(), configured), nil
}

var raceChecks = []Check{
	{"race.same-call", "Of the same call made several times at once, one starts something; the others are repeats or fenced.", pageRepeats, func(ctx context.Context, t *Target) error {
		m, what, err := t.acquireToBind(ctx)
		if err != nil {
			return err
		}
		var calls []*request
		for range racers {
			calls = append(calls, &request{move: what, machine: m.id})
		}
		if err := oneOperation(t.race(ctx, calls...)); err != nil {
			return err
		}
		return t.arrives(ctx, m, what)
	}},
	{"race.two-clusters", "Of calls that bind a machine to two clusters at once, those for one of them win.", pageLife, twoClusters},
	{"race.two-shards", "Of calls of two shards that buy a machine at once, one starts something.", pageRepeats, func(ctx context.Context, t *Target) error {
		m, what, err := t.acquireToBind(ctx)
		if err != nil {
			return err
		}
		other := &token{t.other("rival"), 1, 1}
		all := t.race(ctx, &request{move: what, machine: m.id}, &request{move: what, machine: m.id, token: other})
		if code := status.Code(all[1].err); code == codes.PermissionDenied || code == codes.Unauthenticated {
			return skipped("the provider lets this certificate call for no other shard than %s: %s", t.o.Shard, said(all[1].err))
		}
		if err := oneOperation(all, codes.Internal); err != nil {
			return err
		}
		return t.arrives(ctx, m, what)
	}},
	{"race.configure-delete", "Of Configure and Delete of one machine at once, exactly one is accepted; the other is illegal or fenced.", pageLife, func(ctx context.Context, t *Target) error {
		m, err := t.acquireFor(ctx, remove)
		if err != nil {
			return err
		}
		all := t.race(ctx, &request{move: configure, machine: m.id}, &request{move: remove, machine: m.id})
		if (all[0].err == nil) == (all[1].err == nil) {
			return broken("one that is OK", "Configure: %s; Delete: %s", said(all[0].err), said(all[1].err))
		}
		won, lost := configure, all[1].err
		if all[0].err != nil {
			won, lost = remove, all[0].err
		}
		if err := answered("the call that lost the race", lost, codes.Internal, codes.FailedPrecondition); err != nil {
			return err
		}
		return t.arrives(ctx, m, won)
	}},
	{"race.machines", "Calls for different machines do not wait for each other, and each is answered with its machine.", pageTime, raceMachines},
	{"race.pages", "Machines that change at once are all in a list that goes on in pages.", pageLists, racePages},
	{"race.reads", "Get and List are answered while machines change.", pageTime, func(ctx context.Context, t *Target) error {
		m, err := t.acquire(ctx, idle)
		if err != nil {
			return err
		}
		if _, err := t.move(ctx, m, configure); err != nil {
			return err
		}
		wrong := make([]error, racers)
		var all sync.WaitGroup
		for i := range wrong {
			all.Go(func() {
				took, err := timed(func() error {
					_, errGet := t.get(ctx, m.id)
					_, errList := t.list(ctx, &pb.ListFilter{MaxResults: sampleMax})
					return errors.Join(errGet, errList)
				})
				if err != nil {
					wrong[i] = broken("OK", "%s", said(err))
				} else if took > 2*t.o.AnswerWithin {
					wrong[i] = broken("answers within "+t.o.AnswerWithin.String(), "Get and List take %s", took.Round(time.Millisecond))
				}
			})
		}
		all.Wait()
		return errors.Join(wrong...)
	}},
}

// arrives waits until a move has ended as it should.
func (t *Target) arrives(ctx context.Context, m *machine, what move) error {
	now, err := t.settle(ctx, m)
	if err == nil && now.GetState() != what.to() {
		return broken("the machine in "+nameOf(what.to()), "%s", brief(now))
	}
	return err
}

func twoClusters(ctx context.Context, t *Target) error {
	m, err := t.acquire(ctx, idle)
	if err != nil {
		return err
	}
	var calls []*request
	for i := range racers {
		calls = append(calls, &request{move: configure, machine: m.id, cluster: t.o.Cluster + []string{"", secondCluster}[i%2]})
	}
	all := t.race(ctx, calls...)
	if err := oneOperation(all, codes.Internal); err != nil {
		return err
	}
	now, err := t.settle(ctx, m)
	if err != nil {
		return err
	}
	for i, a := range all {
		if c := a.ack.GetMachine().GetCluster(); a.err == nil && a.ack.GetMachine() != nil && c != now.GetCluster() {
			return broken("cluster "+now.GetCluster()+" in each answer", "one has %s", c)
		}
		if a.err == nil && calls[i].cluster != now.GetCluster() {
			return broken("Internal or FailedPrecondition for a cluster that does not get the machine", "OK for %s; it is bound to %s", calls[i].cluster, now.GetCluster())
		}
	}
	return nil
}

// racePages has two machines change at once, which a provider may note as one, and reads what has changed one machine at a time.
func racePages(ctx context.Context, t *Target) error {
	some, err := t.acquireSome(ctx, 2, idle)
	if err != nil {
		return err
	}
	before, err := t.cursor(ctx)
	if err != nil {
		return err
	}
	var calls []*request
	for _, m := range some {
		calls = append(calls, &request{move: configure, machine: m.id})
	}
	for i, a := range t.race(ctx, calls...) {
		if a.err != nil {
			return broken("OK", "Configure of %s: %s", some[i].id, said(a.err))
		}
	}
	if err := t.changedInPages(ctx, some, before); err != nil {
		return err
	}
	for _, m := range some { // while they change, a page that lost one may have it again when it has changed once more
		if err := t.arrives(ctx, m, configure); err != nil {
			return err
		}
	}
	return t.changedInPages(ctx, some, before)
}

// changedInPages reads what has changed since a list, one machine at a time, until it has read all of some.
func (t *Target) changedInPages(ctx context.Context, some []*machine, before *pb.MachineList) error {
	missing := map[string]bool{}
	for _, m := range some {
		missing[m.id] = true
	}
	since := before.GetRevision()
	for range 2*len(before.GetMachines()) + pagesMost { // others may change, too
		l, err := t.list(ctx, &pb.ListFilter{SinceRevision: since, MaxResults: 1})
		if err != nil {
			return broken("OK", "List since a revision, at most 1: %s", said(err))
		}
		for _, m := range l.GetMachines() {
			delete(missing, m.GetId())
		}
		if len(missing) == 0 {
			return nil
		}
		if len(l.GetMachines()) == 0 {
			break
		}
		since = l.GetRevision()
	}
	for _, m := range some {
		if missing[m.id] {
			return broken("machines "+some[0].id+" and "+some[1].id+", which changed at once", "pages of 1 without %s", m.id)
		}
	}
	return nil
}

func raceMachines(ctx context.Context, t *Target) error {
	some, err := t.acquireSome(ctx, 2, idle)
	if err != nil {
		return err
	}
	var calls []*request
	for _, m := range some {
		calls = append(calls, &request{move: configure, machine: m.id})
	}
	var all []answer
	took, _ := timed(func() error { all = t.race(ctx, calls...); return nil })
	for i, a := range all {
		switch {
		case a.err != nil:
			return broken("OK", "Configure of %s: %s", some[i].id, said(a.err))
		case a.ack.GetMachine() != nil && a.ack.GetMachine().GetId() != some[i].id:
			return broken("machine "+some[i].id, "%s", brief(a.ack.GetMachine()))
		}
	}
	if all[0].ack.GetOperationId() == all[1].ack.GetOperationId() {
		return broken("an operation of each machine's own", "%q for both", all[0].ack.GetOperationId())
	}
	if took > 2*t.o.AnswerWithin {
		return broken(fmt.Sprintf("answers within %s", t.o.AnswerWithin), "both take %s", took.Round(time.Millisecond))
	}
	for _, m := range some {
		if err := t.arrives(ctx, m, configure); err != nil {
			return err
		}
	}
	return nil
}
