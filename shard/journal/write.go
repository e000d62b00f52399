package journal

import (
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/internal/disk"
)

const (
	// retryEvery is how long the goroutine waits after a failure of the disk.
	retryEvery = 5 * time.Second
	// checkpointPortion is how many keys are read at a time.
	checkpointPortion = 1024
)

// write is the goroutine that owns the file.
func (j *Journal) write() {
	defer close(j.done)
	for range j.wake {
		j.flush()
		for j.Failed() != nil && !j.pause() {
			j.finish(j.begin(), j.checkpoint())
		}
		if j.tooLong() {
			j.finish(j.begin(), j.checkpoint())
		}
	}
	if j.Failed() == nil {
		j.flush() // what came while the last write was under way
	}
}

// pause waits before the disk is tried again; true = the journal is closed.
func (j *Journal) pause() bool {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	for {
		select {
		case _, open := <-j.wake:
			if !open {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

// begin returns the position that the map is at when it is about to be written.
// What is set from here on gathers again, and follows the map.
func (j *Journal) begin() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lost = false
	return j.set
}

// flush writes what is pending.
func (j *Journal) flush() {
	j.mu.Lock()
	frames, position, image := j.pending, j.set, j.guard.image()
	j.pending = nil
	j.mu.Unlock()
	if len(frames) > 0 || image != nil {
		j.finish(position, j.put(frames, image))
	}
}

// put has a batch of frames and then the guarded keys on disk, and appends the batch's
// commit frame. That frame is synced with the next batch: it only has to come behind
// what is on disk.
func (j *Journal) put(frames []byte, image *guard) error {
	if len(frames) == 0 {
		return image.write(j.fs, j.dir)
	}
	if image != nil {
		frames = append(guardFrame(image.sequence), frames...)
	}
	if err := j.append(frames); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	if err := image.write(j.fs, j.dir); err != nil {
		return err
	}
	return j.append(commitFrame(int64(len(frames)), crc32.Checksum(frames, sums)))
}

// append writes to the end of the file.
func (j *Journal) append(b []byte) error {
	n, err := j.file.Write(b)
	j.size += int64(n)
	return err
}

// finish tells those who wait how a write ended.
func (j *Journal) finish(position uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		if j.failed == nil {
			j.log.Error("the journal cannot be written; after a crash, idle clocks and reservations would begin anew", "dir", j.dir, "error", err)
		}
		j.pending, j.lost, j.guard.dirty = nil, true, true // the whole map is written next
	} else {
		if j.failed != nil {
			j.log.Info("the journal is written again", "dir", j.dir)
		}
		j.durable = max(j.durable, position)
	}
	j.failed = err
	close(j.changed)
	j.changed = make(chan struct{})
}

// tooLong tells whether the file should be written anew.
func (j *Journal) tooLong() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed == nil && j.size > max(checkpointBytesMin, checkpointFactor*j.bytes)
}

// checkpoint writes the guarded keys, then the map to a new file, and puts that in the
// old one's place. After a failure of the disk it is what makes good for the lost
// writes.
func (j *Journal) checkpoint() (err error) {
	j.mu.Lock()
	image := j.guard.image()
	j.mu.Unlock()
	if err := image.write(j.fs, j.dir); err != nil {
		return err
	}
	f, err := j.fs.Create(j.path(newName))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	size, err := j.writeMap(f)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := j.fs.Rename(j.path(newName), j.path(fileName)); err != nil {
		return err
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close() // nothing of it is needed any more
	}
	j.file, j.size = f, size
	return nil
}

// writeMap writes header, map and commit frame. A change during that time is in the
// map, or among the frames that follow, or in both.
func (j *Journal) writeMap(f disk.File) (size int64, err error) {
	put := func(b []byte) {
		if err == nil {
			var n int
			n, err = f.Write(b)
			size += int64(n)
		}
	}
	put([]byte(header))
	j.mu.Lock()
	keys := slices.Collect(maps.Keys(j.live))
	j.mu.Unlock()
	var portion []byte
	sum := uint32(0)
	for some := range slices.Chunk(keys, checkpointPortion) {
		portion = portion[:0]
		j.mu.Lock()
		for _, k := range some {
			if v, ok := j.live[k]; ok {
				portion = appendFrame(portion, k, v)
			}
		}
		j.mu.Unlock()
		put(portion)
		sum = crc32.Update(sum, sums, portion)
	}
	put(commitFrame(size-int64(len(header)), sum))
	return size, err
}
