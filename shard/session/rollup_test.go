package session_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/session"
)

const cluster = "cluster-0000"

// Pieces of messages.
func text(num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
}

func number(num protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), uint64(v))
}

func sub(num protowire.Number, parts ...[]byte) []byte { return text(num, string(join(parts...))) }

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func amount(num protowire.Number, name, quantity string) []byte {
	return sub(num, text(1, name), text(2, quantity))
}

func in(key string, values ...string) []byte {
	parts := [][]byte{text(1, key), number(2, 1)}
	for _, v := range values {
		parts = append(parts, text(3, v))
	}
	return sub(1, parts...)
}

// tagOnly is a tag and nothing behind it.
func tagOnly(num protowire.Number, typ protowire.Type) []byte {
	return protowire.AppendTag(nil, num, typ)
}

// rollupCase is a roll-up and what becomes of it.
type rollupCase struct {
	name, want string // of the error, "" = accepted
	data       []byte
}

func cases() []rollupCase {
	good := join(in("zone", "a", "b"), amount(2, "cpu", "4"), number(3, 7), amount(8, "cpu", "500m"))
	row := func(parts ...[]byte) []byte { return join(sub(3, good), sub(3, join(good, join(parts...)))) }
	return []rollupCase{
		{"nothing", "", nil},
		{"a row", "", row()},
		{"a row that says nothing", "", sub(3)},
		{"its own cluster", "", join(text(1, cluster), row())},
		{"another cluster", `names cluster "other"`, join(row(), text(1, "other"))},
		{"the last of several clusters", "", join(text(1, "other"), row(), text(1, cluster))},
		{"a cluster that is not text", "not valid UTF-8", text(1, "\xff")},
		{"unknown fields", "", join(number(2000, 5), row(number(4, 3), text(100, "x"), protowire.AppendFixed64(protowire.AppendTag(nil, 33, protowire.Fixed64Type), 1)))},
		{"an unknown group", "", join(row(), tagOnly(44, protowire.StartGroupType), number(1, 1), tagOnly(44, protowire.EndGroupType))},
		{"a known number of another type", "", row(number(9, 3), text(3, "x"), number(1, 2), number(2, 2), text(6, "y"), number(8, 1))},
		{"fields in another order", "", sub(3, amount(8, "cpu", "1"), number(7, 3), text(9, "g"), amount(2, "cpu", "1"), in("b"), number(3, -5), in("a"))},
		{"the last of several values", "", row(number(3, 1), number(3, 2), text(9, "g"), text(9, "h"), amount(2, "memory", "x"), amount(2, "memory", "1Gi"))},
		{"a truncated tag", "not valid protobuf at byte", join(row(), []byte{0x80})},
		{"a truncated row", "field 3 is cut off", row()[:len(row())-1]},
		{"a truncated field of a row", "row 1 is not valid protobuf", row([]byte{0x4a, 0x05, 'x'})},
		{"a truncated number", "row 1 is not valid protobuf", row([]byte{0x18, 0x80})},
		{"a number that is too long", "row 1 is not valid protobuf", row([]byte{0x18}, []byte(strings.Repeat("\xff", 10)))},
		{"a length beyond everything", "cut off", []byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"field number zero", "impossible number", []byte{0x00, 0x00}},
		{"a field number beyond 29 bits", "impossible number", join(row(), number(1<<29, 1))},
		{"a field number beyond 29 bits in a row", "row 1 is not valid protobuf at byte", row(number(1<<29, 1))},
		{"the largest field number", "", join(row(), row(number(1<<29-1, 1)))},
		{"a wire type that does not exist", "not valid protobuf", []byte{0x0f}},
		{"a group that ends without a beginning", "not valid protobuf", []byte{0x0c}},
		{"an unknown operator", "row 1 requirements[1].operator: no such operator: 9; use In (1)", row(sub(1, text(1, "k"), number(2, 9)))},
		{"no operator", "requirements[1].operator: no such operator: 0", row(sub(1, text(1, "k")))},
		{"an operator of ours", "no such operator: 6", row(sub(1, text(1, "k"), number(2, 6), text(3, "1")))},
		{"an operator beyond 8 bits", "no such operator: 257", row(sub(1, text(1, "k"), number(2, 257)))},
		{"a key that is not text", "requirements[1].key is not valid UTF-8", row(in("\xff"))},
		{"a value that is not text", "requirements[1].values[1] is not valid UTF-8", row(in("k", "a", "\xff"))},
		{"no key", "requirements[0].key must not be empty", sub(3, in(""))},
		{"a second Same", "a second Same requirement", row(sub(1, text(1, "k"), number(2, 5)), sub(1, text(1, "l"), number(2, 5)))},
		{"a truncated requirement", "row 1 requirements[1] is not valid protobuf", row(sub(1, []byte{0x0a, 0x05}))},
		{"spread", "", row(sub(5, text(1, "zone"), number(2, 1), number(3, 1)))},
		{"no skew", "spread[0].maxSkew: must be at least 1, got 0", row(sub(5, text(1, "zone"), number(3, 1)))},
		{"a skew beyond 32 bits", "spread[0].maxSkew: must be at least 1, got 0", row(sub(5, text(1, "zone"), number(2, 1<<32), number(3, 1)))},
		{"no policy", "spread[0].whenUnsatisfiable", row(sub(5, text(1, "zone"), number(2, 1)))},
		{"an unknown policy", "spread[0].whenUnsatisfiable", row(sub(5, text(1, "zone"), number(2, 1), number(3, 257)))},
		{"a spread key that is not text", "spread[0].topologyKey is not valid UTF-8", row(sub(5, text(1, "\xff"), number(2, 1), number(3, 1)))},
		{"a truncated spread", "row 1 spread[0] is not valid protobuf", row(sub(5, []byte{0x0a, 0x05}))},
		{"the last bucket", "", row(number(6, 27), number(7, 27))},
		{"a bucket out of range", "interruptionPenalty: no such bucket", row(number(6, 28))},
		{"a bucket beyond 8 bits", "reclamationPenalty: no such bucket", row(number(7, 256))},
		{"a negative bucket", "reclamationPenalty: no such bucket", row(number(7, -1))},
		{"not a quantity", `row 1 aggregate_resources: "cpu": "four" is not a quantity`, row(amount(2, "cpu", "four"))},
		{"no quantity", `row 1 min_unit: "memory": "" is not a quantity`, row(sub(8, text(1, "memory")))},
		{"a negative quantity", `min_unit: "cpu": "-1" must not be negative`, row(amount(8, "cpu", "-1"))},
		{"a long quantity", "longer than 64 characters", row(amount(8, "cpu", strings.Repeat("1", 65)))},
		{"a quantity that is not text", "aggregate_resources is not valid UTF-8", row(amount(2, "cpu", "\xff"), amount(2, "cpu", "1"))},
		{"a nameless resource", "aggregate_resources has an entry without a name", row(amount(2, "", "1"))},
		{"a name that is not text", "aggregate_resources names a resource whose name is not valid UTF-8", row(amount(2, "\xff", "1"))},
		{"a name of nothing that is not text", "min_unit names a resource whose name is not valid UTF-8", row(amount(8, "\xff", "0"))},
		{"an entry with two quantities", `"x" is not a quantity`, row(sub(2, text(1, "cpu"), text(2, "4"), text(2, "x")))},
		{"an entry with more behind it", "", row(sub(2, text(1, "cpu"), text(2, "4"), text(3, "x")))},
		{"a long name", "row 1 aggregate_resources names a resource whose name has 513 bytes", row(amount(2, strings.Repeat("x", 513), "1"))},
		{"a truncated entry", "row 1 aggregate_resources is not valid protobuf", row(sub(2, []byte{0x0a}))},
		{"zero amounts take no dimension", "", row(amount(2, "a", "0"), amount(8, "b", "0m"))},
		{"fractions", "", row(amount(2, "cpu", "1.5"), amount(2, "memory", "0.5Gi"), amount(8, "gpu", "1e1"))},
		{"a group that is not text", "row 1 group is not valid UTF-8", row(text(9, "\xff"))},
		{"a control character in the cluster id", "the cluster id holds the control character U+001B at byte 1: \"c\\x1b[2J\"", text(1, "c\x1b[2J")},
		{"a control character in a key", `row 1 requirements[1].key holds the control character U+009B at byte 1: "k\u009b"`, row(in("k\u009b"))},
		{"a control character in a value", `row 1 requirements[1].values[1] holds the control character U+202E at byte 0: "\u202eb"`, row(in("k", "a", "\u202eb"))},
		{"a long key", "row 1 requirements[1].key has 513 bytes; at most 512 are accepted", row(in(strings.Repeat("k", 513)))},
		{"a control character in a spread", "row 1 spread[0].topologyKey holds the control character U+0007", row(sub(5, text(1, "a\a"), number(2, 1), number(3, 1)))},
		{"a control character in a resource", "row 1 min_unit names a resource whose name holds the control character U+007F", row(amount(8, "gpu\x7f", "1"))},
		{"a control character in a resource of nothing", "names a resource whose name holds the control character U+000A", row(amount(2, "a\nb", "0"))},
		{"control characters in a group", "", row(text(9, "pods\x00\x1b[31m\u009b\u202e"))},
		{"a long group", "row 1 has a group of 513 bytes", row(text(9, strings.Repeat("g", 513)))},
		{"a large profile", "row 1 spends 65550 bytes", row(sub(1, text(1, strings.Repeat("k", session.ProfileBytesMax-14)), number(2, 3)))},
		{"many names", "would be resource 80 of the roll-up", sub(3, manyNames(demand.NamesMax+1))},
		{"as many names as there may be", "", sub(3, manyNames(demand.NamesMax))},
	}
}

