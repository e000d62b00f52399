package check

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// journey is one life of a machine: Create, Configure, Drain, once more Configure and Drain,
// Delete; without the first and the last where the machine was found Idle.
type journey struct {
	legs   []*leg
	bought error // why there is no Create and no Delete, nil = there are
}

// leg is one change of the life, and what was seen of it.
type leg struct {
	move     move
	metadata map[string]string // of Configure
	ack      *pb.TransitionAck
	took     time.Duration
	seen     *pb.Machine // by Get, right behind the answer
	listed   *pb.Machine // and by List
	again    answer      // to the call repeated right behind its answer
	states   []pb.MachineState
	watched  []*pb.Machine
	end      *pb.Machine
	endList  *pb.Machine // by List
	late     answer      // to the call repeated when it was done
	after    *pb.Machine
}

// answer is how a call was answered.
type answer struct {
	ack *pb.TransitionAck
	err error
}

// firstMetadata is what is given first: any keys and values that a message can carry, also
// those that have a meaning elsewhere.
var firstMetadata = map[string]string{
	"": "empty key", "empty value": "", "nul": "a\x00b", "節": "\u009b\u202e", "bigfleet.lucy.sh/assigned-priority": "not a number",
	"tonnage.dev/reserved-cluster": "nobody", "first": "1",
}

// secondMetadata replaces it.
var secondMetadata = map[string]string{"second": "2"}

// live takes a machine through its life.
func live(ctx context.Context, t *Target) (*journey, error) {
	j := &journey{}
	moves := []move{create, configure, drain, configure, drain, remove}
	m, err := t.acquire(ctx, speculative)
	if isSkip(err) {
		j.bought = err
		moves = moves[1:5]
		m, err = t.acquire(ctx, idle)
	}
	if err != nil {
		return j, err
	}
	metadata := firstMetadata
	for _, what := range moves {
		l := &leg{move: what}
		if what == configure {
			l.metadata, metadata = metadata, secondMetadata
		}
		j.legs = append(j.legs, l)
		if err := t.travel(ctx, m, l); err != nil {
			return j, fmt.Errorf("%s of machine %s: %w", what, m.id, err)
		}
	}
	return j, nil
}

// travel carries out one change and looks at it from all sides.
func (t *Target) travel(ctx context.Context, m *machine, l *leg) (err error) {
	l.took, err = timed(func() error {
		l.ack, err = t.carryOut(ctx, m, &request{move: l.move, machine: m.id, metadata: l.metadata})
		return err
	})
	if err != nil {
		return broken("OK", "%s", said(err))
	}
	if id := l.ack.GetMachine().GetId(); l.ack.GetMachine() != nil && id != m.id {
		t.violate(ruleSameID, broken("the machine that was asked for: "+m.id, "%s answers with %s", l.move, brief(l.ack.GetMachine())))
	}
	l.again = t.repeat(ctx, m, l)
	if l.seen, err = t.get(ctx, m.id); err != nil {
		return err
	}
	if l.listed, err = t.listed(ctx, m.id); err != nil {
		return err
	}
	see := func(now *pb.Machine) error {
		l.watched = append(l.watched, now)
		if n := len(l.states); n == 0 || l.states[n-1] != now.GetState() {
			l.states = append(l.states, now.GetState())
		}
		return nil
	}
	_ = see(l.seen)
	if l.end, err = t.watch(ctx, m, see); err != nil {
		return err
	}
	if l.endList, err = t.listed(ctx, m.id); err != nil {
		return err
	}
	if l.end.GetState() != l.move.to() {
		return broken("the machine in "+nameOf(l.move.to()), "%s", brief(l.end))
	}
	l.late = t.repeat(ctx, m, l)
	if l.after, err = t.get(ctx, m.id); err != nil {
		return err
	}
	_, err = t.settle(ctx, m) // a repeat may have begun something
	return err
}

func (t *Target) repeat(ctx context.Context, m *machine, l *leg) answer {
	ack, err := t.call(ctx, &request{move: l.move, machine: m.id, metadata: l.metadata})
	return answer{ack, err}
}

// onLegs makes a check that looks at every leg of a move. It is skipped when all are.
func onLegs(what move, look func(*Target, *leg) error) func(context.Context, *Target) error {
	return func(ctx context.Context, t *Target) error {
		j, lived := t.life.get(ctx, t, live)
		found := false
		var notSeen error
		for _, l := range j.legs {
			if l.move != what || l.seen == nil {
				continue
			}
			switch err := look(t, l); {
			case err == nil:
				found = true
			case isSkip(err):
				notSeen = err
			default:
				return err
			}
		}
		switch {
		case found:
			return nil
		case notSeen != nil:
			return notSeen
		case lived == nil:
			return j.bought
		}
		return lived
	}
}

