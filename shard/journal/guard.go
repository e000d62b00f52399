package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/internal/disk"
)

// Guard names keys whose loss would be worse than that of all others: they are kept
// in a file of their own too, in two copies.
type Guard struct {
	Prefix string // of the keys; empty = there are none
	File   string // its name; that of the copy has copySuffix
}

const copySuffix = ".copy"

// Knowledge is what is known of the guarded keys. That there are none and that they
// were lost are two things.
type Knowledge uint8

// What is known.
const (
	// Unset: no guarded key was ever set.
	Unset Knowledge = iota
	// Known: the keys are those that are there, be it none.
	Known
	// Lost: some were set, and which ones is not known any more. Those that are
	// there are what is left of them. It stays so until Confirm.
	Lost
	numKnowledge
)

// guard is the file of the guarded keys.
type guard struct {
	Guard
	sequence  uint64 // of the last file written
	knowledge Knowledge
	keys      map[string][]byte
	dirty     bool // keys or knowledge are not in the file yet
}

func hasGuard(prefix, key string) bool { return prefix != "" && strings.HasPrefix(key, prefix) }

// set notes a change of a guarded key.
func (g *guard) set(key string, value []byte) {
	if len(value) == 0 {
		delete(g.keys, key)
	} else {
		g.keys[key] = value
	}
	if g.knowledge == Unset {
		g.knowledge = Known
	}
	g.dirty = true
}

// image returns what is to be written, nil when it is in the file already.
func (g *guard) image() *guard {
	if !g.dirty || g.Prefix == "" {
		return nil
	}
	g.dirty = false
	g.sequence++
	return &guard{Guard: g.Guard, sequence: g.sequence, knowledge: g.knowledge, keys: maps.Clone(g.keys)}
}

func (g *guard) header() string { return "tonnage " + g.File + " 1\n" }

// encode writes header, sequence number, knowledge, number of keys, their frames in
// order, and the checksum of all that.
func (g *guard) encode() []byte {
	b := []byte(g.header())
	b = binary.LittleEndian.AppendUint64(b, g.sequence)
	b = append(b, byte(g.knowledge))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(g.keys)))
	for _, k := range slices.Sorted(maps.Keys(g.keys)) {
		b = appendFrame(b, k, g.keys[k])
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, sums))
}

var errGuard = errors.New("it is cut short, or its checksum does not fit")

// decode reads one copy.
func (g *guard) decode(b []byte) (*guard, error) {
	const fixed, sum = 8 + 1 + 4, 4
	rest, ok := bytes.CutPrefix(b, []byte(g.header()))
	if !ok {
		return nil, fmt.Errorf("it does not begin with %q", g.header())
	}
	if len(rest) < fixed+sum || crc32.Checksum(b[:len(b)-sum], sums) != binary.LittleEndian.Uint32(b[len(b)-sum:]) {
		return nil, errGuard
	}
	out := &guard{Guard: g.Guard, sequence: binary.LittleEndian.Uint64(rest), knowledge: Knowledge(rest[8]), keys: map[string][]byte{}}
	count := binary.LittleEndian.Uint32(rest[9:])
	for rest = rest[fixed : len(rest)-sum]; len(rest) > 0; count-- {
		key, value, size, whole := nextFrame(rest)
		if !whole || count == 0 || !hasGuard(g.Prefix, string(key)) {
			return nil, errGuard
		}
		out.keys[string(key)] = bytes.Clone(value)
		rest = rest[size:]
	}
	if count != 0 || out.knowledge >= numKnowledge || out.knowledge == Unset && len(out.keys) > 0 {
		return nil, errGuard
	}
	return out, nil
}

