package check

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// sampleMax is how many machines are asked for one by one.
const sampleMax = 16

// lookTries is how often two looks are compared, since others may change machines between.
const lookTries = 3

var getChecks = []Check{
	{"get.listed", "Get knows every machine that List names.", pageLists, func(ctx context.Context, t *Target) error {
		l, err := t.list(ctx, &pb.ListFilter{})
		if err != nil {
			return err
		}
		for _, m := range sample(l.GetMachines()) {
			if _, err := t.get(ctx, m.GetId()); err != nil {
				again, err2 := t.listed(ctx, m.GetId())
				if err2 == nil && again == nil {
					continue // it is gone
				}
				return broken("OK", "Get of %s, which List names: %s", m.GetId(), said(err))
			}
		}
		return nil
	}},
	{"get.equals-list", "Get and List say the same of a machine.", pageLists, equalLooks},
	{"get.unknown", "Get of a machine that does not exist is NotFound.", pageLists, func(ctx context.Context, t *Target) error {
		_, err := t.get(ctx, t.ghost("get"))
		return answered("Get", err, codes.NotFound)
	}},
	{"get.empty-id", "Get without an id is InvalidArgument.", pageLists, func(ctx context.Context, t *Target) error {
		_, err := t.get(ctx, "")
		return answered("Get", err, codes.InvalidArgument)
	}},
	{"get.answer-time", "Get is answered at once, since shards ask again after 30 s.", pageTime, func(ctx context.Context, t *Target) error {
		l, err := t.list(ctx, &pb.ListFilter{MaxResults: sampleMax})
		if err != nil {
			return err
		}
		for _, m := range sample(l.GetMachines()) {
			// A machine may be gone meanwhile; a Get that nobody answers ends by its time.
			took, _ := timed(func() error { _, err := t.get(ctx, m.GetId()); return err })
			if took > t.o.AnswerWithin {
				return broken("an answer within "+t.o.AnswerWithin.String(), "Get takes %s", took.Round(time.Millisecond))
			}
		}
		return nil
	}},
}

func sample(all []*pb.Machine) []*pb.Machine {
	step := max(1, len(all)/sampleMax)
	var out []*pb.Machine
	for i := 0; i < len(all); i += step {
		out = append(out, all[i])
	}
	return out
}

