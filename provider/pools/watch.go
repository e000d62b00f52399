package pools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
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
		err = w.checked(f, texts)
	}
	w.texts = texts
	return w, f, err
}

// ReadChecked is Read of a file that is checked, too.
func ReadChecked(path string, check func(*File) error) (*File, error) {
	_, f, err := Watch(path, check, slog.New(slog.DiscardHandler))
	return f, err
}

// checked returns what check says of a file, with the places of its faults.
func (w *Watched) checked(f *File, texts [][]byte) error {
	err := w.check(f)
	if e, ok := errors.AsType[*Error](err); ok {
		for i := range e.Faults {
			x := &e.Faults[i]
			x.File = w.path
			x.Line, x.Column, _ = document.Locate(texts[0], x.Path)
		}
	}
	return err
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
		err = w.checked(f, texts)
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

// Checkers returns a check of Watch: each driver's kind is known and its config is one, and each offer is one that its
// driver could make. The error is an *Error.
func Checkers(kinds []string, config func(*Driver) error, offers func(*Driver, *Pool) error) func(*File) error {
	return func(f *File) error {
		e := &Error{}
		for i := range f.Drivers {
			d := &f.Drivers[i]
			at := fmt.Sprintf("drivers[%d]", i)
			if !slices.Contains(kinds, d.Kind) {
				e.Faults = append(e.Faults, Fault{Path: at + ".kind", Msg: fmt.Sprintf("there is no kind %s; known are %v", document.Quote(d.Kind), kinds)})
				continue
			}
			if err := config(d); err != nil {
				e.addIn(at+".config", err)
				continue
			}
			for k := range f.Pools {
				if p := &f.Pools[k]; p.Driver == d.Name {
					if err := offers(d, p); err != nil {
						e.addIn(fmt.Sprintf("pools[%d]", k), err)
					}
				}
			}
		}
		if len(e.Faults) == 0 {
			return nil
		}
		return e
	}
}

// pathBefore is a path in front of a message, as readers of configs write it: "config.url: …", "command[0]: …".
var pathBefore = regexp.MustCompile(`(?s)^([a-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_/-]+|\[\d+\])*): (.+)$`)

// addIn adds the faults of one part of the file, which lies at a path. Where a message of a driver's config begins with a path of its
// own, that is a path in the config.
func (e *Error) addIn(at string, err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			e.addIn(at, one)
		}
		return
	}
	msg := err.Error()
	if m := pathBefore.FindStringSubmatch(msg); m != nil && strings.HasSuffix(at, ".config") {
		under := strings.TrimPrefix(strings.TrimPrefix(m[1], "config"), ".")
		if msg = m[2]; under != "" {
			at += "." + under
		}
	}
	e.Faults = append(e.Faults, Fault{Path: at, Msg: msg})
}
