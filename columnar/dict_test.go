package columnar

import (
	"fmt"
	"strings"
	"testing"
)

// slowDict is the dictionary as maps.
type slowDict struct {
	id   map[string]uint32
	name map[uint32]string
}

func newSlowDict() *slowDict { return &slowDict{map[string]uint32{}, map[uint32]string{}} }

func (s *slowDict) ID(key string) uint32 {
	if key == "" {
		return 0
	}
	if id, ok := s.id[key]; ok {
		return id
	}
	id := uint32(1)
	for s.name[id] != "" {
		id++
	}
	s.id[key], s.name[id] = id, key
	return id
}

func (s *slowDict) Remove(id uint32) {
	delete(s.id, s.name[id])
	delete(s.name, id)
}

// compare fails unless both say the same of every key, known or not.
func (s *slowDict) compare(t *testing.T, d *Dict, keys []string) {
	t.Helper()
	if d.Len() != len(s.id) {
		t.Fatalf("%d strings, want %d", d.Len(), len(s.id))
	}
	got := make([]uint32, len(keys)+1)
	got[len(keys)] = 0xCAFE
	d.LookupAll(got[:len(keys)], keys)
	if got[len(keys)] != 0xCAFE {
		t.Fatal("LookupAll wrote behind its destination")
	}
	for i, k := range keys {
		want := s.id[k]
		if id, ok := d.Lookup(k); id != want || ok != (want != 0) {
			t.Fatalf("Lookup(%.40q) = %d, %v, want %d", k, id, ok, want)
		}
		if id, _ := d.LookupBytes([]byte(k)); id != want || got[i] != want {
			t.Fatalf("%.40q: LookupBytes %d, LookupAll %d, want %d", k, id, got[i], want)
		}
	}
	for id, k := range s.name {
		if got := d.String(id); got != k {
			t.Fatalf("String(%d) = %.40q, want %.40q", id, got, k)
		}
	}
}

func TestDictAgainstMap(t *testing.T) {
	rng := random(t)
	keys := []string{"", "\x00", "a", "a\x00", strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("y", 20_000),
		strings.Repeat("z", textChunkBytes-8), strings.Repeat("z", textChunkBytes-7), strings.Repeat("z", textChunkBytes), strings.Repeat("w", 3*textChunkBytes)}
	for i := range 600 {
		keys = append(keys, fmt.Sprintf("machine-%06d", i))
	}
	var d Dict
	twin := newSlowDict()
	held := map[string]string{} // strings read earlier must stay as they were
	for step := range 30_000 {
		k := keys[rng.IntN(len(keys))]
		if id := twin.id[k]; id != 0 && rng.IntN(100) < 60 {
			held[strings.Clone(k)] = d.String(id)
			d.Remove(id)
			twin.Remove(id)
		} else if got, want := d.IDBytes([]byte(k)), twin.ID(k); got != want {
			t.Fatalf("step %d: ID(%.40q) = %d, want %d", step, k, got, want)
		}
		if step%3000 == 0 {
			twin.compare(t, &d, keys)
		}
	}
	twin.compare(t, &d, keys)
	for k, s := range held {
		if k != s {
			t.Fatalf("a string read before its removal changed from %.40q to %.40q", k, s)
		}
	}
	if stored := d.text.stored; d.text.bytes > 2*stored+8*textChunkBytes {
		t.Errorf("%d bytes of text held for %d stored: removed strings were not dropped", d.text.bytes, stored)
	}
}

func TestDictNumbersByFirstOccurrence(t *testing.T) {
	var d Dict
	for i, s := range []string{"b", "a", "c"} {
		if got := d.ID(s); got != uint32(i+1) {
			t.Errorf("ID(%q) = %d, want %d", s, got, i+1)
		}
	}
	if d.ID("a") != 2 || d.ID("") != 0 || d.String(0) != "" || d.Top() != 3 {
		t.Error("known strings, the empty string or the top number are off")
	}
	d.Remove(1)
	d.Remove(2)
	if got := d.ID("z"); got != 1 {
		t.Errorf("a new string got %d, want the smallest free number", got)
	}
}

