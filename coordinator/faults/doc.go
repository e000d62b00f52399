// Package faults holds tests of the coordinator as it is run: three processes of
// the real binary, on loopback or in network namespaces, with calls going on
// while replicas are killed, stopped and cut off.
//
// The short runs are part of the tests; -soak makes them longer and adds faults
// one after the other (make soak-coordinator). Cutting replicas off needs root,
// iproute2 and nftables, and fails with the remedy where they are missing;
// TONNAGE_NO_NETNS=1 leaves it out.
package faults
