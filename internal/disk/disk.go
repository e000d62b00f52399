// Package disk is the small part of a file system that the files of a data folder
// are written through, so that tests can put one below them that crashes.
//
// # What is durable
//
// What a file holds is durable when Sync has returned, and a name when SyncDir of
// its folder has. Before that, a crash leaves any prefix of what was written since,
// and the old name, the new one or neither. Package disktest keeps to exactly that.
package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/tonnage/tonnage/internal/private"
)

// FS is a file system. Errors of files that are not there wrap os.ErrNotExist.
type FS interface {
	ReadFile(path string) ([]byte, error)
	// Append opens a file, which is created when it is not there; writes go to its end.
	Append(path string) (File, error)
	// Create opens an empty file in place of what is there.
	Create(path string) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// Names returns the names in a folder.
	Names(dir string) ([]string, error)
	SyncDir(dir string) error
}

// File is a file that is written.
type File interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// OS is the file system of the machine. Files that it creates are for their owner
// only; see package private.
var OS FS = system{}

type system struct{}

func (system) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

func (system) Append(path string) (File, error) {
	return private.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

func (system) Create(path string) (File, error) {
	return private.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Remove(path string) error     { return os.Remove(path) }

func (system) Names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// tempSuffix ends the name of a file that Replace writes.
const tempSuffix = ".tmp"

// Replace puts a file with the content in the place of another: after a crash at
// any moment either the old one is there or the new one, and the new one once
// Replace has returned nil.
func Replace(fs FS, path string, content []byte) error {
	w, err := fs.Create(path + tempSuffix)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Sync(), w.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+tempSuffix, path); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(path))
}
