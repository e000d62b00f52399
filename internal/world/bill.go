package world

import (
	"fmt"

	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/internal/terminal"
)

// bill writes a key and an object of what a fleet costs an hour, in dollars.
func (j *jsonWriter) bill(b *bill.Bill) {
	j.key("bill")
	j.open('{')
	j.number("paid", b.Paid)
	j.number("idle", b.Idle)
	j.number("serving", b.Serving)
	j.number("effective", b.Effective)
	j.number("bound", b.Bound)
	j.close('}')
}

// billText says what a fleet costs in a line; "" if nothing costs anything.
func billText(b *bill.Bill) string {
	if b.Paid == 0 && b.Serving == 0 {
		return ""
	}
	line := fmt.Sprintf("costs an hour: %s paid, %s of it for idle machines; %s for what needs have", priceText(b.Paid), priceText(b.Idle), priceText(b.Serving))
	if over, ok := b.Over(); ok {
		if b.Effective != b.Serving {
			line += fmt.Sprintf(", %s with the risk of interruptions", priceText(b.Effective))
		}
		line += fmt.Sprintf(", %.1f %% above the bound of %s", 100*over, priceText(b.Bound))
	}
	return line
}

// priceText is an amount of dollars.
func priceText(v float64) string { return "$" + terminal.Cents(v) }
