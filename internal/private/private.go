// Package private creates files and folders that only the user of the process
// can read. What a fleet keeps on disk names clusters, machines and prices, and
// some of it decides what a process does: neither is for other users.
//
// The modes do not depend on the umask. A folder that is there already keeps its
// mode. A file that is there already and that others can read or write gets
// FileMode when it is opened; one that is for owner and group only keeps its
// mode, since that is what an administrator has given it, for example so that a
// log shipper can read an audit log.
package private

import (
	"errors"
	"os"
)

// The modes of what is created.
const (
	FileMode   os.FileMode = 0o600
	FolderMode os.FileMode = 0o700
)

// others is the part of a mode that is not for owner and group.
const others os.FileMode = 0o007

// OpenFile opens a file as os.OpenFile does, with FileMode if it is created.
// The error is that of the file system, or says that others can read the file
// and that this cannot be changed.
func OpenFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, FileMode)
	if err != nil {
		return nil, err
	}
	if err := tighten(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// tighten takes a file that is there already away from others.
func tighten(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&others == 0 {
		return nil // a pipe or a device is not ours
	}
	return f.Chmod(FileMode)
}

// WriteFile writes a file as os.WriteFile does.
func WriteFile(path string, content []byte) error {
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// MkdirAll creates a folder and the folders above it that are missing.
func MkdirAll(path string) error { return os.MkdirAll(path, FolderMode) }
