package model

import "testing"

// TestDomainSum: shards and coordinators of different versions compare sums, so
// they never change; the order does not matter.
func TestDomainSum(t *testing.T) {
	sum := func(domains ...[2]string) (s DomainSum) {
		for _, d := range domains {
			s.Add(d[0], d[1])
		}
		return s
	}
	a, b := [2]string{"topology.kubernetes.io/zone", "a"}, [2]string{"topology.kubernetes.io/zone", "b"}
	if sum(a, b) != sum(b, a) || sum(a) == sum(b) || sum() != (DomainSum{}) {
		t.Error("sums do not stand for sets")
	}
	if sum([2]string{"ab", "c"}) == sum([2]string{"a", "bc"}) {
		t.Error("key and value run into each other")
	}
	if got := sum(a, b); got != (DomainSum{2, goldenDomains}) {
		t.Errorf("sum %d of %d domains, want %d", got.Hash, got.Count, goldenDomains)
	}
}

const goldenDomains uint64 = 14354840756978874619