func equalLooks(ctx context.Context, t *Target) (err error) {
	for range lookTries {
		var l *pb.MachineList
		if l, err = t.list(ctx, &pb.ListFilter{}); err != nil {
			return err
		}
		for _, m := range sample(l.GetMachines()) {
			got, e := t.get(ctx, m.GetId())
			if e != nil {
				err = broken("OK", "Get of %s: %s", m.GetId(), said(e))
			} else {
				err = unchanged("Get", m, got)
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// oddIDs are ids of no machine.
func oddIDs() map[string]string {
	return map[string]string{
		"a control character": "no\x07machine", "a line feed": "no\nmachine", "a NUL": "no\x00machine", "a control of text direction": "no\u202emachine",
		"another script": "機械-not-there", "a path": "../../no-machine", "a blank": " ", "100 KB": strings.Repeat("m", 100_000),
	}
}

var oddChecks = []Check{
	{"odd.ids", "An id of any characters and length that no machine has is NotFound or InvalidArgument, in every call.", pageOrder, func(ctx context.Context, t *Target) error {
		for what, id := range oddIDs() {
			_, err := t.get(ctx, id)
			if err := answered("Get of an id with "+what, err, codes.NotFound, codes.InvalidArgument); err != nil {
				return err
			}
			for _, m := range allMoves {
				if t.noDelete && m == remove {
					continue
				}
				_, err := t.call(ctx, &request{move: m, machine: id})
				if err := answered(m.String()+" of an id with "+what, err, codes.NotFound, codes.InvalidArgument); err != nil {
					return err
				}
			}
		}
		return nil
	}},
	{"odd.unknown-fields", "Fields that a provider does not know are ignored.", pageOrder, func(ctx context.Context, t *Target) error {
		unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 7)
		f := &pb.ListFilter{}
		f.ProtoReflect().SetUnknown(unknown)
		if _, err := t.list(ctx, f); err != nil {
			return broken("OK", "List with an unknown field: %s", said(err))
		}
		for _, m := range [...]move{create, configure, drain} {
			_, err := t.call(ctx, &request{move: m, machine: t.ghost("fields"), unknown: unknown})
			if err := answered(m.String()+" of no machine, with an unknown field", err, codes.NotFound); err != nil {
				return err
			}
		}
		return nil
	}},
	{"odd.large-message", "A message that is too long is refused, and the provider goes on answering.", pageOrder, func(ctx context.Context, t *Target) error {
		_, err := t.call(ctx, &request{move: configure, machine: t.ghost("long"), blob: make([]byte, 8<<20)})
		if err := answered("Configure of no machine, with 8 MiB of bootstrap data", err, codes.NotFound, codes.InvalidArgument, codes.ResourceExhausted); err != nil {
			return err
		}
		if _, err := t.list(ctx, &pb.ListFilter{}); err != nil {
			return broken("OK", "List, afterwards: %s", said(err))
		}
		return nil
	}},
	{"odd.filters", "A filter that makes no sense is answered with a list or InvalidArgument.", pageLists, func(ctx context.Context, t *Target) error {
		for _, f := range []*pb.ListFilter{{MaxResults: -1}, {States: []pb.MachineState{99}}, {States: []pb.MachineState{-1, idle, idle}}} {
			_, err := t.list(ctx, f)
			if err := answered(fmt.Sprintf("List with %v", f), err, codes.OK, codes.InvalidArgument); err != nil {
				return err
			}
		}
		return nil
	}},
}

var listChecks = []Check{
	{"list.unique", "A list names no machine twice.", pageLists, func(ctx context.Context, t *Target) error {
		l, err := t.list(ctx, &pb.ListFilter{})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, m := range l.GetMachines() {
			if seen[m.GetId()] {
				return broken("each machine once", "%s twice", m.GetId())
			}
			seen[m.GetId()] = true
		}
		return nil
	}},
	{"list.repeats", "Two full lists name the same machines while none comes or goes.", pageLists, func(ctx context.Context, t *Target) error {
		var last error
		for range lookTries {
			a, errA := t.list(ctx, &pb.ListFilter{})
			b, errB := t.list(ctx, &pb.ListFilter{MaxResults: 0, SinceRevision: []byte{}})
			if errA != nil || errB != nil {
				return broken("OK", "List: %s and %s", said(errA), said(errB))
			}
			if slices.Equal(ids(a), ids(b)) {
				return nil
			}
			last = broken(fmt.Sprintf("%d machines again", len(a.GetMachines())), "%d others or fewer", len(b.GetMachines()))
		}
		return last
	}},
	{"list.states", "A filter of states gives the machines in these states and no others; without states, all.", pageLists, listByState},
	{"list.max-results", "List gives at most max_results machines; 0 is no limit.", pageLists, func(ctx context.Context, t *Target) error {
		for _, most := range []int32{1, 2, 7} {
			l, err := t.list(ctx, &pb.ListFilter{MaxResults: most})
			if err != nil {
				return err
			}
			if n := len(l.GetMachines()); n > int(most) {
				return broken(fmt.Sprintf("at most %d machines", most), "%d", n)
			}
		}
		return nil
	}},
	{"list.states-limited", "max_results counts the machines that states lets pass, and no others.", pageLists, listStatesLimited},
	{"list.pages", "A list that max_results cuts off goes on at its revision, without loss and without duplicates.", pageLists, listPages},
	{"list.unknown-cursor", "A revision that the provider does not know gives everything.", pageLists, listUnknownCursors},
	{"list.nothing-changed", "A list since its own revision holds no machine that has not changed.", pageLists, func(ctx context.Context, t *Target) error {
		full, err := t.cursor(ctx)
		if err != nil {
			return err
		}
		l, err := t.list(ctx, &pb.ListFilter{SinceRevision: full.GetRevision()})
		if err != nil {
			return err
		}
		if len(full.GetMachines()) > 0 && slices.Equal(ids(full), ids(l)) {
			return broken("no machine", "all %d, each time; a provider without cursors leaves revision empty", len(l.GetMachines()))
		}
		for _, m := range t.machines {
			if find(l, m.id) != nil {
				return broken("nothing of machine "+m.id+", which nobody changed", "it is in the list")
			}
		}
		return nil
	}},
	{"list.changed", "A list since a revision holds every machine that has changed, as it is now.", pageLists, listChanged},
	{"list.answer-time", "List is answered within 30 s.", pageTime, func(ctx context.Context, t *Target) error {
		took, err := timed(func() error { _, err := t.list(ctx, &pb.ListFilter{}); return err })
		if err == nil && took > callTimeout {
			return broken("an answer within "+callTimeout.String(), "List takes %s", took.Round(time.Millisecond))
		}
		return err
	}},
}

func ids(l *pb.MachineList) (out []string) {
	for _, m := range l.GetMachines() {
		out = append(out, m.GetId())
	}
	slices.Sort(out)
	return out
}

func listByState(ctx context.Context, t *Target) (err error) {
	for range lookTries {
		full, err2 := t.list(ctx, &pb.ListFilter{})
		if err2 != nil {
			return err2
		}
		err = nil
		for _, wanted := range [][]pb.MachineState{{speculative}, {idle}, {configured}, {failed}, {idle, speculative}, {creating, configuring, draining, deleting}} {
			var want []string
			for _, m := range full.GetMachines() {
				if isOneOf(m.GetState(), wanted...) {
					want = append(want, m.GetId())
				}
			}
			slices.Sort(want)
			got, err2 := t.list(ctx, &pb.ListFilter{States: wanted})
			if err2 != nil {
				return broken("OK", "List of %s: %s", states(wanted), said(err2))
			}
			if !slices.Equal(ids(got), want) {
				err = broken(fmt.Sprintf("the %d machines in %s", len(want), states(wanted)), "%d machines: %s", len(got.GetMachines()), shorten(strings.Join(ids(got), " ")))
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// listStatesLimited asks for one machine of each state that some are in. A provider that counts before it looks at the states
// has none of them in the list, but for the state of the machine that comes first.
func listStatesLimited(ctx context.Context, t *Target) (err error) {
	for range lookTries {
		full, err2 := t.list(ctx, &pb.ListFilter{})
		if err2 != nil {
			return err2
		}
		in := map[pb.MachineState]bool{}
		for _, m := range full.GetMachines() {
			if !underWay(m.GetState()) {
				in[m.GetState()] = true
			}
		}
		if len(in) < 2 {
			if len(full.GetMachines()) < 2 {
				return skipped("it needs two machines in the list, and there are %d", len(full.GetMachines()))
			}
			if _, err := t.acquire(ctx, configured); err != nil {
				return err
			}
			err = skipped("it needs machines in two states, and all are in one; let more be used with --max-machines")
			continue
		}
		err = nil
		for s := range in {
			l, err2 := t.list(ctx, &pb.ListFilter{States: []pb.MachineState{s}, MaxResults: 1})
			if err2 != nil {
				return broken("OK", "List of %s, at most 1: %s", nameOf(s), said(err2))
			}
			if n := len(l.GetMachines()); n != 1 || l.GetMachines()[0].GetState() != s {
				err = broken("one machine that is "+nameOf(s), "%d machines: %s", n, shorten(strings.Join(ids(l), " ")))
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// cursor lists everything, and asks for a revision.
func (t *Target) cursor(ctx context.Context) (*pb.MachineList, error) {
	l, err := t.list(ctx, &pb.ListFilter{})
	if err == nil && len(l.GetRevision()) == 0 {
		return nil, skipped("the provider has no cursors; it is listed in full each time")
	}
	return l, err
}

// pagesMost is about how many pages a list is read in.
const pagesMost = 24

func listPages(ctx context.Context, t *Target) error {
	full, err := t.cursor(ctx)
	if err != nil {
		return err
	}
	n := len(full.GetMachines())
	if n < 2 {
		return skipped("it needs two machines in the list, and there are %d", n)
	}
	sizes := []int{max(1, n/pagesMost), max(1, n/3), n, n + 1}
	for _, size := range slices.Compact(sizes) {
		if err := t.readPages(ctx, full, size); err != nil {
			return err
		}
	}
	return nil
}

// readPages reads all machines in pages of a size.
func (t *Target) readPages(ctx context.Context, full *pb.MachineList, size int) error {
	what := fmt.Sprintf("pages of %d", size)
	seen := map[string]*pb.Machine{}
	var since []byte
	for range 2*len(full.GetMachines())/size + pagesMost {
		l, err := t.list(ctx, &pb.ListFilter{SinceRevision: since, MaxResults: int32(size)})
		if err != nil {
			return broken("OK", "%s: %s", what, said(err))
		}
		if len(l.GetMachines()) > size {
			return broken(fmt.Sprintf("at most %d machines", size), "%s: %d", what, len(l.GetMachines()))
		}
		if len(l.GetMachines()) == 0 {
			return t.readAll(ctx, full, seen, what)
		}
		for _, m := range l.GetMachines() {
			if before := seen[m.GetId()]; before != nil && unchanged("", before, m) == nil && before.GetPricePerHour() == m.GetPricePerHour() {
				return broken("each machine once, unless it changes", "%s: %s twice", what, m.GetId())
			}
			seen[m.GetId()] = m
		}
		if len(l.GetRevision()) == 0 || bytes.Equal(since, l.GetRevision()) {
			return broken("a revision to go on with", "%s: %d bytes, the same as before: %t", what, len(l.GetRevision()), bytes.Equal(since, l.GetRevision()))
		}
		since = l.GetRevision()
	}
	return broken("an empty page in the end", "%s: none after twice as many as there are machines", what)
}

// readAll tells whether pages held all machines of two full lists.
func (t *Target) readAll(ctx context.Context, full *pb.MachineList, seen map[string]*pb.Machine, what string) error {
	after, err := t.list(ctx, &pb.ListFilter{})
	if err != nil {
		return err
	}
	there := ids(after)
	for _, id := range ids(full) {
		if _, still := slices.BinarySearch(there, id); still && seen[id] == nil {
			return broken(fmt.Sprintf("all %d machines", len(full.GetMachines())), "%s: %d, without %s", what, len(seen), id)
		}
	}
	return nil
}

func listUnknownCursors(ctx context.Context, t *Target) error {
	full, err := t.list(ctx, &pb.ListFilter{})
	if err != nil {
		return err
	}
	cursor := full.GetRevision()
	odd := map[string][]byte{"text": []byte("garbage"), "a byte": {0}, "4 KiB": bytes.Repeat([]byte{0xde}, 4096), "bytes": {0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8}}
	if len(cursor) > 1 {
		odd["its own, longer"] = append(bytes.Clone(cursor), '!')
		odd["its own, cut off"] = cursor[:len(cursor)-1]
	}
	for what, since := range odd {
		l, err := t.list(ctx, &pb.ListFilter{SinceRevision: since})
		if err != nil {
			return broken("everything", "List since %s: %s", what, said(err))
		}
		if len(l.GetMachines()) < len(full.GetMachines()) && !slices.Equal(ids(l), ids(full)) {
			again, err := t.list(ctx, &pb.ListFilter{})
			if err != nil {
				return err
			}
			if len(l.GetMachines()) < len(again.GetMachines()) {
				return broken(fmt.Sprintf("all %d machines", len(full.GetMachines())), "List since %s: %d", what, len(l.GetMachines()))
			}
		}
	}
	return nil
}

func listChanged(ctx context.Context, t *Target) error {
	m, err := t.acquire(ctx, idle)
	if err != nil {
		return err
	}
	before, err := t.cursor(ctx)
	if err != nil {
		return err
	}
	since := func(when string, cursor []byte, right ...pb.MachineState) ([]byte, error) {
		l, err := t.list(ctx, &pb.ListFilter{SinceRevision: cursor})
		if err != nil {
			return nil, err
		}
		if now := find(l, m.id); now == nil || !isOneOf(now.GetState(), right...) {
			return nil, broken("machine "+m.id+", "+states(right), "List since a revision before %s: %s", when, brief(now))
		}
		return l.GetRevision(), nil
	}
	if _, err := t.move(ctx, m, configure); err != nil {
		return err
	}
	begun, err := since("Configure", before.GetRevision(), configuring, configured)
	if err != nil {
		return err
	}
	if _, err := t.settle(ctx, m); err != nil {
		return err
	}
	if _, err := since("Configure had ended", before.GetRevision(), configured); err != nil {
		return err
	}
	if _, err := t.move(ctx, m, drain); err != nil {
		return err
	}
	_, err = since("Drain", begun, draining, idle)
	return err
}
