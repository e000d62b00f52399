package main

import (
	"bytes"
	"strings"
	"sync"
)

// syncBuffer takes what a command writes while a test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// promtoolExcused tells whether a complaint of promtool is about a name that is
// not ours to choose: those of the protocol, and of the Go runtime.
func promtoolExcused(line string) bool {
	return strings.HasPrefix(line, "bigfleet_") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_")
}
