//go:build !race

package handover

// stride is how many steps the next crash is on: each has one.
const stride = 1
