package snapshot

import (
	"fmt"
	"slices"
)

// diff says where two snapshots of the same tables disagree, in what they show;
// nil when nowhere.
func diff(a, b *Snapshot) error {
	for _, x := range []struct {
		what  string
		equal bool
	}{
		{"dimensions", slices.Equal(a.Dims, b.Dims)},
		{"id order", slices.Equal(a.Order, b.Order)},
		{"keep order", slices.Equal(a.Keep, b.Keep)},
		{"classes", slices.EqualFunc(a.Classes, b.Classes, sameClass)},
		{"vectors", slices.Equal(a.ClassVec, b.ClassVec)},
		{"ranks of prices", slices.Equal(a.PriceRank, b.PriceRank)},
		{"usable classes", slices.Equal(a.Usable, b.Usable)},
		{"clusters", slices.Equal(a.Clusters, b.Clusters)},
		{"clusters of names", slices.Equal(a.ClusterOf, b.ClusterOf)},
		{"Configured counts", slices.Equal(a.configured, b.configured)},
		{"bound counts", slices.Equal(a.creatingFrom, b.creatingFrom)},
	} {
		if !x.equal {
			return fmt.Errorf("they disagree about %s", x.what)
		}
	}
	for c := range a.Classes {
		if !slices.Equal(a.Idle.At(c), b.Idle.At(c)) || !slices.Equal(a.Speculative.At(c), b.Speculative.At(c)) {
			return fmt.Errorf("class %d has free machines %v and %v, and %v and %v", c, a.Idle.At(c), a.Speculative.At(c), b.Idle.At(c), b.Speculative.At(c))
		}
	}
	for c := range a.Clusters {
		if !slices.Equal(a.BoundOf(c), b.BoundOf(c)) || !slices.Equal(a.GroupsOf(c), b.GroupsOf(c)) {
			return fmt.Errorf("cluster %s has machines %v, and %v", a.Clusters[c], a.BoundOf(c), b.BoundOf(c))
		}
	}
	return nil
}

func sameClass(a, b Class) bool {
	return a.Price == b.Price && a.Probability == b.Probability && a.InstanceType == b.InstanceType && a.Live == b.Live &&
		slices.Equal(a.Matchers, b.Matchers)
}