// write puts both copies on disk, one after the other. nil is an image of nothing.
func (g *guard) write(fs disk.FS, dir string) error {
	if g == nil {
		return nil
	}
	content := g.encode()
	for _, name := range g.names() {
		if err := disk.Replace(fs, filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) names() [2]string { return [2]string{g.File, g.File + copySuffix} }

// openGuard reads the guarded keys and makes sure that both copies hold them.
func (j *Journal) openGuard(from *reading) error {
	g := &j.guard
	if g.Prefix == "" {
		return nil
	}
	newest, equal, damaged, err := j.readGuard()
	if err != nil {
		return err
	}
	listed := map[string][]byte{}
	for k, v := range from.live {
		if hasGuard(g.Prefix, k) {
			listed[k] = v
			delete(from.live, k)
		}
	}
	if newest == nil {
		j.guardWithoutCopy(from, listed, damaged)
	} else {
		j.guardFrom(newest, equal, from, listed)
	}
	maps.Copy(from.live, g.keys)
	return g.image().write(j.fs, j.dir)
}

// guardFrom takes the guarded keys from a copy. What the journal's file lists counts when
// it is newer: a version that knows no copies was here, or the process ended too soon.
func (j *Journal) guardFrom(newest *guard, equal bool, from *reading, listed map[string][]byte) {
	g := &j.guard
	g.sequence, g.knowledge, g.keys = newest.sequence, newest.knowledge, newest.keys
	same := maps.EqualFunc(listed, newest.keys, bytes.Equal)
	g.dirty = !equal
	switch newer := from.foreign || from.announced > newest.sequence; {
	case newer && from.damagedAt < 0:
		g.keys = listed
		if g.knowledge == Unset {
			g.knowledge = Known
		}
		g.dirty = !equal || !same || g.knowledge != newest.knowledge
	case !same:
		j.log.Warn("the journal does not say the same as its file of "+g.File+", which counts", "file", j.path(g.File), "inJournal", len(listed), "inFile", len(g.keys))
	}
	if g.knowledge == Lost {
		j.logLost()
	}
}

// guardWithoutCopy takes the guarded keys from the journal's file, and says whether that
// is all of them. damaged says that there were copies.
func (j *Journal) guardWithoutCopy(from *reading, listed map[string][]byte, damaged bool) {
	g := &j.guard
	g.keys, g.dirty = listed, true
	switch {
	case damaged || from.damagedAt >= 0 || from.good == 0 && !j.first:
		g.knowledge = Lost
		j.logLost()
	case len(listed) > 0:
		g.knowledge = Known
	}
}

func (j *Journal) logLost() {
	j.log.Error("the "+j.guard.File+" of this shard were lost: neither a copy nor the journal says for sure what they are; see docs/reliability.md",
		"file", j.path(j.guard.File), "left", len(j.guard.keys))
}

// readGuard returns the newer of the copies that are in order, nil if there is none.
// equal says that both are and say the same; damaged, that there were copies, all
// of them damaged.
func (j *Journal) readGuard() (newest *guard, equal, damaged bool, err error) {
	var contents, bad [2][]byte
	there := 0
	for i, name := range j.guard.names() {
		content, err := j.fs.ReadFile(j.path(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false, false, err
		}
		there++
		contents[i] = content
		one, err := j.guard.decode(content)
		switch {
		case err != nil:
			bad[i] = content
			j.log.Error("a copy of the "+j.guard.File+" is damaged; it is written anew from what is in order", "file", j.path(name), "error", err)
		case newest == nil || one.sequence > newest.sequence:
			newest = one
		}
	}
	if newest == nil {
		for i, name := range j.guard.names() {
			if bad[i] != nil {
				if err := j.keepAside(name, bad[i]); err != nil {
					return nil, false, false, err
				}
			}
		}
	}
	return newest, bytes.Equal(contents[0], contents[1]), newest == nil && there > 0, nil
}

// Knowledge returns what is known of the guarded keys.
func (j *Journal) Knowledge() Knowledge {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.guard.knowledge
}

// Confirm notes that the guarded keys that are there are the right ones, after they
// were lost. If there are none, ever says that some were once set.
func (j *Journal) Confirm(ever bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.guard.knowledge != Lost {
		return
	}
	j.guard.knowledge, j.guard.dirty = Known, true
	if len(j.guard.keys) == 0 && !ever {
		j.guard.knowledge = Unset
	}
	j.wakeUp()
}