func manyNames(n int) (b []byte) {
	for i := range n {
		b = append(b, amount(2, fmt.Sprint("dim", i), "1")...)
	}
	return b
}

// TestDecode: each roll-up is accepted or refused for its reason; the twin
// agrees, and what is refused changes nothing.
func TestDecode(t *testing.T) {
	d, b := session.NewDecoder(), demand.NewBuilder()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			fast, slow := demand.New(), demand.New()
			before := sub(3, amount(2, "cpu", "1"))
			if err := loadFast(fast, d, b, cluster, before); err != nil {
				t.Fatal(err)
			}
			if err := loadSlowly(slow, cluster, before); err != nil {
				t.Fatal(err)
			}
			version := fast.Version()
			err := loadFast(fast, d, b, cluster, c.data)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the answer is %v, want %q", err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), cluster) || fast.Version() != version) {
				t.Errorf("error %v; version %d -> %d", err, version, fast.Version())
			}
			if twin := loadSlowly(slow, cluster, c.data); (twin == nil) != (err == nil) && c.name != "a large profile" {
				t.Fatalf("the twin's answer is %v", twin)
			}
			if c.name != "a large profile" {
				sameTables(t, fast, slow, cluster)
			}
		})
	}
}

// TestDecodeLimits: the limits that a small message cannot reach.
func TestDecodeLimits(t *testing.T) {
	repeated := func(n int, part []byte) []byte { return []byte(strings.Repeat(string(part), n)) }
	different := func(n int) (all []byte) {
		for i := range n {
			all = append(all, sub(3, number(3, int64(i)))...)
		}
		return all
	}
	d, b := session.NewDecoder(), demand.NewBuilder()
	for _, c := range []rollupCase{
		{"as many rows as there may be", "", repeated(demand.RowsMax, sub(3))},
		{"too many rows", "1048577 rows", repeated(demand.RowsMax+1, sub(3))},
		{"as many kinds as there may be", "", different(session.ProfilesMax)},
		{"too many kinds", "row 16384 has different requirements", different(session.ProfilesMax + 1)},
		{"a name again and again", "", sub(3, repeated(session.EntriesMax, amount(2, "cpu", "1")))},
		{"a name too often", "more than 256 entries", sub(3, repeated(session.EntriesMax+1, amount(2, "cpu", "1")))},
		{"a long message", "33554433 bytes", make([]byte, session.MessageBytesMax+1)},
		{"groups in groups", "not valid protobuf", repeated(1<<20, tagOnly(44, protowire.StartGroupType))},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.Decode(cluster, c.data, b)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the answer is %v, want %q", err, c.want)
			}
		})
	}
	if err := d.Decode("", nil, b); err == nil || !strings.Contains(err.Error(), "the cluster id must not be empty") {
		t.Errorf("no cluster: %v", err)
	}
}

