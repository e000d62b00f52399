package main

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/internal/fleetview"
)

// The sums of a bill are of one moment, and what is only true now is told apart.
func TestMoneyTextAddsUp(t *testing.T) {
	of := func(b bill.Bill) string {
		return moneyText(&fleetview.MoneyAnswer{List: 200, Effective: 210, Idle: 9.18, Interruptions: 0.5, Bill: b})
	}
	now := "now: $200.00 an hour at list prices; $210.00 with what interruptions cost (0.50 interruptions an hour are expected)"
	for _, c := range []struct {
		name string
		bill bill.Bill
		want string
	}{
		{"no bill", bill.Bill{}, now + "; $9.18 of idle machines\n"},
		{"all of it", bill.Bill{Paid: 201, Idle: 43.5, Serving: 157, Effective: 157.5, Bound: 156.979389, At: 1},
			"21.6 % of what you pay is for idle machines; what needs have costs $157.50 with interruptions, 0.3 % above the least possible, $156.98\n" +
				"an hour, as of " + at(1) + ": $201.00 paid = $157.00 for what needs have + $43.50 idle + $0.50 that drains or that no need claims\n" + now + "\n"},
		{"buys", bill.Bill{Paid: 10, Serving: 12, At: 1},
			"0.0 % of what you pay is for idle machines\nan hour, as of " + at(1) + ": $10.00 paid = $12.00 for what needs have + $0.00 idle - $2.00 that is only being bought\n" + now + "\n"},
	} {
		if got := of(c.bill); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, strings.TrimSpace(c.want))
		}
	}
	incomplete := moneyText(&fleetview.MoneyAnswer{List: 200, Effective: 210, Idle: 9.18, Incomplete: 9.5, IncompleteGangs: 2, Interruptions: 0.5})
	if want := now + "; $9.50 of it is for machines of gangs that are not complete (2), so that nothing runs there; $9.18 of idle machines\n"; incomplete != want {
		t.Errorf("got\n%s\nwant\n%s", incomplete, want)
	}
}
