package wire_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// TestAMessageIsLetGo: a listing that is done with, and the next one, however
// small and though nothing of it is read, free the message before. A listing of
// 500,000 machines has 140 MB.
func TestAMessageIsLetGo(t *testing.T) {
	t.Run("done", func(t *testing.T) { letGo(t, (*wire.List).Done) })
	t.Run("next", func(t *testing.T) {
		letGo(t, func(l *wire.List) {
			if err := l.Parse(nil); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func letGo(t *testing.T, after func(*wire.List)) {
	rng := random(t)
	var l wire.List
	first := func() weak.Pointer[byte] {
		var records []shard.Record
		for i := range 500 {
			records = append(records, randomRecord(rng, fmt.Sprint("machine-", i)))
		}
		msg := bytes.Clone(encode(records...))
		if err := l.Parse(msg); err != nil {
			t.Fatal(err)
		}
		for i := range l.Len() {
			if _, err := l.Record(i); err != nil {
				t.Fatal(err)
			}
		}
		return weak.Make(&msg[0])
	}()
	if runtime.GC(); first.Value() == nil {
		t.Fatal("the message is gone while it is read")
	}
	if after(&l); l.Len() != 0 {
		t.Errorf("%d records", l.Len())
	}
	if runtime.GC(); first.Value() != nil {
		t.Error("the message is kept")
	}
	runtime.KeepAlive(&l)
}
