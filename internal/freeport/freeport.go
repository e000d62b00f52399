// Package freeport finds ports of loopback for processes that tests start and
// that must be told where to listen, above all those that are started again on
// the same port.
//
// Asking the kernel for port 0 and closing the listener does not do: the same
// port may be handed out again before the process has taken it, to another test
// or as the near end of somebody's connection. So ports are taken from below the
// range from which connections get theirs, and each is locked for as long as the
// process of the test lives.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Ports are looked for in [first, end): below 32768, where the ports begin that
// Linux gives to connections (ip(7), ip_local_port_range).
const (
	first = 20000
	end   = 32000
)

// dialMax is how long loopback may take to say that nobody listens.
const dialMax = time.Second

var (
	mu   sync.Mutex
	next = first + os.Getpid()*97%(end-first)
	held []*os.File // locked until the process ends
)

// Take returns an address of loopback, "127.0.0.1:port", on which nobody listens
// and which no other caller is given, in this process or another one of this
// user, until this process ends.
func Take(t testing.TB) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	dir := filepath.Join(os.TempDir(), "tonnage-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range end - first {
		port := next
		if next++; next == end {
			next = first
		}
		if address, ok := try(t, dir, port); ok {
			return address
		}
	}
	t.Fatalf("all ports of 127.0.0.1 from %d to %d are in use", first, end-1)
	return ""
}

// TakeN returns n addresses, as [Take] does.
func TakeN(t testing.TB, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		out[i] = Take(t)
	}
	return out
}

// try locks a port, if nobody else has it.
func try(t testing.TB, dir string, port int) (string, bool) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return "", false
	}
	address := fmt.Sprint("127.0.0.1:", port)
	if !isFree(address) {
		f.Close()
		return "", false
	}
	held = append(held, f)
	return address, true
}

// isFree reports whether nobody listens on an address. It does not try to listen:
// a process that another test starts at that moment would have the listener too,
// until it runs its own program, and the port would be in use for as long.
func isFree(address string) bool {
	conn, err := net.DialTimeout("tcp", address, dialMax)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
