package alloc

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/tonnage/tonnage/internal/invariants"
)

type triple struct {
	A uint8
	B uint64
	C uint16
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func address[T any](s []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }

func TestMakeIsZeroedAlignedAndFull(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	for generation := range 3 {
		for n := 1; n < 300; n++ {
			bytes := MakeDirty[uint8](a, n%7)
			triples := Make[triple](a, n)
			for i := range triples {
				if triples[i] != (triple{}) {
					t.Fatalf("generation %d: element %d of %d is %+v, want zero", generation, i, n, triples[i])
				}
				triples[i] = triple{1, 2, 3}
			}
			if cap(triples) != n || cap(bytes) != n%7 {
				t.Fatalf("capacity %d for %d elements: append would write into a neighbour", cap(triples), n)
			}
			align := unsafe.Alignof(triple{})
			if n*int(unsafe.Sizeof(triple{})) >= lineBytes {
				align = lineBytes
			}
			if at := address(triples); at%align != 0 {
				t.Fatalf("%d elements at %#x, want a multiple of %d", n, at, align)
			}
		}
		a.Reset()
	}
}

func TestSlicesDoNotOverlap(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	var all [][]uint32
	for i, n := range []int{1, 15, 16, 17, 1000, HugeBytes / 4, HugeBytes/4 - 1, ChunkBytes, 3, ChunkBytes / 4, 9} {
		s := MakeDirty[uint32](a, n)
		for j := range s {
			s[j] = uint32(i)
		}
		all = append(all, s)
	}
	for i, s := range all {
		for j := range s {
			if s[j] != uint32(i) {
				t.Fatalf("slice %d, element %d: overwritten by slice %d", i, j, s[j])
			}
		}
	}
}

func TestResetKeepsMemoryAndCountsGenerations(t *testing.T) {
	a := NewArena(Plan)
	defer a.Close()
	load := func() {
		for range 2000 {
			Make[uint64](a, 200)
		}
		Make[uint64](a, ChunkBytes)
	}
	load()
	used, reserved := a.Used(), a.Reserved()
	if used < 2000*200*8+ChunkBytes*8 || reserved < used {
		t.Fatalf("used %d, reserved %d after 2000×1600 + 8 MiB bytes", used, reserved)
	}
	for g := uint32(1); g <= 3; g++ {
		a.Reset()
		if a.Generation() != g || a.Used() != 0 || a.Reserved() != reserved {
			t.Fatalf("after reset %d: generation %d, used %d, reserved %d (want %d)", g, a.Generation(), a.Used(), a.Reserved(), reserved)
		}
		load()
		if a.Used() != used || a.Reserved() != reserved {
			t.Fatalf("the same load again: used %d, reserved %d, want %d, %d", a.Used(), a.Reserved(), used, reserved)
		}
	}
	a.Reset()
	Make[uint64](a, 1)
	a.Trim()
	if a.Reserved() != FirstChunkBytes {
		t.Errorf("trimmed to %d bytes, want the first chunk", a.Reserved())
	}
	a.Reset()
	a.Trim()
	if a.Reserved() != 0 {
		t.Errorf("trimmed an unused generation to %d bytes, want 0", a.Reserved())
	}
}

func TestSteadyGenerationsAllocateNothing(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	allocs := testing.AllocsPerRun(50, func() {
		for i := range 3000 {
			Make[uint32](a, i%100)
			MakeDirty[triple](a, i%50)
		}
		Make[uint64](a, ChunkBytes)
		Make[uint64](a, ChunkBytes/4)
		a.Reset()
	})
	if allocs != 0 {
		t.Errorf("%v allocations in a steady generation, want 0", allocs)
	}
}

// TestHugeRequestsThatGrowLeaveNoTrail wants the memory of a request that
// grows a little every generation to stay near the request's size.
func TestHugeRequestsThatGrowLeaveNoTrail(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	size := HugeBytes
	for range 60 {
		MakeDirty[byte](a, size)
		MakeDirty[byte](a, HugeBytes)
		a.Reset()
		size += size / 20
	}
	if most := int64(size + size/4 + 2*HugeBytes); a.Reserved() > most {
		t.Errorf("reserved %d bytes for a request of %d and one of %d, want at most %d", a.Reserved(), size, HugeBytes, most)
	}
}

func TestLimit(t *testing.T) {
	a := NewArena(Ingest)
	defer a.Close()
	a.SetLimit(2 * ChunkBytes)
	fill := func(request func()) (limit *LimitError) {
		defer func() {
			if err, ok := recover().(error); ok {
				errors.As(err, &limit)
			}
		}()
		request()
		return nil
	}
	Make[byte](a, 1)
	for name, request := range map[string]func(){
		"many small": func() {
			for range 3 * ChunkBytes {
				Make[byte](a, 1)
			}
		},
		"one huge":   func() { Make[byte](a, 4*ChunkBytes) },
		"overflow":   func() { Make[uint64](a, 1<<61) },
		"over bound": func() { Make[byte](a, MaxBytes+1) },
	} {
		err := fill(request)
		if err == nil {
			t.Errorf("%s: no *LimitError", name)
			continue
		}
		if err.Limit != 2*ChunkBytes || !strings.Contains(err.Error(), "arena ingest is full") {
			t.Errorf("%s: %v", name, err)
		}
		if a.Reserved() > 2*ChunkBytes {
			t.Errorf("%s: reserved %d", name, a.Reserved())
		}
		a.Reset()
		Make[byte](a, 1) // still sound
	}
}

func TestNegativeAndEmptyRequests(t *testing.T) {
	a := NewArena(Pass)
	if s := Make[uint64](a, 0); s == nil || len(s) != 0 {
		t.Errorf("Make of 0 elements = %v, want empty and not nil", s)
	}
	if s := Make[struct{}](a, 5); len(s) != 5 {
		t.Errorf("Make of 5 empty structs has %d", len(s))
	}
	if a.Reserved() != 0 {
		t.Errorf("empty requests reserved %d bytes", a.Reserved())
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative request did not panic")
		}
	}()
	Make[uint64](a, -1)
}

