//go:build race

package handover

// stride is how many steps the next crash is on: everything is slow here, and
// there is one goroutine.
const stride = 9
