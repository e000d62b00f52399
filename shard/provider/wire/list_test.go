package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/model"
	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
	"github.com/tonnage/tonnage/shard/stamps"
)

// random returns a source of numbers whose seed a failing test prints.
func random(tb testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func randomRecord(rng *rand.Rand, id string) shard.Record {
	pick := func(prefix string, n int) string {
		if i := rng.IntN(n + 1); i > 0 {
			return fmt.Sprint(prefix, i)
		}
		return ""
	}
	amounts := func() model.Resources {
		if rng.IntN(3) == 0 {
			return nil
		}
		return model.NewResources(model.Amount{Name: "cpu", Value: rng.Int64N(9) * 1000}, model.Amount{Name: "memory", Value: rng.Int64N(4) << 30}, model.Amount{Name: "nvidia.com/gpu", Value: rng.Int64N(2)})
	}
	texts := func(n int) map[string]string {
		var m map[string]string
		for range rng.IntN(n) {
			if m == nil {
				m = map[string]string{}
			}
			m[pick("key", 5)] = pick("value", 3)
		}
		return m
	}
	m := model.Machine{
		ID: id, State: model.State(1 + rng.IntN(model.NumStates-1)), CapacityType: model.CapacityType(rng.IntN(model.NumCapacityTypes)),
		InstanceType: pick("type", 3), Zone: pick("zone", 3), Resources: amounts(), Allocatable: amounts(), Labels: texts(5),
		PricePerHour: float64(rng.IntN(4)) / 3, InterruptionProbability: float64(rng.IntN(3)) / 4,
	}
	if m.State != model.Speculative && m.State != model.Creating {
		m.Host = pick("host", 2) + m.ID
	}
	switch m.State {
	case model.Configuring, model.Configured, model.Draining:
		m.Cluster = fmt.Sprint("cluster", rng.IntN(3))
	case model.Failed:
		m.LastError = pick("out of ", 2)
	}
	rec := shard.Record{Machine: m}
	if rng.IntN(2) == 0 {
		var e stamps.Encoder
		rec.Metadata = e.Encode(stamps.Echo{Assigned: model.Assignment{Priority: rng.Int32N(4), Fingerprint: rng.Uint64N(3), Group: pick("g", 2), Reclamation: 4}})
	}
	return rec
}

func encode(records ...shard.Record) []byte {
	var b []byte
	for i := range records {
		b = providerwire.AppendRecord(b, &records[i])
	}
	return providerwire.AppendRevision(b, []byte("revision"))
}

func parse(tb testing.TB, l *wire.List, b []byte) {
	tb.Helper()
	if err := l.Parse(b); err != nil {
		tb.Fatal(err)
	}
}

// plain returns a record without what only saves work.
func plain(rec *shard.Record) shard.Record {
	out := *rec
	out.Decoded, out.LabelsNumber = nil, 0
	if len(out.Machine.Labels) == 0 {
		out.Machine.Labels = nil
	}
	return out
}

// TestLabelsHaveNumbers: records have one number when they have the same labels, and
// only then, in whatever order these come and whichever List reads them; labels that
// are too long have none.
func TestLabelsHaveNumbers(t *testing.T) {
	record := func(id string, labels map[string]string) shard.Record {
		return shard.Record{Machine: model.Machine{ID: id, State: model.Idle, Labels: labels}}
	}
	long := map[string]string{"k": strings.Repeat("x", model.LabelsBytesMax)}
	sets := []map[string]string{{"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2"}, {"a": "1"}, {"a": "2"}, long}
	of := map[uint64]int{}
	numbers := map[int]uint64{}
	var l, other wire.List
	for round := range 20 { // maps are written in another order each time
		var records []shard.Record
		for i := range sets {
			records = append(records, record(fmt.Sprint("m", i), sets[i]))
		}
		if err := l.Parse(encode(records...)); err != nil {
			t.Fatal(err)
		}
		for i := range sets {
			rec, err := l.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			n := rec.LabelsNumber
			if (n == 0) != (i == len(sets)-1) || round > 0 && n != numbers[i] {
				t.Fatalf("round %d: labels %d have number %d, had %d", round, i, n, numbers[i])
			}
			if at, known := of[n]; known && at != i {
				t.Fatalf("labels %d and %d have number %d", at, i, n)
			}
			of[n], numbers[i] = i, n
		}
	}
	if err := other.Parse(encode(record("m", sets[1]))); err != nil {
		t.Fatal(err)
	}
	if rec, err := other.Record(0); err != nil || of[rec.LabelsNumber] != 0 || rec.LabelsNumber == numbers[0] {
		t.Fatalf("another list numbers labels %d, which are those of %d: %v", rec.LabelsNumber, of[rec.LabelsNumber], err)
	}
}

// TestRecordsAsTheyWere: what was written is read, by List and by its twin, and
// one List reads many messages.
func TestRecordsAsTheyWere(t *testing.T) {
	rng := random(t)
	var l wire.List
	for range 50 {
		var want []shard.Record
		for i := range rng.IntN(40) {
			want = append(want, randomRecord(rng, fmt.Sprint("m", i)))
		}
		b := encode(want...)
		parse(t, &l, b)
		twin, revision, err := decodeTwin(b)
		if err != nil || l.Len() != len(want) || string(l.Revision()) != "revision" || string(revision) != "revision" {
			t.Fatalf("%d records, revision %q, twin %v", l.Len(), l.Revision(), err)
		}
		for i := range want {
			rec, err := l.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			if got := plain(rec); !reflect.DeepEqual(got, want[i]) || !reflect.DeepEqual(got, twin[i].rec) || l.ID(i) != want[i].Machine.ID {
				t.Fatalf("record %d of id %q is\n%+v, of the twin\n%+v, want\n%+v", i, l.ID(i), got, twin[i].rec, want[i])
			}
			if d := stamps.Decode(rec.Metadata); len(rec.Metadata) > 0 && !reflect.DeepEqual(*rec.Decoded, d) {
				t.Fatalf("metadata decoded as %+v, want %+v", *rec.Decoded, d)
			}
		}
	}
}

// TestDigest: records that say the same have one digest, whatever the order of
// their maps; records that differ anywhere have another.
func TestDigest(t *testing.T) {
	rng := random(t)
	var l wire.List
	seen := map[uint64]string{}
	for range 4000 {
		rec := randomRecord(rng, fmt.Sprint("m", rng.IntN(20)))
		parse(t, &l, encode(rec, rec, rec))
		if d := l.Digest(0); d == 0 || l.Digest(1) != d || l.Digest(2) != d {
			t.Fatalf("digests %x %x %x of one record", d, l.Digest(1), l.Digest(2))
		}
		text := fmt.Sprintf("%+v", rec) // prints maps in the order of their keys
		if was, ok := seen[l.Digest(0)]; ok && was != text {
			t.Fatalf("one digest for\n%s\nand\n%s", was, text)
		}
		seen[l.Digest(0)] = text
	}
}

// TestMapsKeepTheirPlaces: an entry that moves from one map to another is a
// change.
func TestMapsKeepTheirPlaces(t *testing.T) {
	entry := map[string]string{"cpu": "1"}
	one := model.NewResources(model.Amount{Name: "cpu", Value: 1000})
	records := []shard.Record{
		{Machine: model.Machine{ID: "m", Labels: entry}}, {Machine: model.Machine{ID: "m"}, Metadata: entry},
		{Machine: model.Machine{ID: "m", Resources: one}}, {Machine: model.Machine{ID: "m", Allocatable: one}}, {Machine: model.Machine{ID: "m"}},
	}
	var l wire.List
	parse(t, &l, encode(records...))
	seen := map[uint64]bool{}
	for i := range records {
		seen[l.Digest(i)] = true
	}
	if len(seen) != len(records) {
		t.Errorf("%d digests of %d records", len(seen), len(records))
	}
}

func appendRaw(b []byte, num protowire.Number, raw []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), raw)
}

