package shard_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// digested is a listing whose records have digests, as those over the wire have.
type digested []shard.Record

var digestSeed = maphash.MakeSeed()

func (b digested) Len() int        { return len(b) }
func (b digested) ID(i int) string { return b[i].Machine.ID }
func (b digested) Digest(i int) uint64 {
	return maphash.String(digestSeed, fmt.Sprintf("%+v", b[i].Machine)) | 1
}
func (b digested) Done() {}

func (b digested) Record(i int) (*shard.Record, error) { return &b[i], nil }

// digesting lists with digests.
type digesting struct{ shard.Provider }

func (d digesting) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	out, err := d.Provider.List(ctx, r)
	out.Batch, out.Records = digested(out.Records), nil
	return out, err
}

// TestADoubtEndsWithARecordThatIsTheSame: a machine that was missing is listed again as it was
// before, and its record would be passed over unread.
func TestADoubtEndsWithARecordThatIsTheSame(t *testing.T) {
	w, l := lyingWorld(t, machines(40, model.Configured, "c"))
	w.deps.Provider = digesting{l}
	w.restart()
	w.report("c", need(t, 1, 160))
	w.steps(2)
	l.change = leavingOut(bound)
	if c := w.step(); c.Reconciled.Doubted != 40 {
		t.Fatalf("%d are doubted, want all 40", c.Reconciled.Doubted)
	}
	l.change = nil
	if c := w.step(); c.Reconciled.Doubted != 0 {
		t.Errorf("all are listed again, and %d are doubted", c.Reconciled.Doubted)
	}
}
