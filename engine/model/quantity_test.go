package model

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseQuantity(t *testing.T) {
	for _, c := range []struct {
		dimension, text string
		want            int64
	}{
		{"cpu", "4", 4000},
		{"cpu", "500m", 500},
		{"cpu", "1.5", 1500},
		{"cpu", "0.0001", 1}, // rounded up
		{"cpu", "1u", 1},
		{"cpu", "100n", 1},
		{"cpu", "2k", 2_000_000},
		{"cpu", "1e3", 1_000_000},
		{"cpu", "1E-1", 100},
		{"cpu", "1E", math.MaxInt64},
		{"memory", "16Gi", 16 << 30},
		{"memory", "1073741824", 1 << 30},
		{"memory", "1048576Ki", 1 << 30},
		{"memory", "1.5Gi", 3 << 29},
		{"memory", "0.1Ki", 103}, // 102.4 rounded up
		{"memory", "128M", 128_000_000},
		{"memory", "1500m", 2},
		{"memory", "8Ei", math.MaxInt64}, // one byte too many
		{"memory", "7Ei", 7 << 60},
		{"nvidia.com/gpu", "8", 8},
		{"nvidia.com/gpu", "500m", 1},
		{"nvidia.com/gpu", "+3", 3},
		{"nvidia.com/gpu", "3.", 3},
		{"nvidia.com/gpu", ".5", 1},
		{"pods", "0", 0},
		{"pods", "-0", 0},
		{"pods", "0e99999999999999", 0},
		{"pods", "1e99999999999999", math.MaxInt64},
		{"pods", "1e-99999999999999", 1},
		{"pods", "9223372036854775807", math.MaxInt64},
		{"pods", "9223372036854775808", math.MaxInt64},
		{"cpu", "9223372036854775807", math.MaxInt64},
		{"pods", "000000000000000000000000012", 12},
		{"pods", "1000000000000000000000e-18", 1000},
	} {
		got, err := ParseQuantity(c.dimension, c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseQuantity(%q, %q) = %d, %v; want %d", c.dimension, c.text, got, err, c.want)
		}
		compareBytes(t, c.dimension, c.text)
	}
}

func TestParseQuantityRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "not a quantity",
		"4x":                     "not a quantity",
		"x":                      "not a quantity",
		"Gi":                     "not a quantity",
		".":                      "not a quantity",
		"+":                      "not a quantity",
		"--1":                    "not a quantity",
		"1 Gi":                   "not a quantity",
		" 1":                     "not a quantity",
		"1gi":                    "not a quantity",
		"1K":                     "not a quantity",
		"1mi":                    "not a quantity",
		"1e":                     "not a quantity",
		"1e+":                    "not a quantity",
		"1e--3":                  "not a quantity",
		"1e1.5":                  "not a quantity",
		"1e3Ki":                  "not a quantity",
		"1.2.3":                  "not a quantity",
		"0x10":                   "not a quantity",
		"1_000":                  "not a quantity",
		"NaN":                    "not a quantity",
		"Inf":                    "not a quantity",
		"١":                      "not a quantity", // a digit, but not an ASCII one
		"-1":                     "negative",
		"-1n":                    "negative",
		strings.Repeat("1", 100): "longer than 64",
	} {
		if v, err := ParseQuantity("cpu", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseQuantity(%q) = %d, %v; want an error with %q", text, v, err, want)
		}
		compareBytes(t, "cpu", text)
	}
}

// compareBytes: bytes are read as a string is.
func compareBytes(t *testing.T, dimension, text string) {
	t.Helper()
	want, wantErr := ParseQuantity(dimension, text)
	if got, err := ParseQuantityBytes([]byte(dimension), []byte(text)); got != want || !errors.Is(err, wantErr) {
		t.Errorf("ParseQuantityBytes(%q, %q) = %d, %v; a string is %d, %v", dimension, text, got, err, want, wantErr)
	}
}

// TestParseQuantityBytesAllocatesNothing: not for what is common on the wire.
func TestParseQuantityBytesAllocatesNothing(t *testing.T) {
	for dimension, text := range map[string]string{"cpu": "1500m", "memory": "16Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "128M"} {
		d, b := []byte(dimension), []byte(text)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := ParseQuantityBytes(d, b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s of %s: %v allocations", text, dimension, n)
		}
	}
}

func TestFormatQuantity(t *testing.T) {
	for _, c := range []struct {
		dimension string
		v         int64
		want      string
	}{
		{"cpu", 0, "0"},
		{"cpu", 500, "500m"},
		{"cpu", 4000, "4"},
		{"cpu", 1500, "1500m"},
		{"cpu", 1_000_000, "1k"},
		{"memory", 1 << 30, "1Gi"},
		{"memory", 3 << 29, "1536Mi"},
		{"memory", 1000, "1k"},
		{"memory", 1500, "1500"},
		{"memory", math.MaxInt64, "9223372036854775807"},
		{"hugepages-2Mi", 2 << 20, "2Mi"},
		{"ephemeral-storage", 1 << 40, "1Ti"},
		{"nvidia.com/gpu", 8, "8"},
		{"pods", 110, "110"},
		{"pods", 2_000_000, "2M"},
	} {
		if got := FormatQuantity(c.dimension, c.v); got != c.want {
			t.Errorf("FormatQuantity(%q, %d) = %q, want %q", c.dimension, c.v, got, c.want)
		}
	}
}