// changing tells whether a leg was seen while it was under way.
func (l *leg) changing() bool { return l.seen.GetState() == l.move.during() }

// journeyChecks are what a life shows of each move.
func journeyChecks() (out []Check) {
	for _, m := range allMoves {
		out = append(out,
			Check{m.id("begins"), fmt.Sprintf("%s answers with an operation, and with the machine in %s, or in %s if that is reached at once.", m, nameOf(m.during()), nameOf(m.to())), pageLife, onLegs(m, legBegins)},
			Check{m.id("answers-at-once"), fmt.Sprintf("%s is answered when the change has begun, not when it has ended.", m), pageTime, onLegs(m, legAtOnce)},
			Check{m.id("ends"), fmt.Sprintf("After %s, Get and List show the machine in %s and then in %s, in no other state.", m, nameOf(m.during()), nameOf(m.to())), pageLife, onLegs(m, legEnds)},
			Check{m.id("get-and-list"), fmt.Sprintf("After %s, Get and List say the same of the machine.", m), pageLists, onLegs(m, legListed)},
			Check{m.id("repeat-under-way"), fmt.Sprintf("%s repeated with a newer token while it is under way starts nothing and answers with the same operation.", m), pageRepeats, onLegs(m, legAgain)},
			Check{m.id("repeat-done"), fmt.Sprintf("%s repeated with a newer token when it is done starts nothing and answers with the same operation.", m), pageRepeats, onLegs(m, legLate)},
		)
	}
	return out
}

func legBegins(_ *Target, l *leg) error {
	m := l.ack.GetMachine()
	switch {
	case l.ack.GetOperationId() == "":
		return broken("an operation_id", "%s answers without one", l.move)
	case m == nil:
		return broken("the machine", "%s answers without it", l.move)
	case !isOneOf(m.GetState(), l.move.during(), l.move.to()):
		return broken("the machine in "+nameOf(l.move.during())+" or "+nameOf(l.move.to()), "%s answers with %s", l.move, brief(m))
	}
	return nil
}

func legAtOnce(t *Target, l *leg) error {
	if l.took > t.o.AnswerWithin {
		return broken("an answer within "+t.o.AnswerWithin.String(), "%s takes %s", l.move, l.took.Round(time.Millisecond))
	}
	return nil
}

func legEnds(_ *Target, l *leg) error {
	if l.end == nil || l.end.GetState() != l.move.to() {
		return broken("the machine in "+nameOf(l.move.to())+" in the end", "%s", states(l.states))
	}
	for i, s := range l.states {
		first, last := i == 0, i == len(l.states)-1
		if s == l.move.during() && first || s == l.move.to() && last {
			continue
		}
		return broken(nameOf(l.move.during())+" and then "+nameOf(l.move.to()), "%s", states(l.states))
	}
	return nil
}

func states(all []pb.MachineState) string {
	out := ""
	for i, s := range all {
		if i > 0 {
			out += ", then "
		}
		out += nameOf(s)
	}
	return out
}

func legListed(_ *Target, l *leg) error {
	if l.listed == nil || l.end != nil && l.endList == nil {
		return broken("the machine in every full list", "List does not have %s", brief(l.seen))
	}
	if l.listed.GetState() == l.seen.GetState() {
		if err := unchanged("List, right behind the answer to "+l.move.String(), l.seen, l.listed); err != nil {
			return err
		}
	}
	if l.end == nil {
		return nil
	}
	return unchanged("List, after "+l.move.String()+" had ended", l.end, l.endList)
}

// repeated holds the answer to a repeat to the first one.
func repeated(l *leg, when string, again answer) error {
	switch {
	case again.err != nil:
		return broken("OK", "%s repeated %s: %s", l.move, when, said(again.err))
	case again.ack.GetOperationId() != l.ack.GetOperationId():
		return broken("operation "+l.ack.GetOperationId(), "%s repeated %s has operation %q", l.move, when, shorten(again.ack.GetOperationId()))
	}
	return nil
}

func legAgain(_ *Target, l *leg) error {
	if err := repeated(l, "right behind its answer", l.again); err != nil {
		return err
	}
	if !l.changing() && l.again.ack.GetMachine().GetState() != l.move.during() {
		return skipped("%s was done at once", l.move)
	}
	return nil
}

func legLate(_ *Target, l *leg) error {
	if l.end == nil {
		return skipped("%s did not end", l.move)
	}
	if err := repeated(l, "when it was done", l.late); err != nil {
		return err
	}
	if l.after == nil {
		return nil
	}
	return unchanged("after a repeated "+l.move.String(), l.end, l.after)
}

