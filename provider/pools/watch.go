package pools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/tonnage/tonnage/internal/world/document"
)

// ReadEvery is how often the files are looked at.
const ReadEvery = time.Second

func readAll(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, document.JSONBytesMax+1))
	if err == nil && len(text) > document.JSONBytesMax {
		err = fmt.Errorf("the file is longer than %d MiB", document.JSONBytesMax>>20)
	}
	return text, err
}

// Watched is a pools file that may change. While it cannot be read, or is at fault, the last
// good content stays in force.
type Watched struct {
	path  string
	log   *slog.Logger
	check func(*File) error
	texts [][]byte // as last taken over or refused
	fault string   // as last logged
}

// Watch reads the pools file at a path, and returns what it says. check is asked before a
// content is taken over; it may be nil.
func Watch(path string, check func(*File) error, log *slog.Logger) (*Watched, *File, error) {
	w := &Watched{path: path, log: log, check: check}
	if w.check == nil {
		w.check = func(*File) error { return nil }
	}
	f, texts, err := load(path)
	if err == nil {
		err = w.check(f)
	}
	w.texts = texts
	return w, f, err
}

// Run looks at the files until ctx ends, and calls changed with each new content. Contents are
// compared, since a file that is replaced by a link, as in a ConfigMap, may keep its time and
// size. refused is called for each content that is not taken over.
func (w *Watched) Run(ctx context.Context, changed func(*File), refused func(error)) error {
	tick := time.NewTicker(ReadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch f, err := w.again(); {
		case err != nil:
			w.log.Error("pools are not taken over; those before stay in force", "error", err)
			refused(err)
		case f != nil:
			changed(f)
		}
	}
}

// again reads the files; nil and no error = there is nothing new to say.
func (w *Watched) again() (*File, error) {
	f, texts, err := load(w.path)
	if err == nil {
		if slices.EqualFunc(texts, w.texts, bytes.Equal) && w.fault == "" {
			return nil, nil
		}
		err = w.check(f)
	}
	if err != nil {
		if says := err.Error(); says != w.fault {
			w.fault = says
			return nil, err
		}
		return nil, nil
	}
	same := slices.EqualFunc(texts, w.texts, bytes.Equal)
	w.texts, w.fault = texts, ""
	if same {
		w.log.Info("the pools file is in order again", "file", w.path)
		return nil, nil
	}
	return f, nil
}

// Checkers returns a check of Watch: each driver kind is known, and each offer is one that its driver
// could make.
func Checkers(kinds []string, of func(d *Driver, p *Pool) error) func(*File) error {
	return func(f *File) error {
		var all []error
		for i := range f.Drivers {
			d := &f.Drivers[i]
			if !slices.Contains(kinds, d.Kind) {
				all = append(all, fmt.Errorf("drivers[%d].kind: there is no kind %s; known are %v", i, document.Quote(d.Kind), kinds))
				continue
			}
			for k := range f.Pools {
				if p := &f.Pools[k]; p.Driver == d.Name {
					if err := of(d, p); err != nil {
						all = append(all, fmt.Errorf("pools[%d]: %w", k, err))
					}
				}
			}
		}
		return errors.Join(all...)
	}
}
