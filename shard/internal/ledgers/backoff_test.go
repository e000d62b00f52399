package ledgers

import (
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func TestBackOffDoubles(t *testing.T) {
	var b backOffs
	owner := model.Owner{Cluster: "c", Fingerprint: 1}
	cycle := uint64(10)
	for _, waits := range []uint64{1, 2, 4, 8, 16, 32, 64, 64} {
		b.failed(owner, cycle)
		b.failed(owner, cycle) // another drain of the plan
		for k := uint64(0); k <= waits; k++ {
			if !b.In(cycle + k)[owner] {
				t.Fatalf("failed in %d: it does not wait in %d, %d cycles later", cycle, cycle+k, k)
			}
		}
		if cycle += waits + 1; b.In(cycle)[owner] {
			t.Fatalf("it waits for more than %d cycles", waits)
		}
	}
	if cycle += backOffForget; b.In(cycle) != nil && len(b.owners) != 0 {
		t.Error("it is never forgotten")
	}
	b.failed(owner, cycle)
	if b.In(cycle + 1); b.In(cycle + 2)[owner] {
		t.Error("after a long time it waits for more than a cycle")
	}
}

func TestBackOffsAreBounded(t *testing.T) {
	var b backOffs
	for i := range BackingOffMax + 10 {
		b.failed(model.Owner{Cluster: "c", Fingerprint: uint64(i)}, 1)
	}
	if len(b.owners) != BackingOffMax {
		t.Errorf("%d owners are remembered", len(b.owners))
	}
}
