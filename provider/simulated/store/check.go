package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// ErrDamaged is returned for a file that is not what was written to it.
var ErrDamaged = errors.New("the file is damaged; restore it from a copy, or move it away to begin with new machines")

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
	return readable(func() error {
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

// readable turns a panic of who reads a damaged file into an error, and so a page
// that cannot be read at all.
func readable(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("%v: %w", what, ErrDamaged)
		}
	}()
	return read()
}
