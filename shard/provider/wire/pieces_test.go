package wire_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// cut returns a message in pieces of at most n bytes, empty ones among them,
// which nobody may change.
func cut(rng *rand.Rand, msg []byte, n int) (out [][]byte) {
	for len(msg) > 0 {
		k := min(rng.IntN(n+1), len(msg))
		out = append(out, msg[:k:k])
		msg = msg[k:]
	}
	return out
}

// agree fails when two lists do not say the same, in whatever order they are
// asked.
func agree(t *testing.T, rng *rand.Rand, got, want *wire.List) {
	t.Helper()
	if got.Len() != want.Len() || string(got.Revision()) != string(want.Revision()) {
		t.Fatalf("%d records, revision %q, want %d, %q", got.Len(), got.Revision(), want.Len(), want.Revision())
	}
	for _, i := range append(rng.Perm(got.Len()), rng.Perm(got.Len())...) {
		a, errA := got.Record(i)
		b, errB := want.Record(i)
		if got.ID(i) != want.ID(i) || got.Digest(i) != want.Digest(i) || fmt.Sprint(errA) != fmt.Sprint(errB) || errA == nil && !reflect.DeepEqual(plain(a), plain(b)) {
			t.Fatalf("record %d, %q, is %+v, %v; want %q, %+v, %v", i, got.ID(i), a, errA, want.ID(i), b, errB)
		}
	}
}

// TestPieces: a message says the same in pieces as in one, and is refused where
// it is refused in one, with the same error.
func TestPieces(t *testing.T) {
	rng := random(t)
	var whole, pieces wire.List
	group := protowire.AppendTag(nil, 30, protowire.StartGroupType)
	for range 20 {
		group = append(protowire.AppendTag(group, 31, protowire.BytesType), 3, 'x', 'y', 'z')
	}
	group = protowire.AppendTag(group, 30, protowire.EndGroupType)
	for range 400 {
		var b []byte
		for i := range rng.IntN(30) {
			rec := randomRecord(rng, fmt.Sprint("m", i))
			b = providerwire.AppendRecord(b, &rec)
			switch rng.IntN(12) { // fields that are not known
			case 0:
				b = append(b, group...)
			case 1:
				b = protowire.AppendVarint(protowire.AppendTag(b, 1<<20, protowire.VarintType), rng.Uint64())
			case 2:
				b = appendRaw(b, 1<<20, make([]byte, rng.IntN(1000)))
			}
		}
		b = providerwire.AppendRevision(b, []byte("revision"))
		switch rng.IntN(4) {
		case 0:
			b = b[:rng.IntN(len(b))]
		case 1:
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
		errWhole := whole.Parse(b)
		err := pieces.ParsePieces(cut(rng, b, 1+rng.IntN(1<<rng.IntN(12))))
		if fmt.Sprint(err) != fmt.Sprint(errWhole) {
			t.Fatalf("in pieces: %v, in one: %v", err, errWhole)
		}
		agree(t, rng, &pieces, &whole)
	}
}

// TestLongMessagesInPieces: the same for more records than are kept room for,
// again and again.
func TestLongMessagesInPieces(t *testing.T) {
	rng := random(t)
	var whole, pieces wire.List
	for _, n := range []int{40_000, 3, 70_000, 0, 20_000} {
		records := make([]shard.Record, n)
		for i := range records {
			records[i].Machine.ID = fmt.Sprint("m", i)
		}
		b := encode(records...)
		parse(t, &whole, b)
		if err := pieces.ParsePieces(cut(rng, b, 5000)); err != nil {
			t.Fatal(err)
		}
		agree(t, rng, &pieces, &whole)
	}
}
