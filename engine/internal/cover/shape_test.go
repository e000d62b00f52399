package cover

import (
	"math"
	"testing"
)

// TestShapeCounts: what an offer counts for, by hand. Want is 10 of each row, ε is 0.
func TestShapeCounts(t *testing.T) {
	for _, x := range []struct {
		says string
		has  []int64
		want []float64
	}{
		{"its own shape counts in full", []int64{4, 4}, []float64{0.4, 0.4}},
		{"of a small surplus a fifth does not", []int64{5, 4}, []float64{0.4 + 0.8*0.1, 0.4}},
		{"of a large one its cube does not", []int64{8, 1}, []float64{0.8 * (1 - 0.875*0.875*0.875), 0.1}},
		{"what a machine has nothing of is not its shape", []int64{8, 0}, []float64{0.8 * 0.8, 0}},
		{"more than is wanted counts as what is", []int64{30, 10}, []float64{1, 1}},
	} {
		c := New(LambdaDefault, 0)
		c.p = &Problem{Unit: []int64{0, 0}}
		c.work.rows, c.work.want, c.lin.rows = []int{0, 1}, []int64{10, 10}, 2
		c.shape(&Offer{Has: x.has})
		for i, want := range x.want {
			if math.Abs(c.lin.value[i]-want) > 1e-12 {
				t.Errorf("%s: row %d counts for %v, want %v", x.says, i, c.lin.value[i], want)
			}
		}
	}
}

// TestShapeIsMonotone: more of a row, with some of each, counts for no less in any, and no row for more than three times the
// scarcest.
func TestShapeIsMonotone(t *testing.T) {
	c := New(LambdaDefault, 0)
	c.p = &Problem{Unit: []int64{0, 0}}
	value := func(a, b int64) (float64, float64) {
		c.lin.value, c.work.has = c.lin.value[:0], c.work.has[:0]
		c.work.rows, c.work.want, c.lin.rows = []int{0, 1}, []int64{100, 100}, 2
		c.shape(&Offer{Has: []int64{a, b}})
		return c.lin.value[0], c.lin.value[1]
	}
	for a := int64(1); a < 100; a++ {
		for b := int64(1); b <= 100; b++ {
			x, y := value(a, b)
			moreX, moreY := value(a+1, b)
			if moreX < x-1e-12 || moreY < y-1e-12 || x > 3*float64(min(a, b))/100+1e-12 {
				t.Fatalf("%d and %d count for %v and %v, one more for %v and %v", a, b, x, y, moreX, moreY)
			}
		}
	}
}

// TestDominatedCountsForNoMore: a column with next to nothing of a row has as much as one with nothing of it, and
// counts for less. It does not stand in for that one.
func TestDominatedCountsForNoMore(t *testing.T) {
	c := New(LambdaDefault, 0)
	c.p = &Problem{Unit: []int64{0, 0}}
	c.work.rows, c.work.want, c.lin.rows = []int{0, 1}, []int64{100, 100}, 2
	for _, has := range [][]int64{{80, 1}, {80, 0}, {80, 1}} {
		c.shape(&Offer{Has: has})
	}
	c.work.ample = []int{0}
	if c.isDominated(1) {
		t.Error("80 and 1 stand in for 80 and 0, which count for more")
	}
	if !c.isDominated(2) {
		t.Error("80 and 1 do not stand in for 80 and 1")
	}
}
