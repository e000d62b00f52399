// Package worst keeps execution traces of the slowest cycles.
package worst

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tonnage/tonnage/internal/private"
)

// A cycle that was slow cannot be profiled afterwards, and the next one may not
// be slow. So the runtime's flight recorder keeps what happened in the last
// seconds in memory, and when a cycle has taken too long that is written out:
// which goroutine ran when, what it waited for, what the collector did, and the
// stages, which the labels put into the trace. The files of the slowest cycles
// are kept. Recording costs one or two percent of the processor.

const (
	// Kept is how many traces a folder keeps: those of the slowest cycles.
	Kept = 8
	// MinDefault is from when on a cycle is slow.
	MinDefault = 100 * time.Millisecond
	// BytesMax bounds one trace; one that grows beyond it is not kept.
	BytesMax = 32 << 20
	// window is how far back the recorder reaches, while windowBytes
	// suffice for it.
	window      = 10 * time.Second
	windowBytes = BytesMax / 2
)

// Cycles keeps the traces of the slowest cycles in a folder, those of earlier
// processes included. A nil *Cycles keeps nothing.
type Cycles struct {
	dir   string
	min   time.Duration
	log   *slog.Logger
	write func(io.Writer) (int64, error) // what was recorded

	mu      sync.Mutex
	kept    []traceFile // slowest first, at most Kept
	busy    bool        // one is being written
	writing sync.WaitGroup
}

// traceFile is a file of the folder.
type traceFile struct {
	name  string
	nanos int64 // of the cycle
}

// fileName is the name of a trace: the cycle's microseconds, its time, its
// number. Other files of the folder are left alone.
var fileName = regexp.MustCompile(`^cycle-(\d{12})us-\d{8}T\d{6}Z-\d+\.trace(\.new)?$`)

func nameOf(number uint64, now, nanos int64) string {
	const microsMax = 999_999_999_999 // what the name has room for: eleven days
	return fmt.Sprintf("cycle-%012dus-%s-%d.trace", min(nanos/int64(time.Microsecond), microsMax), time.Unix(0, now).UTC().Format("20060102T150405Z"), number)
}

// New opens the folder, and makes it if need be.
func New(dir string, least time.Duration, log *slog.Logger) (*Cycles, error) {
	if err := private.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("folder for traces of slow cycles: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("folder for traces of slow cycles: %w", err)
	}
	w := &Cycles{dir: dir, min: least, log: log}
	for _, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		switch {
		case m == nil || !e.Type().IsRegular():
		case m[2] != "": // its writer was interrupted
			w.remove(e.Name())
		default:
			micros, _ := strconv.ParseInt(m[1], 10, 64) // twelve digits
			w.keep(traceFile{e.Name(), micros * int64(time.Microsecond)})
		}
	}
	return w, nil
}

// Record starts the recorder; stop ends it, after what is being written. There
// is one recorder in a process: where another one runs, nothing is kept.
func (w *Cycles) Record() (stop func()) {
	if w == nil {
		return func() {}
	}
	r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: window, MaxBytes: windowBytes})
	if err := r.Start(); err != nil {
		w.log.Warn("no traces of slow cycles are kept", "error", err)
		return func() {}
	}
	w.mu.Lock()
	w.write = r.WriteTo
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.write = nil
		w.mu.Unlock()
		w.writing.Wait()
		r.Stop()
	}
}

// Took tells how long a cycle took. Writing goes on without the caller; a slow
// cycle that comes meanwhile is not kept.
func (w *Cycles) Took(number uint64, now, nanos int64) {
	if w == nil || nanos < int64(w.min) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.write == nil || w.busy || len(w.kept) == Kept && nanos <= w.kept[Kept-1].nanos {
		return
	}
	w.busy = true
	write := w.write
	w.writing.Go(func() { w.save(traceFile{nameOf(number, now, nanos), nanos}, write) })
}

// save writes a trace and takes it among those that are kept.
func (w *Cycles) save(t traceFile, write func(io.Writer) (int64, error)) {
	err := w.saveAs(t.name, write)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	if err != nil {
		w.log.Warn("the trace of a slow cycle is not kept", "error", err)
		return
	}
	w.log.Warn("slow cycle", "took", time.Duration(t.nanos), "trace", filepath.Join(w.dir, t.name))
	w.keep(t)
}

// saveAs writes under another name first, so that what has the name is whole.
func (w *Cycles) saveAs(name string, write func(io.Writer) (int64, error)) error {
	path := filepath.Join(w.dir, name)
	f, err := private.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = write(&limited{to: f, left: BytesMax})
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		w.remove(name + ".new")
	}
	return err
}

// keep takes a trace among the kept, and gives up the least bad beyond
// Kept.
func (w *Cycles) keep(t traceFile) {
	at, _ := slices.BinarySearchFunc(w.kept, t, func(a, b traceFile) int { return cmp.Compare(b.nanos, a.nanos) })
	w.kept = slices.Insert(w.kept, at, t)
	for len(w.kept) > Kept {
		w.remove(w.kept[Kept].name)
		w.kept = w.kept[:Kept]
	}
}

func (w *Cycles) remove(name string) {
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.log.Warn("a trace that is not to be kept stays", "error", err)
	}
}

// limited refuses what goes beyond its limit.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, fmt.Errorf("more than %d MiB", BytesMax>>20)
	}
	l.left -= len(p)
	return l.to.Write(p)
}