func TestTypesWithPointersAreRefused(t *testing.T) {
	type nested struct {
		Fine  [3]uint32
		Inner struct{ Name [2]string }
	}
	for want, f := range map[string]func(){
		"*int is a ptr":               MustPointerFree[*int],
		"[]byte":                      MustPointerFree[[]byte],
		"is a string":                 MustPointerFree[string],
		"nested.Inner.Name[0] is a s": MustPointerFree[nested],
		"is a map":                    MustPointerFree[map[int]int],
		"is a func":                   MustPointerFree[func()],
		"is a interface":              MustPointerFree[any],
		"is a unsafe.Pointer":         MustPointerFree[unsafe.Pointer],
		"is a chan":                   func() { Make[chan int](NewArena(Pass), 1) },
	} {
		func() {
			defer func() {
				msg, _ := recover().(string)
				if !strings.Contains(msg, strings.TrimPrefix(want, "[]byte")) || msg == "" {
					t.Errorf("panic %q, want it to say %q", msg, want)
				}
			}()
			f()
		}()
	}
	MustPointerFree[triple]()
	MustPointerFree[[0]*int]()
	MustPointerFree[struct {
		F [4]float64
		U uintptr
	}]()
}

func TestReleasedMemoryIsPoisoned(t *testing.T) {
	if !invariants.Enabled {
		return // the checks are compiled out; the invariants build runs this
	}
	a := NewArena(Pass)
	defer a.Close()
	small, huge := Make[uint32](a, 10), Make[uint32](a, ChunkBytes)
	stamp := a.Stamp()
	if dirty := MakeDirty[uint32](a, 4); dirty[3] != 0xDBDBDBDB {
		t.Errorf("MakeDirty gave %#x, want poison", dirty[3])
	}
	a.Reset()
	if small[0] != 0xDBDBDBDB || huge[len(huge)-1] != 0xDBDBDBDB {
		t.Errorf("after Reset: %#x, %#x, want poison", small[0], huge[len(huge)-1])
	}
	defer func() {
		if recover() == nil {
			t.Error("the stamp of the last generation still holds")
		}
	}()
	stamp.Check("slice")
}

