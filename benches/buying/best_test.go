package buying

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tonnage/tonnage/engine"
)

// TestFindBest: what is known to be the least, machines that are too large for a table, and pods that cannot be cut.
func TestFindBest(t *testing.T) {
	small, large := Type{Name: "small", Capacity: Pod{4000, 4096, 0, 110}, Price: 1}, Type{Name: "large", Capacity: Pod{8000, 16384, 0, 110}, Price: 2.5}
	lean, rich := Pod{1000, 1024, 0, 1}, Pod{1000, 3072, 0, 1}
	repeat := func(p Pod, n int) (out []Pod) {
		for range n {
			out = append(out, p)
		}
		return out
	}
	for says, c := range map[string]struct {
		types []Type
		pods  []Pod
		cost  float64
	}{
		"whole machines of lean pods": {[]Type{small, large}, repeat(lean, 8), 2},
		"the last is half empty":      {[]Type{small}, repeat(lean, 6), 2},
		"one holds five rich pods":    {[]Type{large}, repeat(rich, 5), 2.5},
		"rich and lean together":      {[]Type{large}, append(repeat(rich, 4), repeat(lean, 4)...), 2.5},
		"at most so many pods":        {[]Type{{Name: "few", Capacity: Pod{4000, 4096, 0, 2}, Price: 1}}, repeat(lean, 4), 2},
	} {
		b, err := FindBest(c.types, c.pods)
		if err != nil {
			t.Fatal(err)
		}
		if b.Found != c.cost || b.Least > c.cost+1e-9 || b.Least <= 0 {
			t.Errorf("%s: %+v, want %v", says, b, c.cost)
		}
	}
	if _, err := FindBest([]Type{small}, []Pod{rich, {9000, 1024, 0, 1}}); err == nil {
		t.Error("a pod that fits nowhere is no error")
	}
	if _, err := FindBest([]Type{small}, []Pod{{1000, 1024, 1, 1}}); err == nil {
		t.Error("a pod with a GPU is no error")
	}
}

// TestBestOfAFeed: what is bought costs no less than the least, and what is found lies between.
func TestBestOfAFeed(t *testing.T) {
	var types []Type
	for _, x := range catalogue(t, regions[0]) {
		family, size, _ := strings.Cut(x.Name, ".")
		if slices.Contains([]string{"c5", "m5", "r5"}, family) && slices.Contains([]string{"large", "xlarge", "2xlarge"}, size) {
			types = append(types, x)
		}
	}
	pods, err := Feed("tiny", 200, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := FindBest(types, pods)
	if err != nil {
		t.Fatal(err)
	}
	linear, err := Bound(types, pods)
	if err != nil {
		t.Fatal(err)
	}
	bought := run(t, types, "tiny", 200, 1, engine.AcquireFit, Packed)
	t.Logf("linear bound $%.2f, least $%.2f, found $%.2f, bought $%.2f", linear, b.Least, b.Found, bought.Spend)
	if b.Least < linear || b.Found < b.Least || b.Found > 1.15*b.Least || bought.Spend < b.Least {
		t.Errorf("least %v, found %v, bought %v, linear bound %v", b.Least, b.Found, bought.Spend, linear)
	}
}

// TestWholeBest prints how far above the linear bound a fleet must be, the best that is found is, and what is bought.
func TestWholeBest(t *testing.T) {
	if !*whole {
		t.Skip("-whole makes the table")
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "region\tfeed\tpods\tat least %\tfound %\tbought %")
	eachFeed(t, func(region Region, types []Type, kind string, n int) {
		var least, found, bought float64
		for seed := range uint64(*seeds) {
			pods, err := Feed(kind, n, seed)
			if err != nil {
				t.Fatal(err)
			}
			b, err := FindBest(types, pods)
			if err != nil {
				t.Fatalf("%s, %s, seed %d: %v", region.Name, kind, seed, err)
			}
			r := run(t, types, kind, n, seed, engine.AcquireFit, Packed)
			least, found, bought = least+b.Least/r.Bound-1, found+min(b.Found, r.Spend)/r.Bound-1, bought+r.Over()
		}
		of := float64(*seeds) / 100
		fmt.Fprintf(out, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\n", region.Name, kind, n, least/of, found/of, bought/of)
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBeginAgain: where the inverse is wrong, a dive may take a machine on which no pod fits that is left. It places one once the
// program has started again.
func TestBeginAgain(t *testing.T) {
	types := []Type{{Name: "small", Capacity: Pod{4000, 4096, 0, 110}, Price: 1}, {Name: "large", Capacity: Pod{8000, 16384, 0, 110}, Price: 3}}
	c, err := newCutting(types, []Pod{{1000, 1024, 0, 1}, {8000, 1024, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	c.left[0] = 0
	for _, row := range c.inverse {
		clear(row)
	}
	c.price()
	found := &Best{}
	if c.dive(found); found.Machines != 0 {
		t.Fatalf("%+v: the inverse is not wrong enough", found)
	}
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	c.price()
	if left := c.dive(found); left || found.Machines != 1 {
		t.Errorf("%+v, and pods are left: %v", found, left)
	}
}
