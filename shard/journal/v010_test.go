package journal_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/tonnage/tonnage/internal/disk/disktest"
	"github.com/tonnage/tonnage/shard/journal"
)

// readV010 is how version 0.1.0 reads a journal: the frames up to the first that does
// not fit its sum.
func readV010(b []byte) (live map[string]string, good int, err error) {
	const header, frameBytes, frameMax = "tonnage journal 1\n", 8, binary.MaxVarintLen32 + 4<<10 + 64<<10
	live = map[string]string{}
	if len(b) < len(header) || string(b[:len(header)]) != header {
		return nil, 0, fmt.Errorf("it does not begin with %q", header)
	}
	for good = len(header); len(b)-good >= frameBytes; {
		n := int(binary.LittleEndian.Uint32(b[good:]))
		if n > frameMax || n > len(b)-good-frameBytes {
			break
		}
		payload := b[good+frameBytes:][:n]
		if crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(b[good+4:]) {
			break
		}
		k, used := binary.Uvarint(payload)
		if used <= 0 || k > uint64(len(payload)-used) {
			break
		}
		key, value := string(payload[used:][:k]), string(payload[used:][k:])
		if good += frameBytes + n; value == "" {
			delete(live, key)
		} else {
			live[key] = value
		}
	}
	return live, good, nil
}

// appendV010 is how version 0.1.0 appends a frame.
func appendV010(b []byte, key, value string) []byte {
	payload := append(binary.AppendUvarint(nil, uint64(len(key))), key+value...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, payload...)
}

// TestTheJournalOfV010: testdata/v0.1.0.journal was written by that version.
func TestTheJournalOfV010(t *testing.T) {
	content, err := os.ReadFile("testdata/v0.1.0.journal")
	if err != nil {
		t.Fatal(err)
	}
	fs := disktest.New()
	fs.Put(journalPath, content)
	j := openOn(t, fs, folder, slog.DiscardHandler)
	want := map[string]string{
		"d\x00": "\x01", "dzone\x00a": "\x01", "gm-1": "move-1\x00shard/b\x00false\x00\x00zone\x00a",
		"rm-2": "move-2/0", "wcluster\x00fingerprint": "\x02\x04\x06",
	}
	if got := contents(j); !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if j.Knowledge() != journal.Known || j.Damaged() != 0 {
		t.Errorf("knowledge %d, %d damaged", j.Knowledge(), j.Damaged())
	}
}

// TestV010ReadsTheJournal: all of it, whatever was set and however it was written.
func TestV010ReadsTheJournal(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 3))
	fs := disktest.New()
	for range 20 {
		j := openOn(t, fs, folder, slog.DiscardHandler)
		for range rng.IntN(20) {
			value := make([]byte, rng.IntN(3))
			at := j.Set(fmt.Sprintf("%c%d", "dmgr"[rng.IntN(4)], rng.IntN(8)), value)
			if rng.IntN(3) == 0 {
				durable(t, j, at)
			}
		}
		want := contents(j)
		j.Close()
		content := fs.Files()[journalPath]
		got, good, err := readV010(content)
		if err != nil || good != len(content) || !maps.Equal(got, want) {
			t.Fatalf("seed %d: version 0.1.0 reads %v up to %d of %d, %v; want %v", seed, got, good, len(content), err, want)
		}
		if rng.IntN(4) == 0 { // a flipped bit: the journal is written anew
			content[len(content)/2] ^= 1
			fs = copied(fs, map[string][]byte{journalPath: content})
		}
	}
}

// TestBackToV010AndForth: what version 0.1.0 has set meanwhile counts, guarded or not,
// also when it has written the whole file anew.
func TestBackToV010AndForth(t *testing.T) {
	fs, want := written(t)
	content := fs.Files()[journalPath]
	want = maps.Clone(want)
	delete(want, "dzone-1")
	want["dzone-9"], want["m9"] = "\x01", "new"
	appended := appendV010(appendV010(appendV010(content, "dzone-1", ""), "dzone-9", "\x01"), "m9", "new")
	anew := []byte("tonnage journal 1\n")
	for k, v := range want {
		anew = appendV010(anew, k, v)
	}
	for name, content := range map[string][]byte{"appended": appended, "written anew": anew} {
		fs := copied(fs, map[string][]byte{journalPath: content})
		for range 2 {
			j := openOn(t, fs, folder, slog.DiscardHandler)
			if got := contents(j); !maps.Equal(got, want) || j.Knowledge() != journal.Known {
				t.Errorf("%s: got %v, want %v, knowledge %d", name, got, want, j.Knowledge())
			}
			j.Close()
		}
	}
}
