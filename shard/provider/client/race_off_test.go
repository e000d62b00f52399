//go:build !race

package client_test

const manyMachines = 100_000