// TestReserveLaysAGenerationSideBySide wants what Reserve made room for to be
// taken from one chunk, huge requests too, whatever the arena held before.
func TestReserveLaysAGenerationSideBySide(t *testing.T) {
	for name, before := range map[string]func(*Arena){
		"new":         func(*Arena) {},
		"used before": func(a *Arena) { Make[byte](a, 100); Make[byte](a, HugeBytes/2); Make[byte](a, 3*HugeBytes) },
		"closed":      func(a *Arena) { Make[byte](a, 5*ChunkBytes); a.Close() },
		"twice":       func(a *Arena) { a.Reserve(5 * ChunkBytes); a.Reserve(1) },
	} {
		t.Run(name, func(t *testing.T) {
			a := NewArena(Pass)
			defer a.Close()
			before(a)
			a.Reset()
			sizes := []int{HugeBytes, 64, 3 * HugeBytes, HugeBytes - 64, 4096}
			sum := 0
			for _, n := range sizes {
				sum += n
			}
			a.Reserve(sum)
			reserved := a.Reserved()
			for generation := range 2 {
				next := uintptr(0)
				for i, n := range sizes {
					at := address(MakeDirty[byte](a, n))
					if i > 0 && at != next {
						t.Errorf("generation %d: request %d lies at %#x, want %#x, behind the one before", generation, i, at, next)
					}
					next = at + uintptr(n)
				}
				a.Reset()
			}
			if a.Reserved() != reserved {
				t.Errorf("reserved grew from %d to %d bytes", reserved, a.Reserved())
			}
		})
	}
}

func TestReserveKeepsToTheLimit(t *testing.T) {
	a := NewArena(Pass)
	a.SetLimit(ChunkBytes)
	a.Reserve(0)
	a.Reserve(-1)
	if a.Reserved() != 0 {
		t.Errorf("no bytes asked for, %d reserved", a.Reserved())
	}
	defer func() {
		if _, ok := recover().(*LimitError); !ok {
			t.Error("no *LimitError")
		}
	}()
	a.Reserve(ChunkBytes + 1)
}

// TestSmallWorldsHaveSmallArenas: thousands of engines are made in tests.
func TestSmallWorldsHaveSmallArenas(t *testing.T) {
	a := NewArena(Pass)
	var used int64
	for a.Used() < 40*ChunkBytes {
		Make[byte](a, 1000)
		if used = a.Used(); a.Reserved() > max(FirstChunkBytes, 4*used+ChunkBytes) || used < HugeBytes/2 && a.Reserved() > 3*used+FirstChunkBytes {
			t.Fatalf("%d bytes reserved for %d", a.Reserved(), used)
		}
	}
	if most := used + 2*ChunkBytes; a.Reserved() > most {
		t.Errorf("%d bytes reserved for %d, want at most %d", a.Reserved(), used, most)
	}
	a.Close()
}

// TestChunksTooSmallArePassedOver makes requests that the first chunks do not
// hold, in an order that changes.
func TestChunksTooSmallArePassedOver(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	var reserved int64
	for generation := range 6 {
		for i := range 5 {
			n := []int{100, HugeBytes - 1, FirstChunkBytes, HugeBytes / 4, 3 * FirstChunkBytes}[(i*(generation%4+1))%5]
			s := Make[byte](a, n)
			s[0], s[n-1] = 1, 1
		}
		if generation == 3 {
			reserved = a.Reserved()
		}
		a.Reset()
	}
	if a.Reserved() != reserved || reserved > 4*ChunkBytes {
		t.Errorf("%d bytes reserved after four orders, %d after two more", reserved, a.Reserved())
	}
}

func TestCloseLeavesANewArena(t *testing.T) {
	var ac Accounts
	a := ac.NewArena(Pass)
	for range 3 {
		Make[byte](a, 10)
		Make[byte](a, 3*ChunkBytes)
		a.Reserve(ChunkBytes)
		stamp := a.Stamp()
		ac.Close()
		if a.Reserved() != 0 || a.Used() != 0 {
			t.Fatalf("after Close: used %d, reserved %d", a.Used(), a.Reserved())
		}
		if invariants.Enabled {
			mustPanic(t, "a stamp from before Close", func() { stamp.Check("slice") })
		}
	}
	a.Close() // again
}

// TestRefusedMappingsComeFromTheHeap plays a system that maps nothing.
func TestRefusedMappingsComeFromTheHeap(t *testing.T) {
	a := NewArena(Pass)
	asked := 0
	a.source.mapMemory = func(int, int) ([]byte, bool) { asked++; return nil, false }
	before := Mapped()
	s := Make[uint64](a, ChunkBytes)
	s[len(s)-1] = 1
	for range 2 * ChunkBytes / 1024 {
		Make[byte](a, 1024)
	}
	after := Mapped()
	if asked < 2 || after.Refused-before.Refused != int64(asked) {
		t.Errorf("%d mappings asked for, %d counted as refused", asked, after.Refused-before.Refused)
	}
	a.Reset()
	a.Trim()
	if a.Reserved() != 0 || Mapped().Bytes != after.Bytes {
		t.Errorf("%d bytes still reserved", a.Reserved())
	}
}

