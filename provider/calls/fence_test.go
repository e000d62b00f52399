package calls_test

import (
	"errors"
	"testing"

	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

func call(s, machine string, e, n int64) *calls.Call {
	return &calls.Call{Machine: machine, Shard: s, Token: epoch.Token{Epoch: e, Sequence: n}}
}

// A token passes once; what passed is saved, and what is forgotten passes again, but for who fences by the whole shard.
func TestFence(t *testing.T) {
	f := calls.NewFence()
	admit := func(c *calls.Call, passes bool) {
		t.Helper()
		if err := f.Admit(c); (err == nil) != passes || err != nil && !errors.Is(err, shard.ErrFenced) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	admit(call("s", "m", 2, 1), true)
	admit(call("s", "m", 2, 1), false)
	admit(call("s", "m", 1, 9), false)
	admit(call("s", "m", 2, 2), true)
	admit(call("s", "n", 1, 1), true)
	admit(call("r", "m", 1, 1), true)
	admit(call("", "m", 0, 0), true)
	f.Seen("s", "old", epoch.Token{Epoch: 5, Sequence: 5})
	f.Seen("s", "m", epoch.Token{Epoch: 1, Sequence: 1}) // older than what is known
	f.Seen("", "nobody", epoch.Token{Epoch: 1, Sequence: 1})
	admit(call("s", "old", 5, 5), false)
	admit(call("s", "m", 2, 2), false)

	file := map[string]string{}
	save := func() {
		t.Helper()
		err := f.Save(func(k, v []byte) error { file[string(k)] = string(v); return nil }, func(k []byte) error { delete(file, string(k)); return nil })
		if err != nil || f.Unsaved() {
			t.Errorf("saved: %v, unsaved %t", err, f.Unsaved())
		}
	}
	save()
	f.Forget("m")
	if !f.Unsaved() {
		t.Error("what was forgotten need not be saved")
	}
	save()
	again := calls.NewFence()
	for k, v := range file {
		if err := again.Load([]byte(k), []byte(v)); err != nil {
			t.Error(err)
		}
	}
	if again.Len() != 2 || f.Len() != 2 {
		t.Errorf("%d tokens were saved of %d, want 2", again.Len(), f.Len())
	}
	admit(call("s", "m", 1, 1), true)
	whole := call("s", "k", 4, 1)
	whole.WholeShard = true
	admit(whole, false) // epoch 5 of the shard has been seen
	for k, v := range map[string]string{"": "", "\xc8": "x", "\x01s": "0123456789abcde"} {
		if err := again.Load([]byte(k), []byte(v)); err == nil {
			t.Errorf("%q, %q is taken for a token", k, v)
		}
	}
	if boom := errors.New("boom"); !errors.Is(f.Save(func(_, _ []byte) error { return boom }, nil), boom) || !f.Unsaved() {
		t.Error("a token that could not be saved is taken for saved")
	}
}