// TestBrokenRecordIsRefusedAlone: the error names the machine and the field, and
// the records beside it are read.
func TestBrokenRecordIsRefusedAlone(t *testing.T) {
	id := appendRaw(nil, 1, []byte("bad"))
	badEntry := appendRaw(appendRaw(nil, 1, []byte("k")), 2, []byte{0xff})
	quantity := appendRaw(nil, 1, appendRaw(appendRaw(nil, 1, []byte("cpu")), 2, []byte("a lot")))
	manyEntries := bytes.Repeat(appendRaw(nil, 10, nil), wire.EntriesMax+1)
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"cut off":          {append(id[:len(id):len(id)], 0x12, 0x05, 'x'), `"bad"`},
		"field 0":          {append(id[:len(id):len(id)], 0x02, 0x00), `"bad"`},
		"open group":       {append(id[:len(id):len(id)], 0x5b), `"bad"`},
		"no id readable":   {[]byte{0xff}, `machine "" (record 1`},
		"zone":             {appendRaw(id[:len(id):len(id)], 5, []byte{0xc3}), "zone: is not UTF-8"},
		"host":             {appendRaw(id[:len(id):len(id)], 3, appendRaw(nil, 2, []byte{0xc3})), "host: is not UTF-8"},
		"host cut off":     {appendRaw(id[:len(id):len(id)], 3, []byte{0x12, 0x09}), "host: is no protobuf"},
		"labels":           {appendRaw(id[:len(id):len(id)], 10, badEntry), "labels: holds text that is not UTF-8"},
		"labels cut off":   {appendRaw(id[:len(id):len(id)], 10, []byte{0x0a}), "labels: is no protobuf"},
		"metadata":         {appendRaw(id[:len(id):len(id)], 15, badEntry), "shard_metadata"},
		"quantity":         {appendRaw(id[:len(id):len(id)], 9, quantity), `resources: cpu`},
		"allocatable":      {appendRaw(id[:len(id):len(id)], 13, quantity), `allocatable: cpu`},
		"resources, cut":   {appendRaw(id[:len(id):len(id)], 9, []byte{0x0a, 0x7f}), "resources: is no protobuf"},
		"too many entries": {append(id[:len(id):len(id)], manyEntries...), "labels: has more than 4096 entries"},
	} {
		good := randomRecord(rand.New(rand.NewPCG(1, 1)), "good")
		b := appendRaw(encode(good), 1, c.raw)
		b = append(b, encode(good)...)
		var l wire.List
		parse(t, &l, b)
		if l.Len() != 3 {
			t.Fatalf("%s: %d records", name, l.Len())
		}
		_, err := l.Record(1)
		if !errors.Is(err, model.ErrStructural) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: error is %v", name, err)
		}
		for _, i := range []int{0, 2} {
			if rec, err := l.Record(i); err != nil || rec.Machine.ID != "good" || l.Digest(i) == 0 {
				t.Errorf("%s: the record beside it: %v", name, err)
			}
		}
	}
}

