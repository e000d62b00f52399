package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/tonnage/tonnage/internal/private"
)

// The names of the files in the folder.
const (
	fileName    = "journal"
	newName     = "journal.new" // a map that is being written
	refusedName = "journal.refused"
)

const (
	// checkpointBytesMin is the least size at which a file is written anew;
	// beyond it, checkpointFactor times what the map takes.
	checkpointBytesMin = 1 << 20
	checkpointFactor   = 4
	// BytesMax bounds what the map may take; what would go beyond is refused.
	BytesMax = 512 << 20
)

var (
	errFull   = errors.New("the journal is full")
	errClosed = errors.New("the journal is closed")
)

// Journal is a map on disk. Safe for concurrent use.
type Journal struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	live    map[string][]byte
	bytes   int64  // that live takes as frames
	pending []byte // frames that are not written yet
	set     uint64 // position of the last change
	durable uint64 // position up to which everything is on disk
	failed  error  // why the last write failed
	lost    bool   // frames were lost: pending is void until the map is written
	changed chan struct{}
	wake    chan struct{}
	closed  bool

	// Of the writing goroutine.
	file *os.File
	size int64
	done chan struct{}
}

// Open reads the journal of a folder, which must be there, and starts to write
// to it. A torn tail is cut off; a file that is no journal is put aside, and
// logged. The error says that the folder cannot be written.
func Open(dir string, log *slog.Logger) (*Journal, error) {
	j := &Journal{
		dir: dir, log: log, live: map[string][]byte{},
		changed: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("journal in %s: %w", dir, err)
	}
	for k, v := range j.live {
		j.bytes += frameSize(k, v)
	}
	go j.write()
	return j, nil
}

func frameSize(key string, value []byte) int64 { return int64(frameBytes + 2 + len(key) + len(value)) }

func (j *Journal) path(name string) string { return filepath.Join(j.dir, name) }

func (j *Journal) open() error {
	content, err := os.ReadFile(j.path(fileName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	good, err := read(content, j.live)
	if err != nil {
		j.log.Error("the journal cannot be read and is put aside: idle clocks and reservations begin anew", "file", j.path(fileName), "aside", refusedName, "error", err)
		if err := os.Rename(j.path(fileName), j.path(refusedName)); err != nil {
			return err
		}
	} else if good < len(content) {
		j.log.Info("the journal's tail was torn and is cut off", "bytes", len(content)-good)
	}
	if j.file, err = private.OpenFile(j.path(fileName), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	if good == 0 {
		if _, err := j.file.WriteAt([]byte(header), 0); err != nil {
			return err
		}
		good = len(header)
	}
	if err := errors.Join(j.file.Truncate(int64(good)), j.file.Sync(), syncDir(j.dir)); err != nil {
		return err
	}
	j.size = int64(good)
	_, err = j.file.Seek(j.size, 0)
	return err
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Set remembers a value under a key; an empty one forgets the key. It returns
// the position to wait for with Durable; 0 when nothing changes. The value is
// copied.
func (j *Journal) Set(key string, value []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	old, there := j.live[key]
	if there == (len(value) > 0) && bytes.Equal(old, value) {
		return 0
	}
	grows := frameSize(key, value)
	if there {
		grows -= frameSize(key, old)
	}
	if j.closed || len(key) > KeyBytesMax || len(value) > ValueBytesMax || len(value) > 0 && j.bytes+grows > BytesMax {
		return j.refuse(key)
	}
	if len(value) == 0 {
		delete(j.live, key)
		j.bytes -= frameSize(key, old)
	} else {
		j.live[key] = bytes.Clone(value)
		j.bytes += grows
	}
	j.set++
	if !j.lost { // else all of the map is going to be written
		j.pending = appendFrame(j.pending, key, value)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return j.set
}

// refuse drops a change. Whoever waits for it hears of the failure.
func (j *Journal) refuse(key string) uint64 {
	if !j.closed {
		j.log.Error("the journal has no room; what is not kept begins anew after a restart", "key", key, "error", errFull)
	}
	return 0
}

// Durable waits until what was set up to a position is on disk. The error is
// that of the last write, or the context's.
func (j *Journal) Durable(ctx context.Context, position uint64) error {
	for {
		j.mu.Lock()
		durable, failed, changed, closed := j.durable, j.failed, j.changed, j.closed
		j.mu.Unlock()
		switch {
		case durable >= position:
			return nil
		case failed != nil:
			return failed
		case closed:
			return errClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// All calls visit for every key there is, in no order.
func (j *Journal) All(visit func(key string, value []byte)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for k, v := range j.live {
		visit(k, v)
	}
}

// Failed returns why the last write failed, nil when it did not.
func (j *Journal) Failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Close writes what is pending and ends the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.wake)
	j.mu.Unlock()
	<-j.done
	return errors.Join(j.Failed(), j.file.Close())
}