func TestParseResourcesNamesEveryFault(t *testing.T) {
	got, faults := ParseResources(map[string]string{"cpu": "2", "memory": "4x", "a": "-1", "pods": "0"})
	if want := NewResources(Amount{"cpu", 2000}); !got.Equal(want) {
		t.Errorf("resources = %v, want %v", got, want)
	}
	if len(faults) != 2 || faults[0].Path != "a" || faults[1].Path != "memory" {
		t.Errorf("faults = %v, want a and memory", faults)
	}
}

func TestPlainQuantitiesDoNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		for _, text := range []string{"4", "3900m", "16Gi", "128M", "8"} {
			if _, err := ParseQuantity("cpu", text); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// peer computes what the Kubernetes library makes of a text: the value in the
// dimension's unit, rounded up, saturating.
func peer(dimension, text string) (int64, bool) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, false
	}
	d := q.AsDec()
	v := new(big.Rat).SetInt(d.UnscaledBig())
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.Scale(), -d.Scale()))), nil)
	if d.Scale() >= 0 {
		v.Quo(v, new(big.Rat).SetInt(power))
	} else {
		v.Mul(v, new(big.Rat).SetInt(power))
	}
	if dimension == "cpu" {
		v.Mul(v, big.NewRat(1000, 1))
	}
	n, rest := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	if !n.IsInt64() {
		return math.MaxInt64, true
	}
	return n.Int64(), true
}

// comparePeer checks one text against the Kubernetes library.
func comparePeer(t *testing.T, dimension, text string) {
	t.Helper()
	got, err := ParseQuantity(dimension, text)
	want, ok := peer(dimension, text)
	switch {
	case err == nil && !ok:
		t.Errorf("ParseQuantity(%q, %q) = %d, the Kubernetes library refuses it", dimension, text, got)
	case err == nil && got != want:
		t.Errorf("ParseQuantity(%q, %q) = %d, the Kubernetes library says %d", dimension, text, got, want)
	case err != nil && ok && want >= 0 && !errors.Is(err, errQuantityNegative) && strings.ContainsAny(text, "0123456789") && !digitless(text):
		t.Errorf("ParseQuantity(%q, %q): %v, the Kubernetes library says %d", dimension, text, err, want)
	}
}

// digitless recognises what the library takes for zero although the documented
// grammar asks for a digit: "Ki", "+m", ".e3".
func digitless(text string) bool {
	number := strings.TrimPrefix(strings.TrimLeft(text, "+-"), ".")
	return number == "" || number[0]-'0' > 9
}

func TestQuantityAgreesWithKubernetes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	suffixes := []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e12", "e-12", "e0", "K", "x", "ki", "e"}
	dimensions := []string{"cpu", "memory", "nvidia.com/gpu"}
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('0' + rng.IntN(10))
		}
		return string(b)
	}
	for range 20_000 {
		text := []string{"", "", "", "", "+", "-"}[rng.IntN(6)] + digits(rng.IntN(21))
		if rng.IntN(3) == 0 {
			text += "." + digits(rng.IntN(12))
		}
		text += suffixes[rng.IntN(len(suffixes))]
		comparePeer(t, dimensions[rng.IntN(len(dimensions))], text)
	}
	for range 20_000 {
		v := rng.Int64() >> rng.IntN(63)
		if rng.IntN(2) == 0 {
			v = v >> 20 << rng.IntN(20)
		}
		if got, want := FormatQuantity("memory", v), resource.NewQuantity(v, resource.BinarySI).String(); got != want {
			t.Errorf("FormatQuantity(memory, %d) = %s, want %s", v, got, want)
		}
		if got, want := FormatQuantity("pods", v), resource.NewQuantity(v, resource.DecimalSI).String(); got != want {
			t.Errorf("FormatQuantity(pods, %d) = %s, want %s", v, got, want)
		}
		if got, want := FormatQuantity("cpu", v), resource.NewMilliQuantity(v, resource.DecimalSI).String(); got != want {
			t.Errorf("FormatQuantity(cpu, %d) = %s, want %s", v, got, want)
		}
		for _, d := range dimensions {
			if back, err := ParseQuantity(d, FormatQuantity(d, v)); err != nil || back != v {
				t.Errorf("%s: %d became %s and then %d, %v", d, v, FormatQuantity(d, v), back, err)
			}
		}
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, text := range []string{"4", "500m", "1.5Gi", "1e3", "-1", ".5", "9223372036854775808", "1E", "1e-19"} {
		f.Add("cpu", text)
		f.Add("memory", text)
	}
	f.Fuzz(func(t *testing.T, dimension, text string) {
		compareBytes(t, dimension, text)
		if len(text) > 24 {
			return // the library's own arithmetic has no bounds
		}
		for _, e := range []string{"e", "E"} {
			if i := strings.Index(text, e); i >= 0 && len(text)-i > 5 {
				return // it truncates exponents beyond 32 bits
			}
		}
		comparePeer(t, dimension, text)
	})
}
