package terminal

import (
	"math"
	"testing"
)

func TestPricesAreWrittenAsPrices(t *testing.T) {
	for _, c := range []struct {
		of            float64
		price, amount string
	}{
		{0, "0.00", "0"}, {12, "12.00", "12"}, {0.2, "0.20", "0.20"}, {0.1 + 0.2, "0.30", "0.30"}, {3.28, "3.28", "3.28"},
		{0.0116, "0.0116", "0.0116"}, {0.00000049, "0.00", "0"}, {-1e-9, "0.00", "0"}, {-3.5, "-3.50", "-3.50"},
		{8388608, "8388608.00", "8388608"}, {100, "100.00", "100"}, {math.Inf(1), "+Inf", "+Inf"},
	} {
		if got := Price(c.of); got != c.price {
			t.Errorf("Price(%v) = %q, want %q", c.of, got, c.price)
		}
		if got := Amount(c.of); got != c.amount {
			t.Errorf("Amount(%v) = %q, want %q", c.of, got, c.amount)
		}
	}
}

func TestCents(t *testing.T) {
	for of, want := range map[float64]string{0: "0.00", 65.4425: "65.44", 9.8: "9.80", 0.2: "0.20", 0.0116: "0.01", 0.004: "0.004", -0.001: "-0.001", -1e-9: "0.00", 156.979389: "156.98", math.Inf(1): "+Inf"} {
		if got := Cents(of); got != want {
			t.Errorf("Cents(%v) = %q, want %q", of, got, want)
		}
	}
}
