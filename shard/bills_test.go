package shard_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// A shard of a large fleet computes a bill at most once in 47 s, and cycles are 10 s apart: machines of $1 for 4 cpu, of which 6 are asked for.
func TestBillOncePerMinute(t *testing.T) {
	const many = 4100
	w, reg := metered(t, machines(many, model.Idle, ""))
	if b := billed(t, reg); b != (bill.Bill{}) {
		t.Errorf("before the first cycle the bill is %+v", b)
	}
	w.report("c1", need(t, 10, 6))
	w.step()
	want := bill.Bill{Idle: many - 2, Serving: 2, Effective: 2, Bound: 1.5}
	if b := billed(t, reg); b != want {
		t.Errorf("bill %+v, want %+v", b, want)
	}
	w.report("c1")
	for range 4 {
		w.step()
		if b := billed(t, reg); b != want {
			t.Fatalf("before a bill is due the bill is %+v, want %+v", b, want)
		}
	}
	w.step()
	if b := billed(t, reg); b.Serving != 0 || b.Bound != 0 {
		t.Errorf("soon after demand has gone the bill is %+v", b)
	}
}

// Of a small fleet a bill is as young as a few seconds.
func TestBillsOfSmallFleetsAreYoung(t *testing.T) {
	w, reg := metered(t, machines(3, model.Idle, ""))
	w.report("c1", need(t, 10, 6))
	w.step()
	if b := billed(t, reg); b.Serving != 2 || b.Idle != 1 {
		t.Errorf("bill %+v", b)
	}
	w.report("c1")
	w.step()
	if b := billed(t, reg); b.Serving != 0 {
		t.Errorf("a cycle after demand has gone the bill is %+v", b)
	}
}

// A cycle whose report has a bill has the newest that is known, also where cycles follow each other faster than bills are
// computed.
func TestReportsHaveTheNewestBill(t *testing.T) {
	var last *shard.CycleReport
	w, reg := metered(t, machines(3, model.Idle, ""), func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Observer = func(r *shard.CycleReport) { last = r }
	})
	for i := range 20 {
		w.report("c1", need(t, 10, int64(4*(i%3))))
		w.step()
		at := w.now
		billed(t, reg) // waits until the bill is known
		w.step()
		if last.Bill == nil || last.Bill.At < at/1e6 {
			t.Fatalf("step %d: the bill is %+v, want that of %d or a newer one", i, last.Bill, at/1e6)
		}
	}
}

// billed reads the bill off the metrics; there is none of Paid here.
func billed(t *testing.T, reg *prometheus.Registry) bill.Bill {
	t.Helper()
	all := series(t, reg)
	of := func(part string) float64 { return all["tonnage_shard_spend_"+part+"_dollars_per_hour{}"] }
	return bill.Bill{Idle: of("idle"), Serving: of("serving"), Effective: of("effective"), Bound: of("bound")}
}
