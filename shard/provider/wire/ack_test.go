package wire_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	providerwire "github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// TestAnswersAsTheyWere: what is written as an answer, or by itself, is read as
// in a listing.
func TestAnswersAsTheyWere(t *testing.T) {
	rng := random(t)
	var l wire.List
	for i := range 300 {
		want := randomRecord(rng, fmt.Sprint("m", i))
		machine := providerwire.MachineOf(providerwire.AppendRecord(nil, &want))
		operation, err := l.ParseAck(providerwire.AppendAck(nil, fmt.Sprint("op-", i), machine))
		if err != nil || operation != fmt.Sprint("op-", i) || l.Len() != 1 || l.ID(0) != want.Machine.ID {
			t.Fatalf("operation %q, %d records, %v", operation, l.Len(), err)
		}
		rec, err := l.Record(0)
		if err != nil || !reflect.DeepEqual(plain(rec), want) {
			t.Fatalf("answered %+v, %v, want %+v", rec, err, want)
		}
		digest := l.Digest(0)
		if err := l.ParseMachine(machine); err != nil || l.Digest(0) != digest {
			t.Fatalf("by itself: %v, digest %x, want %x", err, l.Digest(0), digest)
		}
		if rec, err = l.Record(0); err != nil || !reflect.DeepEqual(plain(rec), want) {
			t.Fatalf("by itself %+v, %v, want %+v", rec, err, want)
		}
	}
}

func TestOddAnswers(t *testing.T) {
	var l wire.List
	if operation, err := l.ParseAck(nil); operation != "" || err != nil || l.Len() != 0 {
		t.Errorf("an empty answer: %q, %v, %d records", operation, err, l.Len())
	}
	rec := shard.Record{Machine: model.Machine{ID: "m", State: model.Idle, Host: "h"}}
	ack := providerwire.AppendAck(nil, "op", providerwire.MachineOf(providerwire.AppendRecord(nil, &rec)))
	for cut := 1; cut < len(ack); cut++ {
		if _, err := l.ParseAck(ack[:cut]); err == nil && l.Len() == 1 {
			if _, err := l.Record(0); err == nil {
				t.Errorf("an answer cut off at %d of %d bytes is read", cut, len(ack))
			}
		}
	}
	if providerwire.MachineOf(ack[:1]) != nil || providerwire.MachineOf(nil) != nil {
		t.Error("a machine where there is none")
	}
}

// TestAMachineOnItsWayHasNoHost: a provider may know the host before the
// machine is there; the state machine has no place for it.
func TestAMachineOnItsWayHasNoHost(t *testing.T) {
	rec := shard.Record{Machine: model.Machine{ID: "m", State: model.Creating, Host: "h"}}
	var l wire.List
	parse(t, &l, encode(rec))
	got, err := l.Record(0)
	if err != nil || got.Machine.Host != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := got.Machine.Validate(true); err != nil {
		t.Error(err)
	}
}