func TestDictOfNothing(t *testing.T) {
	var d Dict
	dst := []uint32{7, 7}
	d.LookupAll(dst, []string{"a", ""})
	if id, ok := d.Lookup("a"); ok || id != 0 || dst[0] != 0 || dst[1] != 0 || d.Len() != 0 || d.Bytes() != 0 {
		t.Errorf("an empty dictionary knows something: %d, %v, %v", id, ok, dst)
	}
	mustPanic(t, "Remove(0)", func() { d.Remove(0) })
	d.ID("a")
	d.Remove(1)
	mustPanic(t, "a second Remove", func() { d.Remove(1) })
}

// TestDictWithEqualTags forces what chance never brings: several keys whose
// hashes agree in all bits that the table holds.
func TestDictWithEqualTags(t *testing.T) {
	var d Dict
	const tag = 0xFFFFFFFF // its home is the last slot: probing wraps around
	for i, s := range []string{"one", "two", "three"} {
		d.slots.reserve()
		id := uint32(d.numbers.Alloc())
		d.position = append(d.position, make([]uint32, int(id)+1-len(d.position))...)
		d.position[id] = d.text.put(s)
		d.slots.insert(tag, id)
		if got, ok := d.find(tag, s); !ok || got != uint32(i+1) {
			t.Fatalf("find(%q) = %d, %v", s, got, ok)
		}
	}
	d.slots.remove(tag, 2)
	for s, want := range map[string]uint32{"one": 1, "two": 0, "three": 3, "four": 0} {
		if got, _ := d.find(tag, s); got != want {
			t.Errorf("after a removal find(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestDictKnownKeysAllocateNothing(t *testing.T) {
	var d Dict
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("machine-%d", i)
		d.ID(keys[i])
	}
	dst, b := make([]uint32, len(keys)), []byte(keys[5])
	if n := testing.AllocsPerRun(20, func() {
		d.LookupAll(dst, keys)
		d.ID(keys[3])
		d.IDBytes(b)
		_ = d.String(4)
	}); n != 0 {
		t.Errorf("%v allocations for known keys, want 0", n)
	}
}

func TestDictBytesPerString(t *testing.T) {
	var d Dict
	for i := range 500_000 {
		d.ID(fmt.Sprintf("i-%017x", i))
	}
	if got := float64(d.Bytes()) / 500_000; got > 50 {
		t.Errorf("%.1f bytes for an id of 19, want at most 50", got)
	}
}

func FuzzDict(f *testing.F) {
	f.Add("a b c a -b d b")
	f.Add("x -x x y -x -y")
	f.Fuzz(func(t *testing.T, script string) {
		var d Dict
		twin := newSlowDict()
		words := strings.Split(script, " ")
		for _, w := range words {
			if k, remove := strings.CutPrefix(w, "-"); remove {
				if id := twin.id[k]; id != 0 {
					d.Remove(id)
					twin.Remove(id)
				}
			} else if got, want := d.ID(w), twin.ID(w); got != want {
				t.Fatalf("ID(%q) = %d, want %d", w, got, want)
			}
		}
		twin.compare(t, &d, words)
	})
}

func BenchmarkDict500k(b *testing.B) {
	const n = 500_000
	var d Dict
	rng := random(b)
	keys := make([]string, n)
	m := make(map[string]uint32, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("i-%017x", rng.Uint64()>>4)
		m[keys[i]] = d.ID(keys[i])
	}
	rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, k := range keys { // as decoded: in the order of the look-ups
		keys[i] = strings.Clone(k)
	}
	dst := make([]uint32, n)
	per := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	}
	b.Run("Lookup", func(b *testing.B) {
		for b.Loop() {
			for i, k := range keys {
				dst[i], _ = d.Lookup(k)
			}
		}
		per(b)
	})
	b.Run("LookupAll", func(b *testing.B) {
		for b.Loop() {
			d.LookupAll(dst, keys)
		}
		per(b)
	})
	b.Run("GoMap", func(b *testing.B) {
		for b.Loop() {
			for i, k := range keys {
				dst[i] = m[k]
			}
		}
		per(b)
	})
	b.Run("Build", func(b *testing.B) {
		for b.Loop() {
			var d Dict
			for _, k := range keys {
				d.ID(k)
			}
		}
		per(b)
	})
}
