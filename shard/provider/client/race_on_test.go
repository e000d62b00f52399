//go:build race

package client_test

// manyMachines is how many a large listing has; it takes the race detector
// half a minute to watch a full-sized one.
const manyMachines = 10_000
