package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// TestASignalEndsACoordinatorThatCannotStart: a coordinator that waits for a file which
// another process has locked ends on a signal like any other. The test starts a process,
// since the wait itself lasts as long as the process.
func TestASignalEndsACoordinatorThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := os.OpenFile(filepath.Join(dir, "member", "snap", "db"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := unix.Flock(int(db.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p := processtest.Start(t, "coordinator", "--bootstrap", "--listen="+freeport.Take(t), "--metrics-addr=0", "--raft-bind="+freeport.Take(t), "--data-dir="+dir)
	processtest.Eventually(t, patience, "it starts", func() bool { return strings.Contains(p.Log(), "starts a group of its own") })
	if err := p.Stop(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, p.Log())
	}
}
