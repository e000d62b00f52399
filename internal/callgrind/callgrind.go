// Package callgrind tells valgrind's tool callgrind which instructions to count.
//
// Callgrind can also be told to count within a function (--toggle-collect). It finds
// out by the stack pointer where the function ends, and a Go program moves that
// pointer to another stack whenever the runtime does something of its own: callgrind
// then takes the function for ended, and counts what runs outside of it instead.
package callgrind
