package epoch

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/disk"
	"github.com/tonnage/tonnage/internal/private"
)

// The files of a data folder.
const (
	fileName = "epoch"
	copyName = "epoch.copy"
	lockName = "epoch.lock"
)

// ErrInUse is returned for a folder that another process has open.
var ErrInUse = errors.New("in use by another process")

// The metadata of a call by which a shard asks the provider to hold its epoch against all of its
// calls, not only those of the machine: a process that was replaced must not touch other
// machines either. Providers that do not know it fence each machine by itself, as the protocol says.
const (
	FenceKey   = "tonnage-fence"
	FenceShard = "shard"
)

// Token says which attempt of which process a call is.
type Token struct {
	Epoch    int64 // ≥ 1
	Sequence int64 // ≥ 1, never used twice in an epoch
}

// File is the epoch of this process. Safe for concurrent use.
type File struct {
	fs   disk.FS
	dir  string
	lock *os.File

	mu       sync.Mutex
	epoch    int64
	sequence int64
}

// Open creates the folder where it is missing, and takes the next epoch of it.
// The error wraps ErrInUse when another process has it, and names the file when
// what it says is no epoch.
func Open(dir string) (*File, error) {
	if err := private.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	lock, err := private.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("epoch: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("epoch: folder %s: %w; stop it, or name another folder", dir, ErrInUse)
	}
	f := &File{fs: disk.OS, dir: dir, lock: lock}
	if err := f.advance(); err != nil {
		lock.Close()
		return nil, err
	}
	return f, nil
}

// Close lets the folder go. The epoch stays what it is.
func (f *File) Close() error { return f.lock.Close() }

// Epoch returns this process's epoch.
func (f *File) Epoch() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch
}

// Next returns the token of one attempt of one call.
func (f *File) Next() Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	return Token{f.epoch, f.sequence}
}

// Reread looks at the file again. A number above this process's epoch was put
// there by an administrator, since the lock keeps other processes out: the
// process takes the next one, and true is returned. Otherwise nothing changes.
func (f *File) Reread() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	there, err := f.read()
	if err != nil || there <= f.epoch {
		return false, err
	}
	return true, f.advanceLocked()
}

func (f *File) advance() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.advanceLocked()
}

// advanceLocked takes the number after the one in the file.
func (f *File) advanceLocked() error {
	last, err := f.read()
	if err != nil {
		return err
	}
	if err := f.write(last + 1); err != nil {
		return fmt.Errorf("epoch: cannot write the next epoch to %s: %w", f.dir, err)
	}
	f.epoch, f.sequence = last+1, 0
	return nil
}

// read returns the last epoch, 0 when there is none. A number in the file that is
// lower than that of the copy is damaged, or an old one that somebody has put back.
func (f *File) read() (int64, error) {
	there, err := f.parse(fileName)
	if err != nil {
		return 0, err
	}
	if again, err := f.parse(copyName); err == nil { // else advance writes the copy anew
		there = max(there, again)
	}
	return there, nil
}

// parse returns the number in a file, 0 when there is no file.
func (f *File) parse(name string) (int64, error) {
	path := filepath.Join(f.dir, name)
	text, err := f.fs.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("epoch: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 {
		return 0, fmt.Errorf("epoch: %s holds %.40q, which is no epoch; write the last known one there, or a number that is surely higher", path, text)
	}
	return n, nil
}

// write has the number on disk when it returns, or leaves the old one there.
func (f *File) write(n int64) error {
	for _, name := range [...]string{fileName, copyName} {
		if err := disk.Replace(f.fs, filepath.Join(f.dir, name), strconv.AppendInt(nil, n, 10)); err != nil {
			return err
		}
	}
	return nil
}