// TestCutMessages: a message that is cut off anywhere is refused as a whole, or
// is a shorter listing.
func TestCutMessages(t *testing.T) {
	rng := random(t)
	b := encode(randomRecord(rng, "a"), randomRecord(rng, "b"), randomRecord(rng, "c"))
	var l wire.List
	for n := range b {
		err := l.Parse(b[:n])
		_, _, twin := decodeTwin(b[:n])
		if (err == nil) != (twin == nil) || err != nil && (l.Len() != 0 || !strings.Contains(err.Error(), "byte")) {
			t.Fatalf("cut after %d of %d bytes: %v with %d records, the twin says %v", n, len(b), err, l.Len(), twin)
		}
	}
	if err := l.Parse(make([]byte, wire.MessageBytesMax+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too long: %v", err)
	}
}

// beyondNumbers is a field whose number is one larger than the largest.
var beyondNumbers = protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber+1, protowire.VarintType), 1)

// TestFieldNumbers: the largest one is an unknown field, and what lies beyond
// is no protobuf, in the listing as in a record.
func TestFieldNumbers(t *testing.T) {
	largest := protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)
	record := encode(randomRecord(random(t), "a"))
	var l wire.List
	parse(t, &l, slices.Concat(record, largest))
	if err := l.Parse(slices.Concat(record, beyondNumbers)); err == nil || !strings.Contains(err.Error(), "impossible number") {
		t.Errorf("in the listing: %v", err)
	}
	err := l.Parse(appendRaw(nil, 1, slices.Concat(appendRaw(nil, 1, []byte("a")), beyondNumbers)))
	if err == nil && l.Len() == 1 {
		_, err = l.Record(0)
	}
	if err == nil || !strings.Contains(err.Error(), "impossible number") {
		t.Errorf("in a record: %v", err)
	}
}

