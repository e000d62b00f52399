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

// Amount writes a sum of dollars: as Price does, without a point where the sum is whole.
func Amount(dollars float64) string { return strings.TrimSuffix(Price(dollars), ".00") }
