package exec_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

const patience = 30 * time.Second

// gone waits until nobody has a pipe open that is kept open by whoever lives.
func gone(t *testing.T, path string) {
	t.Helper()
	await(t, "all that was started has ended", func() bool {
		fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			syscall.Close(fd)
		}
		return errors.Is(err, syscall.ENXIO) // nobody reads it
	})
}

// appears waits for a file.
func appears(t *testing.T, path string) {
	t.Helper()
	await(t, path+" is there", func() bool { _, err := os.Stat(path); return err == nil })
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for begun := time.Now(); !done(); <-ticker.C {
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
