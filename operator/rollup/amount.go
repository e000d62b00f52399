package rollup

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tonnage/tonnage/engine/model"
)

// milliSafe is the largest number of cores whose thousandths surely fit.
const milliSafe = math.MaxInt64 / 1000

// units returns a quantity in the engine's unit of a resource, rounded up.
func units(name string, q *resource.Quantity) (int64, error) {
	n, ok := q.AsInt64()
	switch {
	case ok && n < 0:
		return 0, ErrQuantity
	case ok && name != model.DimensionCPU:
		return n, nil
	case ok && n <= milliSafe:
		return n * 1000, nil
	case name == model.DimensionCPU && q.CmpInt64(milliSafe) < 0 && q.Sign() >= 0:
		return q.MilliValue(), nil
	}
	return unitsOfText(name, q)
}

// unitsOfText is units for quantities that are rare: fractions of pieces, and
// what does not fit.
//
//go:noinline
func unitsOfText(name string, q *resource.Quantity) (int64, error) {
	n, err := model.ParseQuantity(name, q.String())
	if err != nil {
		return 0, ErrQuantity
	}
	return n, nil
}

// text writes an amount as shards read it fastest.
func text(name string, n int64) string {
	if name != model.DimensionCPU {
		return strconv.FormatInt(n, 10)
	}
	if n%1000 == 0 {
		return strconv.FormatInt(n/1000, 10)
	}
	return strconv.FormatInt(n, 10) + "m"
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