// metadataChecks are what a life shows of metadata.
var metadataChecks = []Check{
	{"metadata.echoed", "Metadata is echoed byte for byte by Get, List and answers, from Configuring on.", pageMetadata, onLegs(configure, func(_ *Target, l *leg) error {
		for _, x := range []struct {
			where string
			m     *pb.Machine
		}{{"the answer to Configure", l.ack.GetMachine()}, {"Get, right behind Configure", l.seen}, {"List, right behind Configure", l.listed}, {"Get, of a Configured machine", l.end}, {"List, of a Configured machine", l.endList}, {"Get, after Configure was repeated", l.after}} {
			if x.m != nil && !maps.Equal(x.m.GetShardMetadata(), l.metadata) {
				return broken(fmt.Sprintf("the metadata of Configure: %q", l.metadata), "%s: %q", x.where, x.m.GetShardMetadata())
			}
		}
		return nil
	})},
	{"metadata.until-drained", "Metadata is kept as long as the machine is Draining.", pageMetadata, func(ctx context.Context, t *Target) error {
		j, lived := t.life.get(ctx, t, live)
		seen := false
		for i, l := range j.legs {
			if l.move != drain || i == 0 {
				continue
			}
			for _, m := range append(l.watched, l.ack.GetMachine(), l.listed) {
				if m.GetState() != draining {
					continue
				}
				seen = true
				if want := j.legs[i-1].metadata; !maps.Equal(m.GetShardMetadata(), want) {
					return broken(fmt.Sprintf("the metadata of Configure: %q", want), "a Draining machine has %q", m.GetShardMetadata())
				}
			}
		}
		if lived == nil && !seen {
			return skipped("Drain was done at once")
		}
		return lived
	}},
	{"metadata.cleared", "Metadata and cluster are gone when Drain has ended.", pageMetadata, onLegs(drain, func(_ *Target, l *leg) error {
		if l.end != nil && (len(l.end.GetShardMetadata()) > 0 || l.end.GetCluster() != "") {
			return broken("no metadata and no cluster", "%s: %q", brief(l.end), l.end.GetShardMetadata())
		}
		return nil
	})},
	{"metadata.replaced", "Metadata of a later Configure replaces all that was there before.", pageMetadata, func(ctx context.Context, t *Target) error {
		j, lived := t.life.get(ctx, t, live)
		for _, l := range j.legs {
			if _, second := l.metadata["second"]; second && l.end != nil && !maps.Equal(l.end.GetShardMetadata(), l.metadata) {
				return broken(fmt.Sprintf("%q", l.metadata), "%q", l.end.GetShardMetadata())
			}
		}
		return lived
	}},
	{"metadata.much", "Metadata of 16 KiB is echoed, or refused with InvalidArgument.", pageMetadata, func(ctx context.Context, t *Target) error {
		m, err := t.acquire(ctx, idle)
		if err != nil {
			return err
		}
		much := map[string]string{}
		for i := range 64 {
			much[fmt.Sprintf("key-%d", i)] = fmt.Sprintf("%0250d", i)
		}
		_, err = t.carryOut(ctx, m, &request{move: configure, machine: m.id, metadata: much})
		if status.Code(err) == codes.InvalidArgument {
			return nil
		}
		if err != nil {
			return broken("OK or InvalidArgument", "%s", said(err))
		}
		now, err := t.settle(ctx, m)
		if err == nil && !maps.Equal(now.GetShardMetadata(), much) {
			return broken("64 entries, as they were given", "%d entries", len(now.GetShardMetadata()))
		}
		return err
	}},
	{"metadata.none", "A machine that is configured without metadata has none, also when it had some before it was drained.", pageMetadata, noMetadata},
}

// noMetadata configures a machine without metadata that had some.
func noMetadata(ctx context.Context, t *Target) error {
	m, err := t.acquire(ctx, configured)
	if err != nil {
		return err
	}
	now, err := t.get(ctx, m.id)
	if err != nil {
		return err
	}
	if len(now.GetShardMetadata()) == 0 {
		if err := t.bring(ctx, m, idle); err != nil {
			return err
		}
		if _, err := t.carryOut(ctx, m, &request{move: configure, machine: m.id, metadata: secondMetadata}); err != nil {
			return err
		}
		if err := t.arrives(ctx, m, configure); err != nil {
			return err
		}
	}
	if err := t.bring(ctx, m, idle); err != nil {
		return err
	}
	if _, err := t.move(ctx, m, configure); err != nil {
		return err
	}
	now, err = t.settle(ctx, m)
	if err == nil && len(now.GetShardMetadata()) > 0 {
		return broken("none", "%q", now.GetShardMetadata())
	}
	return err
}
