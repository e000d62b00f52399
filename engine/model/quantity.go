package model

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// QuantityBytesMax is how long the text of a quantity may be, in bytes. No
// sensible one comes near; longer text is refused rather than computed with.
const QuantityBytesMax = 64

// DimensionCPU is the one dimension that is counted in thousandths.
const DimensionCPU = "cpu"

// The faults of a quantity's text.
var (
	errQuantitySyntax   = errors.New("is not a quantity; write a number such as 4, 1.5, 500m, 16Gi or 1e3")
	errQuantityNegative = errors.New("must not be negative")
	errQuantityLong     = fmt.Errorf("is not a quantity: longer than %d characters", QuantityBytesMax)
)

// Bytes reports whether amounts of a dimension are bytes, which are written
// with binary suffixes: memory, ephemeral-storage, storage and the hugepages.
func Bytes(dimension string) bool {
	switch dimension {
	case "memory", "ephemeral-storage", "storage":
		return true
	}
	return strings.HasPrefix(dimension, "hugepages-")
}

// ParseQuantity reads a Kubernetes quantity into the natural unit of a
// dimension: thousandths of a core for cpu, bytes for memory-like dimensions,
// counts for every other. What lies between two units is rounded up, what does
// not fit is math.MaxInt64. The error says what is wrong with the text, without
// repeating it.
//
// The grammar is the documented one: a number (digits with an optional point),
// then nothing, a decimal suffix (n u m k M G T P E), a binary suffix
// (Ki Mi Gi Ti Pi Ei) or a decimal exponent (e3, E-2).
func ParseQuantity(dimension, text string) (int64, error) {
	scale := uint64(1)
	if dimension == DimensionCPU {
		scale = 1000
	}
	if v, ok := parsePlain(text, scale); ok {
		return v, nil
	}
	return parseAny(text, scale)
}

// ParseQuantityBytes is ParseQuantity for bytes, of which it keeps nothing. It
// allocates only for forms that are rare on the wire: fractions, exponents,
// suffixes that divide.
func ParseQuantityBytes(dimension, text []byte) (int64, error) {
	scale := uint64(1)
	if string(dimension) == DimensionCPU {
		scale = 1000
	}
	if v, ok := parsePlain(text, scale); ok {
		return v, nil
	}
	return parseAny(string(text[:min(len(text), QuantityBytesMax+1)]), scale)
}

// parsePlain reads the forms of which nearly all input consists, without
// allocating: at most 18 digits, then nothing, m, or a suffix that multiplies.
func parsePlain[T string | []byte](text T, scale uint64) (int64, bool) {
	const digitsMax = 18 // 10^18 − 1 fits into an int64
	n := 0
	var v uint64
	for n < len(text) && text[n]-'0' <= 9 {
		v = v*10 + uint64(text[n]-'0')
		if n++; n > digitsMax {
			return 0, false
		}
	}
	if n == 0 {
		return 0, false
	}
	suffix := text[n:]
	if string(suffix) == "m" {
		if scale == 1 {
			v = (v + 999) / 1000
		}
		return int64(v), true
	}
	decimal, binary, ok := suffixOf(suffix)
	if !ok || decimal < 0 {
		return 0, false
	}
	return saturate(v, pow10(decimal)<<binary, scale), true
}

// suffixOf returns the powers of ten and of two that a suffix stands for.
func suffixOf[T string | []byte](s T) (decimal, binary int, ok bool) {
	switch string(s) {
	case "":
		return 0, 0, true
	case "n":
		return -9, 0, true
	case "u":
		return -6, 0, true
	case "m":
		return -3, 0, true
	case "k":
		return 3, 0, true
	case "M":
		return 6, 0, true
	case "G":
		return 9, 0, true
	case "T":
		return 12, 0, true
	case "P":
		return 15, 0, true
	case "E":
		return 18, 0, true
	case "Ki":
		return 0, 10, true
	case "Mi":
		return 0, 20, true
	case "Gi":
		return 0, 30, true
	case "Ti":
		return 0, 40, true
	case "Pi":
		return 0, 50, true
	case "Ei":
		return 0, 60, true
	}
	return 0, 0, false
}

// pow10 returns 10^n for 0 ≤ n ≤ 18.
func pow10(n int) uint64 {
	p := uint64(1)
	for ; n > 0; n-- {
		p *= 10
	}
	return p
}

// saturate returns a × b × c, math.MaxInt64 when that does not fit.
func saturate(a, b, c uint64) int64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return math.MaxInt64
	}
	hi, lo = bits.Mul64(lo, c)
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

