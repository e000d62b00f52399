package terminal

import (
	"math"
	"strconv"
	"strings"
)

// Price writes an amount of dollars as prices are written: two digits after the point, more, up to
// six, where they say more.
func Price(dollars float64) string {
	if math.IsInf(dollars, 0) || math.IsNaN(dollars) {
		return strconv.FormatFloat(dollars, 'f', -1, 64)
	}
	text := strconv.FormatFloat(dollars, 'f', 6, 64)
	point := strings.IndexByte(text, '.')
	text = strings.TrimRight(text, "0")
	for len(text) < point+3 {
		text += "0"
	}
	if strings.Trim(text, "-0.") == "" {
		return "0.00" // what is left of -1e-9
	}
	return text
}

// Cents writes an amount of dollars with two decimals; one below half a cent as Price does, so that it is
// not taken for nothing.
func Cents(dollars float64) string {
	if math.Abs(dollars) < 0.005 {
		return Price(dollars)
	}
	return strconv.FormatFloat(dollars, 'f', 2, 64)
}

// Amount writes a sum of dollars: as Price does, without a point where the sum is whole.
func Amount(dollars float64) string { return strings.TrimSuffix(Price(dollars), ".00") }
