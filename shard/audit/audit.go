// Package audit writes what a shard did, and what it decided and did not do, as
// one JSON object a line. A file that has grown to its limit is renamed and a
// new one begun; a few old ones are kept.
//
// Write never waits: records go through a bounded queue to one goroutine, and
// what the queue has no room for is dropped and counted. A cycle is not held up
// by a slow disk, nor stopped by a full one.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/internal/private"
)

// The limits of a log.
const (
	// FileBytesDefault is how large a file grows.
	FileBytesDefault = 64 << 20
	// FilesKept is how many full files are kept beside the one being written:
	// PATH.1 is the youngest.
	FilesKept = 5
	// QueueMax is how many records may wait to be written.
	QueueMax = 1 << 16
)

// Log is a log of records of one type. Safe for concurrent use.
type Log[T any] struct {
	path  string
	limit int64
	log   *slog.Logger
	queue chan *T
	done  chan struct{}

	mu      sync.RWMutex // guards closing the queue
	closed  bool
	dropped atomic.Int64

	// Of the writing goroutine.
	file   *os.File
	out    *bufio.Writer
	size   int64
	failed bool
}

// Open opens the log at path for appending. Files are made for the owner only
// (package private); one that is there already with a mode for its group keeps
// it, and so do those that follow it. The size limit is the size in bytes at which
// a file is full, 0 = FileBytesDefault.
func Open[T any](path string, limit int64, log *slog.Logger) (*Log[T], error) {
	if limit <= 0 {
		limit = FileBytesDefault
	}
	l := &Log[T]{path: path, limit: limit, log: log, queue: make(chan *T, QueueMax), done: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	go l.run()
	return l, nil
}

func (l *Log[T]) open() error {
	f, err := private.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size, l.out = f, size, bufio.NewWriterSize(f, 1<<16)
	return nil
}

// Write queues a record, which must not change any more. It never waits.
func (l *Log[T]) Write(record *T) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		l.dropped.Add(1)
		return
	}
	select {
	case l.queue <- record:
	default:
		l.dropped.Add(1)
	}
}

// Dropped returns how many records are lost: the queue was full, or the file
// could not be written.
func (l *Log[T]) Dropped() int64 { return l.dropped.Load() }

// Close writes what is queued and closes the file.
func (l *Log[T]) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	<-l.done
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func (l *Log[T]) run() {
	defer close(l.done)
	for record := range l.queue {
		l.note(l.append(record))
		if len(l.queue) == 0 && l.out != nil {
			l.note(l.out.Flush())
		}
	}
}

// note logs the first of a row of failures. What was lost is counted.
func (l *Log[T]) note(err error) {
	if err != nil {
		l.dropped.Add(1)
		if !l.failed {
			l.log.Error("the audit log cannot be written; records are lost", "file", l.path, "error", err)
		}
		if l.file != nil {
			l.file.Close()
		}
		l.file, l.out = nil, nil // tried again with the next record
	}
	l.failed = err != nil
}

func (l *Log[T]) append(record *T) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.limit {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.out.Write(line)
	l.size += int64(n)
	return err
}

// rotate makes the file PATH.1, the one before PATH.2 and so on. The new file has
// the mode of the one before.
func (l *Log[T]) rotate() error {
	info, err := l.file.Stat()
	err = errors.Join(err, l.out.Flush(), l.file.Close())
	l.file, l.out = nil, nil
	if err != nil {
		return err
	}
	for i := FilesKept; i > 0; i-- {
		from := l.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err := os.Rename(from, l.path+"."+strconv.Itoa(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := l.open(); err != nil {
		return err
	}
	return l.file.Chmod(info.Mode().Perm())
}