// parseAny reads every form of the grammar, exactly.
func parseAny(text string, scale uint64) (int64, error) {
	if len(text) > QuantityBytesMax {
		return 0, errQuantityLong
	}
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	whole, rest := cutDigits(rest)
	var fraction string
	if after, ok := strings.CutPrefix(rest, "."); ok {
		fraction, rest = cutDigits(after)
	}
	if whole == "" && fraction == "" {
		return 0, errQuantitySyntax
	}
	decimal, binary, ok := suffixOf(rest)
	if !ok {
		if decimal, ok = exponentOf(rest); !ok {
			return 0, errQuantitySyntax
		}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, nil // "-0" too
	}
	if negative {
		return 0, errQuantityNegative
	}
	return ceiling(digits, decimal-len(fraction), binary, scale), nil
}

// cutDigits splits the decimal digits off the front of s.
func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && s[n]-'0' <= 9 {
		n++
	}
	return s[:n], s[n:]
}

// exponentOf reads a decimal exponent such as e3 or E-2. One too large to be
// told from infinity is brought down to a size that still is.
func exponentOf(s string) (int, bool) {
	if len(s) < 2 || (s[0] != 'e' && s[0] != 'E') {
		return 0, false
	}
	digits, rest := cutDigits(strings.TrimLeft(s[1:2], "+-") + s[2:])
	if digits == "" || rest != "" {
		return 0, false
	}
	const far = 10 * QuantityBytesMax
	e := far
	if d := strings.TrimLeft(digits, "0"); len(d) <= 3 {
		e, _ = strconv.Atoi("0" + d)
	}
	if s[1] == '-' {
		e = -e
	}
	return e, true
}

// ceiling returns digits × 10^decimal × 2^binary × scale, rounded up, where
// digits is a positive number.
func ceiling(digits string, decimal, binary int, scale uint64) int64 {
	// 2^60 × 1000 is below 10^22, so beyond these bounds the answer is plain
	// and the powers below stay small.
	if len(digits)+decimal > 20 {
		return math.MaxInt64
	}
	if len(digits)+decimal < -22 {
		return 1
	}
	v, _ := new(big.Int).SetString(digits, 10)
	v.Lsh(v, uint(binary))
	v.Mul(v, new(big.Int).SetUint64(scale))
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(decimal, -decimal))), nil)
	if decimal >= 0 {
		v.Mul(v, power)
	} else {
		rest := new(big.Int)
		if v.QuoRem(v, power, rest); rest.Sign() > 0 {
			v.Add(v, big.NewInt(1))
		}
	}
	if !v.IsInt64() {
		return math.MaxInt64
	}
	return v.Int64()
}

var (
	decimalSuffixes = [...]string{"", "k", "M", "G", "T", "P", "E"}
	binarySuffixes  = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)

// FormatQuantity writes an amount as Kubernetes does: no fraction, no digit
// lost, and the largest suffix that allows it; binary suffixes for bytes,
// decimal ones for everything else ("500m", "4", "1Gi", "1536Mi").
func FormatQuantity(dimension string, v int64) string {
	return string(AppendQuantity(nil, dimension, v))
}

// AppendQuantity appends FormatQuantity's text to b.
func AppendQuantity(b []byte, dimension string, v int64) []byte {
	if dimension == DimensionCPU {
		if v%1000 != 0 {
			return append(strconv.AppendInt(b, v, 10), 'm')
		}
		v /= 1000
	}
	base, suffixes := int64(1000), &decimalSuffixes
	if Bytes(dimension) && (v >= 1024 || v <= -1024) {
		base, suffixes = 1024, &binarySuffixes
	}
	n := 0
	for v != 0 && v%base == 0 && n+1 < len(suffixes) {
		v /= base
		n++
	}
	return append(strconv.AppendInt(b, v, 10), suffixes[n]...)
}

// ParseResources reads a map of quantities into a vector, and returns every
// fault with the dimension as its path. A dimension of zero is left out.
func ParseResources(quantities map[string]string) (Resources, []*FieldError) {
	var faults []*FieldError
	amounts := make([]Amount, 0, len(quantities))
	for name, text := range quantities {
		v, err := ParseQuantity(name, text)
		fault := CheckName(name)
		switch {
		case fault != nil:
			faults = append(faults, &FieldError{strconv.Quote(quoted(name)), "the name of a resource " + fault.Error()})
		case err != nil:
			faults = append(faults, &FieldError{name, fmt.Sprintf("%q %v", text, err)})
		default:
			amounts = append(amounts, Amount{name, v})
		}
	}
	slices.SortFunc(faults, func(a, b *FieldError) int { return strings.Compare(a.Path, b.Path) })
	return NewResources(amounts...), faults
}