// keyTwice is a label whose entry has a second key, of another wire type: an
// unknown field.
var keyTwice = appendRaw(nil, 1, appendRaw(appendRaw(nil, 1, []byte("a")), 10,
	protowire.AppendVarint(protowire.AppendTag(appendRaw(appendRaw(nil, 1, []byte("k")), 2, []byte("v")), 1, protowire.VarintType), 7)))

// TestKeyOfAnotherType: a key that is no text does not replace the one that is.
func TestKeyOfAnotherType(t *testing.T) {
	var l wire.List
	parse(t, &l, keyTwice)
	rec, err := l.Record(0)
	if err != nil || !maps.Equal(plain(rec).Machine.Labels, map[string]string{"k": "v"}) {
		t.Errorf("labels are %v (%v), want k=v", plain(rec).Machine.Labels, err)
	}
}

// TestTextThatIsReplaced: it must be text as well as what replaces it.
func TestTextThatIsReplaced(t *testing.T) {
	for num := range protowire.Number(2) {
		entry := appendRaw(appendRaw(nil, 1+num, []byte{0xff}), 1+num, []byte("k"))
		var l wire.List
		parse(t, &l, appendRaw(nil, 1, appendRaw(appendRaw(nil, 1, []byte("a")), 10, entry)))
		if _, err := l.Record(0); err == nil || !strings.Contains(err.Error(), "labels: holds text that is not UTF-8") {
			t.Errorf("field %d: %v", 1+num, err)
		}
	}
}

// TestParseAllocatesNothing: a listing in which nothing is new costs no memory.
func TestParseAllocatesNothing(t *testing.T) {
	rng := random(t)
	var records []shard.Record
	for i := range 500 {
		records = append(records, randomRecord(rng, fmt.Sprint("m", i)))
	}
	b := encode(records...)
	var l wire.List
	var sum uint64
	n := testing.AllocsPerRun(10, func() {
		if err := l.Parse(b); err != nil {
			t.Fatal(err)
		}
		for i := range l.Len() {
			sum += l.Digest(i) + uint64(len(l.ID(i)))
			if _, err := l.Record(i); err != nil { // sets that were met before are shared
				t.Fatal(err)
			}
		}
	})
	if n > 1 { // the revision's copy
		t.Errorf("%v allocations for 500 records", n)
	}
}

// FuzzList: whatever the bytes, List and the generic decoder agree about what
// they say, or that they say nothing.
func FuzzList(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	f.Add([]byte(nil))
	f.Add([]byte{0x0a, 0x02, 0xff, 0xff})
	f.Add(beyondNumbers)
	f.Add(keyTwice)
	for range 20 {
		f.Add(encode(randomRecord(rng, "a"), randomRecord(rng, "b")))
	}
	f.Add(appendRaw(nil, 1, appendRaw(appendRaw(nil, 10, appendRaw(nil, 1, []byte("k"))), 10, appendRaw(appendRaw(nil, 1, []byte("k")), 2, []byte("v")))))
	f.Fuzz(func(t *testing.T, b []byte) {
		twin, revision, twinErr := decodeTwin(b)
		var l wire.List
		err := l.Parse(b)
		refused := err != nil
		for i := range l.Len() {
			rec, err := l.Record(i)
			if refused = refused || err != nil && (twinErr != nil || twin[i].err == nil); err != nil {
				continue
			}
			if twinErr != nil {
				continue
			}
			if twin[i].err != nil {
				t.Fatalf("record %d is accepted, the twin says %v", i, twin[i].err)
			}
			got, want := plain(rec), twin[i].rec
			if !reflect.DeepEqual(zeroNaN(got), zeroNaN(want)) {
				t.Fatalf("record %d is\n%+v, of the twin\n%+v", i, got, want)
			}
		}
		if refused != (twinErr != nil) {
			t.Fatalf("refused: %v (%v); the twin says %v", refused, err, twinErr)
		}
		if err == nil && twinErr == nil && (l.Len() != len(twin) || !bytes.Equal(l.Revision(), revision)) {
			t.Fatalf("%d records, revision %x; the twin has %d, %x", l.Len(), l.Revision(), len(twin), revision)
		}
	})
}

