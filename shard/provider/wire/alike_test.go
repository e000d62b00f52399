package wire_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// alone compares the records of a listing with what each is by itself.
func alone(t *testing.T, bodies [][]byte, msg []byte) {
	t.Helper()
	var l, one wire.List
	parse(t, &l, msg)
	if l.Len() != len(bodies) {
		t.Fatalf("%d records of %d", l.Len(), len(bodies))
	}
	for i, b := range bodies {
		if err := one.ParseMachine(b); err != nil {
			t.Fatal(err)
		}
		if l.ID(i) != one.ID(0) || l.Digest(i) != one.Digest(0) {
			t.Fatalf("record %d of %d is %q with digest %x, by itself %q with %x:\n%x", i, len(bodies), l.ID(i), l.Digest(i), one.ID(0), one.Digest(0), b)
		}
		got, err := l.Record(i)
		want, errAlone := one.Record(0)
		if (err == nil) != (errAlone == nil) {
			t.Fatalf("record %d: %v, by itself %v", i, err, errAlone)
		}
		if err != nil {
			continue
		}
		if a, b := zeroNaN(plain(got)), zeroNaN(plain(want)); !reflect.DeepEqual(a, b) {
			t.Fatalf("record %d is\n%+v, by itself\n%+v", i, a, b)
		}
		got.Machine.Zone, got.Metadata, got.Decoded = "of somebody who changes what was read", nil, nil
	}
}

// TestNeighboursThatAreAlike: records that differ from the one before in their ids only, or in a byte more, are what each is by
// itself: with ids in odd places, twice, empty, of long and of broken text.
func TestNeighboursThatAreAlike(t *testing.T) {
	rng := random(t)
	for range 300 {
		var bodies [][]byte
		var msg []byte
		var body []byte
		for i := range 40 {
			if i == 0 || rng.IntN(5) == 0 {
				rec := randomRecord(rng, "")
				rec.Machine.ID = ""
				body = providerwire.AppendBody(nil, &rec)
			}
			one := bytes.Clone(body)
			if len(one) > 0 && rng.IntN(6) == 0 {
				one[rng.IntN(len(one))] ^= 1 << rng.IntN(8)
			}
			b := withID(rng, i, one)
			bodies, msg = append(bodies, b), appendRaw(msg, 1, b)
		}
		alone(t, bodies, msg)
	}
}

// withID returns a record of a body, and of an id somewhere.
func withID(rng *rand.Rand, i int, body []byte) []byte {
	id := func(text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
	}
	name := fmt.Sprint("m", i)
	switch rng.IntN(16) {
	case 0:
		return append(bytes.Clone(body), id(name)...)
	case 1:
		return append(append(id(name), body...), id("another")...)
	case 2:
		return append(id(""), body...)
	case 3:
		return append(id(string(bytes.Repeat([]byte("x"), 127+rng.IntN(9)))), body...)
	case 4:
		return append(id("\xff"), body...)
	case 5:
		return body
	}
	return append(id(name), body...)
}

// TestAlikeInPieces: the record before may lie in another piece of the message.
func TestAlikeInPieces(t *testing.T) {
	rng := random(t)
	rec := randomRecord(rng, "")
	body := providerwire.AppendBody(nil, &rec)
	var msg []byte
	for i := range 200 {
		msg = providerwire.AppendRecordOf(msg, fmt.Sprint("machine-", i), body)
	}
	var whole wire.List
	parse(t, &whole, msg)
	for range 50 {
		var l wire.List
		if err := l.ParsePieces(cut(rng, msg, 1+rng.IntN(20))); err != nil {
			t.Fatal(err)
		}
		agree(t, rng, &l, &whole)
	}
}
