package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The files of a data directory.
const (
	lockFile    = "tonnage.lock"
	summaryFile = "last-run.txt"
)

// dataDir is the folder of one process: the lock keeps a second one out.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir creates the folder where it is missing and takes its lock.
func openDataDir(path string) (*dataDir, error) {
	wrong := func(err error) error {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err // the path is in the message already
		}
		return badInput(fmt.Errorf("--data-dir %s cannot be written: %w; name a folder that can be, or change its permissions", path, err))
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, wrong(err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, wrong(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, badInput(fmt.Errorf("--data-dir %s is in use by another tonnage; stop it, or name another folder", path))
	}
	return &dataDir{path, lock}, nil
}

// keep writes the run's summary where the next one can be compared with it.
func (d *dataDir) keep(summary string) error {
	return os.WriteFile(filepath.Join(d.path, summaryFile), []byte(summary), 0o644)
}

// close lets the folder go.
func (d *dataDir) close() { d.lock.Close() }