// zeroNaN makes records with NaN comparable.
func zeroNaN(r shard.Record) shard.Record {
	for _, x := range [...]*float64{&r.Machine.PricePerHour, &r.Machine.InterruptionProbability} {
		if math.IsNaN(*x) {
			*x = -1
		}
	}
	return r
}

// lister lists what a test says, as records or as a message.
type lister struct {
	shard.Provider
	next func() (shard.ListResponse, error)
}

func (p *lister) List(context.Context, shard.ListRequest) (shard.ListResponse, error) {
	return p.next()
}

// TestWireIsTakenOverLikeRecords: a shard that is told bytes holds what a shard
// is told that gets the same as records, and counts the same, however often
// the same is repeated.
func TestWireIsTakenOverLikeRecords(t *testing.T) {
	rng := random(t)
	for range 8 {
		var records []shard.Record
		full := true
		var l wire.List
		cfg := shard.DefaultConfig()
		cfg.Paused = true
		open := func(next func() (shard.ListResponse, error)) *shard.Shard {
			s, err := shard.New(cfg, shard.Deps{Provider: &lister{next: next}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a := open(func() (shard.ListResponse, error) { return shard.ListResponse{Records: records, Full: full}, nil })
		b := open(func() (shard.ListResponse, error) {
			err := l.Parse(encode(records...))
			return l.Response(full), err
		})
		for round := range 25 {
			records = edited(rng, records)
			full = rng.IntN(4) > 0
			now := int64(1+round) * int64(10*time.Second)
			ca, errA := a.Step(context.Background(), now)
			cb, errB := b.Step(context.Background(), now)
			if errA != nil || errB != nil || ca.Reconciled != cb.Reconciled {
				t.Fatalf("round %d: records %+v (%v), bytes %+v (%v)", round, ca.Reconciled, errA, cb.Reconciled, errB)
			}
			var ma, mb []model.Machine
			a.Machines(func(m model.Machine) bool { ma = append(ma, m); return true })
			b.Machines(func(m model.Machine) bool { mb = append(mb, m); return true })
			if !reflect.DeepEqual(ma, mb) {
				t.Fatalf("round %d: the machines differ:\n%+v\n%+v", round, ma, mb)
			}
		}
	}
}

// edited returns a listing that differs in some records, or not at all.
func edited(rng *rand.Rand, records []shard.Record) []shard.Record {
	out := append([]shard.Record(nil), records...)
	for range rng.IntN(30) {
		switch rec := randomRecord(rng, fmt.Sprint("m", rng.IntN(200))); {
		case len(out) == 0 || rng.IntN(3) == 0:
			out = append(out, rec) // now and then the id is there already
		case rng.IntN(6) == 0:
			i := rng.IntN(len(out))
			out = append(out[:i], out[i+1:]...)
		default:
			i := rng.IntN(len(out))
			m := &out[i].Machine
			switch rng.IntN(6) {
			case 0:
				m.PricePerHour = float64(rng.IntN(5)) - 1 // sometimes refused
			case 1:
				m.Labels = rec.Machine.Labels
			case 2:
				rec.Machine.ID = m.ID
				out[i] = rec
			case 3:
				m.InterruptionProbability = float64(rng.IntN(4)) / 2
			case 4:
				out[i].Metadata = rec.Metadata
			case 5:
				m.Resources = rec.Machine.Resources
			}
		}
	}
	return out
}
