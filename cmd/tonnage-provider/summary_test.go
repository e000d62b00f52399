package main

import (
	"testing"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

// The line at the start says what the file declares, in whole words.
func TestSummary(t *testing.T) {
	one := []*driver.Offer{{}}
	for _, c := range []struct {
		pools  []pools.Pool
		listed int
		want   string
	}{
		{nil, 0, "0 pools; 0 machines and slots listed so far,"},
		{[]pools.Pool{{Owned: true, Machines: 10, Offers: one}}, 0, "1 pool, 10 owned hosts; 0 machines and slots listed so far,"},
		{[]pools.Pool{{Owned: true, Machines: 1, Offers: one}, {Machines: 1, Offers: one}}, 1, "2 pools, 1 owned host, at most 1 bought machine; 1 machine or slot listed so far,"},
		{[]pools.Pool{{Machines: 500, Offers: one}, {Machines: 7, Offers: one}}, 128, "2 pools, at most 507 bought machines; 128 machines and slots listed so far,"},
	} {
		if got := summary(&pools.File{Pools: c.pools}, c.listed); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