func TestWritesBehindAChunkAreFound(t *testing.T) {
	if !invariants.Enabled {
		return // the checks are compiled out; the invariants build runs this
	}
	a := NewArena(Pass)
	s := Make[byte](a, FirstChunkBytes)
	a.Reset()
	s = Make[byte](a, len(s))
	*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), len(s)+5)) = 0
	mustPanic(t, "a write behind a chunk", a.Reset)
}

func TestAccountsSumByPurpose(t *testing.T) {
	var ac Accounts
	one, two := ac.NewArena(Pass), ac.NewArena(Pass)
	ac.NewArena(Plan)
	ac.Enter(Machines, func() Usage { return Usage{Used: 5, Reserved: 7} })
	Make[byte](one, 100)
	Make[byte](two, 3)
	got := ac.Usage()
	if got[Pass] != (Usage{103, 2 * FirstChunkBytes}) || got[Machines] != (Usage{5, 7}) || got[Plan] != (Usage{}) {
		t.Errorf("usage %+v", got)
	}
	if total := ac.Total(); total != (Usage{108, 2*FirstChunkBytes + 7}) {
		t.Errorf("total %+v", total)
	}
	if one.Purpose() != Pass {
		t.Errorf("purpose %s", one.Purpose())
	}
}

func TestPurposesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for p := range Purpose(NumPurposes) {
		if name := p.String(); name == "" || seen[name] || strings.Contains(name, "(") {
			t.Errorf("purpose %d is called %q", p, name)
		} else {
			seen[name] = true
		}
	}
	if got := Purpose(200).String(); got != "Purpose(200)" {
		t.Errorf("unknown purpose is called %q", got)
	}
}

func BenchmarkArenaCycle(b *testing.B) {
	a := NewArena(Pass)
	defer a.Close()
	const slices = 776_000
	b.ReportAllocs()
	for b.Loop() {
		for range slices {
			MakeDirty[uint32](a, 12)
		}
		a.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/slices, "ns/slice")
}

// TestAppend: what was there stays, and moving takes logarithmically many
// requests.
func TestAppend(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	var s []uint32
	moved, room := 0, 0
	for i := range uint32(1000) {
		if s = Append(a, s, i); cap(s) != room {
			moved, room = moved+1, cap(s)
		}
	}
	for i, v := range s {
		if v != uint32(i) {
			t.Fatalf("element %d is %d", i, v)
		}
	}
	if len(s) != 1000 || moved != 9 { // 4, 8, … 1024
		t.Errorf("%d elements, moved %d times, want 1000 and 9", len(s), moved)
	}
	other := Append(a, nil, uint32(7))
	if s = Append(a, s, 1000); other[0] != 7 || s[1000] != 1000 {
		t.Error("two slices of one arena share memory")
	}
}

// TestHeadroomOfHugeRequests: who asks for much gets whole pages, and more only
// where these leave it next to nothing to grow.
func TestHeadroomOfHugeRequests(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ bytes, want int64 }{
		{mib, 2 * mib},
		{2*mib - 1<<16, 2 * mib},
		{2*mib - 1<<15, 4 * mib},
		{29 * mib, 30 * mib},
		{30 * mib, 34 * mib},
	} {
		a := NewArena(Pass)
		MakeDirty[byte](a, int(c.bytes))
		if got := a.Reserved(); got != c.want {
			t.Errorf("%d bytes: %d are reserved, want %d", c.bytes, got, c.want)
		}
		a.Close()
	}
}

// TestReserveThatGrowsLeavesNoTrail: who reserves a little more each time holds what was
// asked for last, not the sum.
func TestReserveThatGrowsLeavesNoTrail(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	for bytes := 4 * ChunkBytes; bytes <= 12*ChunkBytes; bytes += ChunkBytes / 2 {
		a.Reset()
		Make[byte](a, 100) // an ordinary chunk stays
		a.Reserve(bytes)
		Make[byte](a, bytes)
		if most := int64(chunkRoom(bytes) + FirstChunkBytes); a.Reserved() > most {
			t.Fatalf("%d bytes are reserved for %d, at most %d are right", a.Reserved(), bytes, most)
		}
	}
}
