package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/private"
	"github.com/tonnage/tonnage/internal/world"
)

// The files of a data directory.
const (
	lockFile    = "tonnage.lock"
	summaryFile = "last-run.txt"
	// Inputs of cycles that gave two answers, by time and number.
	inputPrefix = "differs-"
	inputSuffix = ".json"
	// inputsMax is how many of those a folder holds. The first are kept: one
	// fault tends to show again and again, and each is as large as the fleet.
	inputsMax = 4
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
	if err := private.MkdirAll(path); err != nil {
		return nil, wrong(err)
	}
	lock, err := private.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, wrong(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, badInput(fmt.Errorf("--data-dir %s is in use by another tonnage; stop it, or name another folder", path))
	}
	return &dataDir{path, lock}, nil
}

// makeProfileDir creates the folder of --profile-dir; "" = none is wanted.
func makeProfileDir(path string) error {
	if path == "" {
		return nil
	}
	if err := private.MkdirAll(path); err != nil {
		return badInput(fmt.Errorf("--profile-dir: %w; name a folder that can be written", err))
	}
	return nil
}

// keep writes the run's summary where the next one can be compared with it.
func (d *dataDir) keep(summary string) error {
	return private.WriteFile(filepath.Join(d.path, summaryFile), []byte(summary))
}

// keepInput writes the input of a cycle as a world that `tonnage decide` reads,
// and returns the file; none when as many are there as may be. A half-written
// one is taken away again.
func (d *dataDir) keepInput(cycle uint64, in engine.Input, opts engine.Options) (kept string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return "", err
	}
	there := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), inputPrefix) && strings.HasSuffix(e.Name(), inputSuffix) {
			there++
		}
	}
	if there >= inputsMax {
		return "", fmt.Errorf("%s holds %d inputs already; move them elsewhere to have more kept", d.path, there)
	}
	name := fmt.Sprintf("%s%s-cycle-%d%s", inputPrefix, time.Unix(0, in.Now).UTC().Format("20060102T150405.000000000Z"), cycle, inputSuffix)
	f, err := private.OpenFile(filepath.Join(d.path, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return "", err
	}
	if err := errors.Join(world.WriteInput(f, in, opts), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// close lets the folder go.
func (d *dataDir) close() { d.lock.Close() }
