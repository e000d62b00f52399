package policy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/internal/world/document"
)

// ReadEvery is how often a file of policy is looked at.
const ReadEvery = time.Second

// File is a policy in a file that may change. While the file cannot be read, or is
// at fault, the last good policy holds. Safe for concurrent use.
type File struct {
	path    string
	log     *slog.Logger
	current atomic.Pointer[Policy]
	good    atomic.Bool
	text    []byte // as last read
	fault   string // as last logged
}

// Open reads the file at a path. The error names what is wrong with it.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	text, p, err := f.read()
	if err != nil {
		return nil, err
	}
	f.text = text
	f.current.Store(p)
	f.good.Store(true)
	return f, nil
}

func (f *File) read() ([]byte, *Policy, error) {
	from, err := os.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, document.JSONBytesMax+1))
	if err != nil {
		return nil, nil, err
	}
	p, err := Parse(text)
	if err != nil {
		return text, nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return text, p, nil
}

// Of returns a cluster's limits by the last good policy.
func (f *File) Of(cluster string) Limits { return f.current.Load().Of(cluster) }

// Good reports whether the file was in order when it was last looked at.
func (f *File) Good() bool { return f.good.Load() }

// Run reads the file every ReadEvery until ctx ends, and calls changed after it has
// taken a new policy over. Contents are compared, since a file that is replaced by
// a link, as in a ConfigMap, may keep its time and size.
func (f *File) Run(ctx context.Context, changed func()) error {
	ticker := time.NewTicker(ReadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if f.again() {
				changed()
			}
		}
	}
}

// again reads the file, and reports whether there is a new policy.
func (f *File) again() bool {
	text, p, err := f.read()
	if err != nil {
		f.good.Store(false)
		if says := err.Error(); says != f.fault {
			f.fault = says
			f.log.Error("policy not taken over; the one before stays in force", "error", err)
		}
		return false
	}
	mended := f.fault != ""
	f.fault = ""
	f.good.Store(true)
	if bytes.Equal(text, f.text) {
		if mended {
			f.log.Info("policy is in order again", "file", f.path)
		}
		return false
	}
	f.text = text
	f.current.Store(p)
	f.log.Info("policy taken over", "file", f.path, "clusters", len(p.clusters))
	return true
}
