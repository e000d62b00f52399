package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
	"github.com/tonnage/tonnage/shard/session"
	"github.com/tonnage/tonnage/shard/stamps"
)

// listing is a provider that lists what it is given and does nothing.
type listing struct{ records []byte }

func (l *listing) List(context.Context, shard.ListRequest) (shard.ListResponse, error) {
	var list wire.List
	if err := list.Parse(l.records); err != nil {
		return shard.ListResponse{}, err
	}
	return list.Response(true), nil
}

var errNothingDone = errors.New("this provider does nothing")

func (*listing) Create(context.Context, shard.CreateRequest) (shard.Record, error) {
	return shard.Record{}, errNothingDone
}

func (*listing) Configure(context.Context, shard.ConfigureRequest) (shard.Record, error) {
	return shard.Record{}, errNothingDone
}

func (*listing) Drain(context.Context, shard.DrainRequest) (shard.Record, error) {
	return shard.Record{}, errNothingDone
}

func (*listing) Delete(context.Context, shard.DeleteRequest) (shard.Record, error) {
	return shard.Record{}, errNothingDone
}

// message returns a protobuf of fields that hold bytes: number, content, number …
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
		switch x := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(b, x)
		case []byte:
			b = protowire.AppendBytes(b, x)
		}
	}
	return b
}

func varint(b []byte, number int, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(number), protowire.VarintType), v)
}

