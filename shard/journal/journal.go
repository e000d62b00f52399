package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tonnage/tonnage/internal/disk"
)

// The names of the files in the folder.
const (
	fileName = "journal"
	newName  = "journal.new" // a map that is being written
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

// Options are what a journal is opened with.
type Options struct {
	FS    disk.FS
	Log   *slog.Logger
	Guard Guard
	// Restarted says that a process has used the folder before: a journal that is
	// not there was lost.
	Restarted bool
}

// Journal is a map on disk. Safe for concurrent use.
type Journal struct {
	fs    disk.FS
	dir   string
	log   *slog.Logger
	first bool // nobody has used the folder before

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
	guard   guard

	// Of the writing goroutine.
	file disk.File
	size int64
	done chan struct{}
}

// Open reads the journal of a folder, which must be there, and starts to write
// to it. A torn tail is cut off; a damaged file is kept aside, and logged. The error
// says that the folder cannot be read or written.
func Open(dir string, o Options) (*Journal, error) {
	j := &Journal{
		fs: o.FS, dir: dir, log: o.Log, first: !o.Restarted, guard: guard{Guard: o.Guard},
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
	content, err := j.fs.ReadFile(j.path(fileName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r := read(content, j.guard.Prefix)
	if r.damagedAt >= 0 {
		j.log.Error("the journal is damaged: of idle clocks, reservations and machines that changed their shard, what the damaged part said is forgotten; see docs/reliability.md",
			"file", j.path(fileName), "at", r.damagedAt, "bytes", len(content), "kept", len(r.live))
		if err := j.keepAside(fileName, content); err != nil {
			return err
		}
	}
	if err := j.openGuard(&r); err != nil {
		return err
	}
	j.live = r.live
	if r.damagedAt >= 0 {
		return j.checkpoint()
	}
	return j.openFile(content, &r)
}

// openFile goes on with a file that is in order, behind its last whole frame.
func (j *Journal) openFile(content []byte, r *reading) (err error) {
	if j.file, err = j.fs.Append(j.path(fileName)); err != nil {
		return err
	}
	if err := j.file.Truncate(int64(r.good)); err != nil {
		return err
	}
	if r.good < len(content) {
		j.log.Info("the journal's tail was torn and is cut off", "bytes", len(content)-r.good)
	}
	var rest []byte // not committed yet
	if r.good == 0 {
		if err := j.append([]byte(header)); err != nil {
			return err
		}
	} else {
		j.size = int64(r.good)
		rest = content[max(r.committed, len(header)):r.good]
	}
	if err := errors.Join(j.file.Sync(), j.fs.SyncDir(j.dir)); err != nil {
		return err
	}
	if len(rest) == 0 {
		return nil
	}
	return j.append(commitFrame(int64(len(rest)), crc32.Checksum(rest, sums)))
}

// Set remembers a value under a key; an empty one forgets the key. It returns
// the position to wait for with Durable; 0 when nothing changes. The value is
// copied. Keys that begin with a NUL are refused.
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
	if j.closed || len(key) > KeyBytesMax || strings.HasPrefix(key, ownPrefix) || len(value) > ValueBytesMax || len(value) > 0 && j.bytes+grows > BytesMax {
		return j.refuse(key)
	}
	if len(value) == 0 {
		delete(j.live, key)
		j.bytes -= frameSize(key, old)
	} else {
		value = bytes.Clone(value)
		j.live[key] = value
		j.bytes += grows
	}
	if hasGuard(j.guard.Prefix, key) {
		j.guard.set(key, value)
	}
	j.set++
	if !j.lost { // else all of the map is going to be written
		j.pending = appendFrame(j.pending, key, value)
	}
	j.wakeUp()
	return j.set
}

// wakeUp has the goroutine write.
func (j *Journal) wakeUp() {
	if j.closed {
		return
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
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
	if err := j.Failed(); err != nil {
		return errors.Join(err, j.file.Close())
	}
	return errors.Join(j.file.Sync(), j.file.Close()) // the last commit frame, too
}
