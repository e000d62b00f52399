package journal

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Keys that begin with a NUL are the journal's own. They are never in the map, and
// their frames have no value: a reader that does not know them forgets a key that
// is not there.
const (
	ownPrefix    = "\x00"
	commitPrefix = ownPrefix + "commit"
	guardPrefix  = ownPrefix + "guard"
)

// commitFrame returns the frame that follows a batch once the batch is synced. Its
// key holds the batch's length and checksum.
func commitFrame(length int64, sum uint32) []byte {
	key := binary.LittleEndian.AppendUint64([]byte(commitPrefix), uint64(length))
	return appendFrame(nil, string(binary.LittleEndian.AppendUint32(key, sum)), nil)
}

// guardFrame returns the frame that stands before a batch with guarded keys. Its key
// holds the sequence number of the file that will have them.
func guardFrame(sequence uint64) []byte {
	return appendFrame(nil, string(binary.LittleEndian.AppendUint64([]byte(guardPrefix), sequence)), nil)
}

// reading is what a journal's file holds.
type reading struct {
	live    map[string][]byte
	guarded string // prefix of the guarded keys, empty = there are none
	// good is how many bytes from the beginning are whole frames, damaged ones that
	// could be skipped included.
	good int
	// committed is where the last commit frame ends.
	committed int
	// Behind the last commit frame: announced is the sequence number that a guard frame
	// holds, 0 = there is none; foreign says that a guarded key was set without one,
	// by a version that knows none.
	announced uint64
	foreign   bool
	// damagedAt is where the first damage begins, -1 = there is none.
	damagedAt int
}

// read reads a whole file. A bad frame with whole ones behind it is damage, and so
// is a commit frame whose batch does not check. A bad frame with nothing behind it
// is the tail of a write that a crash has torn.
func read(b []byte, guarded string) reading {
	r := reading{live: map[string][]byte{}, guarded: guarded, damagedAt: -1}
	switch {
	case len(b) < len(header) && header[:len(b)] == string(b):
		return r // killed before the header was written
	case len(b) < len(header):
		r.damagedAt = 0
		return r
	case string(b[:len(header)]) != header:
		r.damagedAt = 0
	}
	r.good = len(header)
	for {
		key, value, size, whole := nextFrame(b[r.good:])
		switch {
		case whole:
			r.take(b, string(key), value, size)
		case frameFollows(b[r.good:]):
			r.damage()
			r.good += frameBytes + int(binary.LittleEndian.Uint32(b[r.good:]))
		default:
			if anyFrame(b[r.good:]) {
				r.damage()
			}
			return r
		}
	}
}

func (r *reading) damage() {
	if r.damagedAt < 0 {
		r.damagedAt = r.good
	}
}

// take takes over the frame at good.
func (r *reading) take(b []byte, key string, value []byte, size int) {
	at := r.good
	switch {
	case strings.HasPrefix(key, commitPrefix):
		if !batchChecks(b[len(header):at], key[len(commitPrefix):]) {
			r.damage()
		}
		r.committed, r.announced, r.foreign = at+size, 0, false
	case strings.HasPrefix(key, guardPrefix) && len(key) == len(guardPrefix)+8:
		r.announced = binary.LittleEndian.Uint64([]byte(key[len(guardPrefix):]))
	case strings.HasPrefix(key, ownPrefix): // a later version's
	default:
		r.foreign = r.foreign || r.announced == 0 && hasGuard(r.guarded, key)
		if len(value) == 0 {
			delete(r.live, key)
		} else {
			r.live[key] = append([]byte(nil), value...)
		}
	}
	r.good += size
}

// batchChecks tells whether frames end with the batch that a commit frame names.
func batchChecks(frames []byte, batch string) bool {
	if len(batch) != 12 {
		return false
	}
	length := binary.LittleEndian.Uint64([]byte(batch))
	return length <= uint64(len(frames)) &&
		crc32.Checksum(frames[uint64(len(frames))-length:], sums) == binary.LittleEndian.Uint32([]byte(batch[8:]))
}

// frameFollows tells whether a whole frame stands where a bad one ends by its
// length.
func frameFollows(b []byte) bool {
	if len(b) < frameBytes {
		return false
	}
	n := uint64(binary.LittleEndian.Uint32(b)) + frameBytes
	if n > uint64(len(b)) {
		return false
	}
	_, _, _, whole := nextFrame(b[n:])
	return whole
}

// anyFrame tells whether a whole frame stands anywhere behind a bad one. What it
// says is not taken over: a value could look like a frame.
func anyFrame(b []byte) bool {
	for at := 1; at < len(b); at++ {
		if _, _, _, whole := nextFrame(b[at:]); whole {
			return true
		}
	}
	return false
}