// TestDecodeForgetsProfiles: a decoder that sees ever new profiles does not
// grow, and reads right what it had forgotten.
func TestDecodeForgetsProfiles(t *testing.T) {
	d, b := session.NewDecoder(), demand.NewBuilder()
	for round := range 5 {
		var all []byte
		for i := range session.ProfilesMax {
			all = append(all, sub(3, number(3, int64(i+round*session.ProfilesMax/2)), in("a-key-of-some-length", "a value of some length"))...)
		}
		table := demand.New()
		if err := loadFast(table, d, b, cluster, all); err != nil {
			t.Fatal(err)
		}
		for i, row := range table.Rows(cluster) {
			if got, want := row.Profile.Priority(), int32(i+round*session.ProfilesMax/2); got != want {
				t.Fatalf("round %d: row %d has priority %d, want %d", round, i, got, want)
			}
		}
	}
	if n := d.Bytes(); n > 32<<20 {
		t.Errorf("the decoder holds %d bytes", n)
	}
}

// TestDecodeKeepsNothingOfTheMessage: its bytes may be used again.
func TestDecodeKeepsNothingOfTheMessage(t *testing.T) {
	d, b, table := session.NewDecoder(), demand.NewBuilder(), demand.New()
	data := sub(3, in("zone", "a"), amount(2, "cpu", "4"), amount(8, "memory", "1Gi"), text(9, "group"))
	fresh := string(data)
	if err := d.Decode(cluster, data, b); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 0xff
	}
	if err := table.Install(b); err != nil {
		t.Fatal(err)
	}
	p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "zone", Operator: model.In, Values: []string{"a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := model.Need{
		Cluster: cluster, Profile: p, Group: "group",
		Aggregate: model.Resources{{Name: "cpu", Value: 4000}}, MinUnit: model.Resources{{Name: "memory", Value: 1 << 30}},
	}
	check := func() {
		t.Helper()
		got := table.Rows(cluster)[0]
		if !got.Profile.Equal(p) {
			t.Errorf("the profile is %+v", got.Profile.Requirements())
		}
		got.Profile = p
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the row is %+v, want %+v", got, want)
		}
	}
	check()
	if err := loadFast(table, d, b, cluster, []byte(fresh)); err != nil {
		t.Fatal(err)
	}
	check()
}

// TestDecodeAllocatesNothing: not for rows of profiles that were seen before.
func TestDecodeAllocatesNothing(t *testing.T) {
	var data []byte
	for i := range 1000 {
		data = append(data, sub(3, in("zone", "a", "b"), amount(2, "cpu", fmt.Sprint(i+1)), amount(2, "memory", fmt.Sprint(i+1, "Mi")),
			number(3, int64(i%10)), amount(8, "cpu", "500m"), text(9, fmt.Sprint("g", i%20)))...)
	}
	data = []byte(strings.ReplaceAll(string(data), " Mi", "Mi"))
	d, b, table := session.NewDecoder(), demand.NewBuilder(), demand.New()
	report := func() {
		if err := d.Decode(cluster, data, b); err != nil {
			t.Fatal(err)
		}
		if err := table.Report(b); err != nil {
			t.Fatal(err)
		}
	}
	report()
	if n := testing.AllocsPerRun(20, report); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
