package kubee2e

import "testing"

// TestKarpenter has a fleet whose machines Karpenter makes go through demand that comes, moves and preempts, machines
// that the cloud takes back, capacity that is out, and provider, shard and Karpenter that are killed.
func TestKarpenter(t *testing.T) {
	want(t, "karpenter")
	f := newKarpenterFleet(t)
	f.journey()
	f.checkWrites("nodeclaims")
}
