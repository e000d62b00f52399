// Package boltfile opens files of bbolt that may be damaged. bbolt trusts what it finds, and
// ends the process where a page is missing; here a file is read as a whole before it is written to.
package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	// ErrDamaged is returned for a file that is not what was written to it.
	ErrDamaged = errors.New("the file is damaged; restore it from a copy, or move it away to begin with new machines")
	// ErrInUse is returned for a file that another process has open.
	ErrInUse = errors.New("in use by another process")
)

// lockTimeout is how long another process is given to let go of a file.
const lockTimeout = time.Second

// Open opens a file for writing, or makes a new one. The error wraps ErrDamaged or ErrInUse, or is the
// system's.
func Open(path string) (*bbolt.DB, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return nil, opened(err)
	}
	return db, nil
}

// opened says what an error of bbolt's Open means: one that is not the system's is
// about what the file holds.
func opened(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrInUse
	}
	if _, system := errors.AsType[syscall.Errno](err); system {
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrDamaged)
}

// check looks at a file before it is opened for writing: bbolt trusts what it finds,
// and ends the process where a page is missing. A file that is not there is in order,
// an empty one is not: it would be filled with machines for the second time.
func check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("it is empty, because it was cut off or because its first start did not end: %w", ErrDamaged)
	}
	return Readable(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
		if err != nil {
			return opened(err)
		}
		return errors.Join(db.View(func(tx *bbolt.Tx) error { return checkPages(tx, info.Size()) }), db.Close())
	})
}

// checkPages reads all records in this goroutine, where a fault can be caught: when
// bbolt opens the file for writing, it looks for free pages in another one.
func checkPages(tx *bbolt.Tx, size int64) error {
	if tx.Size() > size {
		return fmt.Errorf("it has %d bytes of %d: %w", size, tx.Size(), ErrDamaged)
	}
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		seek := b.Cursor()
		return b.ForEach(func(k, v []byte) error {
			read := crc32.ChecksumIEEE(v) // reads all of it
			if found, again := seek.Seek(k); !bytes.Equal(found, k) || crc32.ChecksumIEEE(again) != read {
				return fmt.Errorf("%q is not found again: %w", k, ErrDamaged)
			}
			return nil
		})
	})
}

// Readable turns a panic during the read of a damaged file, or of a page that
// cannot be read, into an error.
func Readable(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("%v: %w", what, ErrDamaged)
		}
	}()
	return read()
}