// FuzzAcceptedIsReadBack: a shard accepts a roll-up and a machine if and only if
// their names keep the rule, one bad record costs no other, and what was accepted is
// served in a form that the tools read: the same machines and the same needs, with
// no control character in the text.
func FuzzAcceptedIsReadBack(f *testing.F) {
	for _, s := range []string{"", "plain", "é大🙂", "\x1b[2J", "a\u009bb", "x\u202e", "nul\x00", "\xff", "tab\t", "\u2028", strings.Repeat("n", 512), strings.Repeat("n", 513), `"\`} {
		f.Add(s, "k", "v", "gpu", "g", "m", "t", "l", "lv", "free", uint8(3), int64(5))
		f.Add("c", s, "v", "gpu", "g", "m", "t", "l", "lv", "free", uint8(3), int64(5))
		f.Add("c", "k", s, s, s, "m", "t", "l", "lv", "free", uint8(5), int64(math.MaxInt64))
		f.Add("c", "k", "v", "gpu", "pods\x00"+s, s, "t", "l", "lv", "free", uint8(8), int64(1))
		f.Add("c", "k", "v", "gpu", "g", "m", s, s, "lv", s, uint8(8), int64(0))
		f.Add("c", "k", "v", "gpu", "g", "m", "t", "l", s, s, uint8(5), int64(math.MinInt64))
	}
	f.Fuzz(func(t *testing.T, cluster, key, value, resource, group, id, typ, label, labelValue, free string, state uint8, stamp int64) {
		const now = 1_800_000_000_000_000_000
		of := model.State(1 + state%uint8(model.NumStates-1))
		if id == "the other" {
			return
		}
		good := func(errs ...error) bool { return errors.Join(errs...) == nil }

		machine := varint(message(1, id, 4, typ, 5, typ, 9, message(1, message(1, "gpu", 2, "8")), 10, message(1, label, 2, labelValue), 12, free), 2, uint64(of))
		if of != model.Speculative && of != model.Creating {
			machine = append(machine, message(3, message(2, "host"))...)
		}
		if of == model.Configured || of == model.Draining {
			machine = append(machine, message(14, "bound")...)
		}
		for k, v := range map[string]string{"assigned-group": free, "assigned-priority": "7"} {
			machine = append(machine, message(15, message(1, "bigfleet.lucy.sh/"+k, 2, v))...)
		}
		for k, v := range map[string]string{"cluster": cluster, "group": free, "fingerprint": "ab", "plan": "1", "domain": value, "arrival": "-1", "deadline": "2000000000000000000"} {
			machine = append(machine, message(15, message(1, stamps.ReservationPrefix+k, 2, v))...)
		}
		other := message(1, "the other", 3, message(2, "host"))
		other = varint(other, 2, uint64(model.Idle))
		takesMachine := utf8.ValidString(cluster) && utf8.ValidString(value) && utf8.ValidString(free) &&
			good(model.CheckName(id), model.CheckOptionalName(typ), model.CheckName(label), model.CheckText(labelValue)) && len(label)+len(labelValue) <= model.LabelsBytesMax
		s, err := shard.New(func() shard.Config { c := shard.DefaultConfig(); c.DryRun = true; return c }(), shard.Deps{
			Provider: &listing{message(1, machine, 1, other)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()

		row := message(1, append(message(1, key, 3, value), varint(nil, 2, uint64(model.In))...), 2, message(1, resource, 2, "4"), 9, group)
		rollup := varint(message(1, cluster, 3, row), 2, uint64(stamp))
		takesRollup := good(model.CheckName(cluster), model.CheckName(key), model.CheckText(value), model.CheckName(resource)) &&
			utf8.ValidString(group) && len(group) <= model.NameBytesMax && len(value) < session.ProfileBytesMax/2
		b := demand.NewBuilder()
		decoded := session.NewDecoder().Decode(cluster, rollup, b)
		outcome := shard.RollupRefused
		if err = decoded; model.CheckName(cluster) == nil { // else there is no session
			outcome, err = s.TakeRollup(b, now)
		}
		if len(value) < session.ProfileBytesMax/2 && (decoded == nil) != takesRollup || (outcome == shard.RollupRefused) != (decoded != nil) {
			t.Fatalf("the roll-up is %v (%v, %v), want accepted = %v", outcome, decoded, err, takesRollup)
		}
		if err != nil && strings.ContainsFunc(err.Error(), model.IsControl) {
			t.Errorf("the refusal holds a control character: %q", err)
		}
		takesRollup = decoded == nil
		if _, err := s.Step(context.Background(), now); err != nil {
			t.Fatal(err)
		}

		var text bytes.Buffer
		var machines []model.Machine
		var needs []model.Need
		if err := s.Inspect(func(i engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			for _, r := range i.Supply.Order() {
				m := i.Supply.Get(r)
				m.Host = "" // as files have it
				if m.State != model.Failed {
					m.LastError = ""
				}
				machines = append(machines, m)
			}
			for _, c := range i.Demand.Clusters() {
				needs = append(needs, i.Demand.Rows(c)...)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := world.WriteShard(t.Context(), &text, s.Inspect, nil); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 1, true: 2}[takesMachine]; len(machines) != want {
			t.Fatalf("%d machines are taken over, want %d", len(machines), want)
		}
		if want := map[bool]int{false: 0, true: 1}[takesRollup]; len(needs) != want {
			t.Fatalf("%d needs are taken over, want %d", len(needs), want)
		}
		if s := text.String(); !utf8.ValidString(s) || strings.ContainsFunc(strings.ReplaceAll(s, "\n", ""), model.IsControl) {
			t.Errorf("the world holds control characters: %q", s)
		}
		served := text.Bytes()
		w, err := world.Read(bytes.NewReader(served))
		if err != nil {
			t.Fatalf("what a shard serves is not read: %v\n%s", err, served)
		}
		if h := w.HeldBack; h == nil || h.Disposition != shard.DryRun || h.Reason != "it was started with --dry-run" {
			t.Errorf("what is held back is read back as %+v", h)
		}
		for i := range machines {
			got, want := w.Machines[i], machines[i]
			if len(got.Labels) == 0 {
				got.Labels, want.Labels = nil, nil
			}
			if want.Reservation.Active() && !got.Reservation.Active() {
				want.Reservation = model.Reservation{} // of a state that cannot be reserved
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("machine read back as\n%+v, was\n%+v", got, want)
			}
		}
		for i := range needs {
			got, want := w.Needs[i].Need, needs[i]
			want.Arrival = max(want.Arrival, 0)
			if !got.Profile.Equal(want.Profile) || got.Owner() != want.Owner() || !got.Aggregate.Equal(want.Aggregate) || got.Arrival != want.Arrival {
				t.Errorf("need read back as\n%+v, was\n%+v", got, want)
			}
		}
		tools(t, served, machines)
	})
}

// tools has the commands read a world that a shard serves.
func tools(t *testing.T, served []byte, machines []model.Machine) {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(served) }))
	defer page.Close()
	for _, format := range []string{"table", "json"} {
		got := call("", true, "ctl", "machines", "--shard", page.URL, "-o", format)
		if got.code != exitOK || strings.Count(got.out, "\n") != len(machines)+1 && format == "table" {
			t.Fatalf("ctl machines: exit %d: %s %s", got.code, got.out, got.err)
		}
		harmless(t, got)
		var rows []machineRow
		if format == "json" {
			if err := json.Unmarshal([]byte(got.out), &rows); err != nil || len(rows) != len(machines) {
				t.Fatalf("ctl machines: %v: %s", err, got.out)
			}
			for i := range rows {
				if rows[i].Machine != machines[i].ID || rows[i].Type != machines[i].InstanceType {
					t.Errorf("machine %q is listed as %+v", machines[i].ID, rows[i])
				}
			}
		}
		got = call("", true, "explain", "machine", "--shard", page.URL, "-o", format, "the other")
		if got.code != exitOK {
			t.Fatalf("explain: exit %d: %s", got.code, got.err)
		}
		harmless(t, got)
	}
}
