package freeport

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// child has the test's binary print what it is given.
const child = "TONNAGE_FREEPORT_CHILD"

func TestTakenOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, address := range TakeN(t, 100) {
		if seen[address] {
			t.Errorf("%s is given twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// TestOtherProcess: what this process was given, another one is not, though
// nobody listens there.
func TestOtherProcess(t *testing.T) {
	if os.Getenv(child) != "" {
		next = first
		t.Log("given", TakeN(t, 3))
		return
	}
	mine := map[string]bool{}
	mu.Lock()
	next = first
	mu.Unlock()
	for _, address := range TakeN(t, 3) {
		mine[address] = true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, list, ok := strings.Cut(string(out), "given [")
	list, _, _ = strings.Cut(list, "]")
	if theirs := strings.Fields(list); !ok || len(theirs) != 3 {
		t.Fatalf("printed %s", out)
	}
	for _, address := range strings.Fields(list) {
		if mine[address] {
			t.Errorf("%s is given to two processes", address)
		}
	}
}

// TestFreeWhileProcessesStart: a port that was given is free at once, whatever other
// tests start at that moment.
func TestFreeWhileProcessesStart(t *testing.T) {
	var starting sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := exec.Command(os.Args[0], "-test.run=^$").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 500 {
		l, err := net.Listen("tcp", Take(t))
		if err != nil {
			t.Error(err)
			break
		}
		l.Close()
	}
	close(over)
	starting.Wait()
}
