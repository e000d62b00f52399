package mtls

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
)

// fileBytesMax bounds each file that is read: certificates, keys and deny-lists
// are far smaller.
const fileBytesMax = 4 << 20

// source is a value that is made of files, and made again when one of them
// changes. A change that cannot be used is logged once, and the last good value
// stays in use. It is not safe for concurrent use.
type source[T any] struct {
	what  string // it holds, for the log
	files []string
	parse func() (T, error) // reads the files

	value T
	seen  []fs.FileInfo // what the files looked like before they were read
	fault string        // why the files as they are now are not used; "" = they are
}

// read makes the value from the files, even when they have not changed.
func (s *source[T]) read() error {
	seen := make([]fs.FileInfo, len(s.files))
	var faults []error
	for i, name := range s.files {
		info, err := os.Stat(name)
		seen[i], faults = info, append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	value, err := s.parse()
	if err != nil {
		return err
	}
	s.value, s.seen = value, seen
	return nil
}

// current returns the value of the files as they are, or the last good one.
func (s *source[T]) current(log *slog.Logger) T {
	if !s.changed() {
		s.fault = ""
		return s.value
	}
	if err := s.read(); err != nil {
		if s.fault != err.Error() {
			s.fault = err.Error()
			log.Warn("a changed file cannot be used; its last good content stays in use", "holds", s.what, "error", err)
		}
		return s.value
	}
	s.fault = ""
	log.Info("a changed file was read again", "holds", s.what, "files", s.files)
	return s.value
}

func (s *source[T]) changed() bool {
	for i, name := range s.files {
		if !same(name, s.seen[i]) {
			return true
		}
	}
	return false
}

// same tells whether a file is as it was. A file that a link now leads to is
// another one even when it was written at the same time.
func same(name string, was fs.FileInfo) bool {
	is, err := os.Stat(name)
	return err == nil && os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) && is.Size() == was.Size()
}

// readFile reads a file of at most fileBytesMax.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > fileBytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, fileBytesMax)
	}
	return text, nil
}
