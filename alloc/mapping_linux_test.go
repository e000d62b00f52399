//go:build linux && (amd64 || arm64) && !purego && !race && !msan && !asan

package alloc

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/internal/invariants"
)

// resident reports how many of the memory's pages are there, -1 when it is not
// mapped.
func resident(t *testing.T, memory []byte) int {
	t.Helper()
	pages := make([]byte, len(memory)/pageBytes)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)), uintptr(unsafe.Pointer(unsafe.SliceData(pages))))
	if errno == unix.ENOMEM {
		return -1
	}
	if errno != 0 {
		t.Fatalf("mincore: %v", errno)
	}
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

func TestLargeChunksAreMappedAlignedAndPresent(t *testing.T) {
	a := NewArena(Pass)
	defer a.Close()
	before := Mapped()
	for _, n := range []int{HugeBytes, ChunkBytes, 5*ChunkBytes + 1, 12 * ChunkBytes} {
		Make[byte](a, n)
		c := a.huge[len(a.huge)-1]
		if !c.mapped || address(c.memory)%ChunkBytes != 0 || len(c.memory)%ChunkBytes != 0 {
			t.Errorf("request of %d bytes: mapped %v, %d bytes at %#x", n, c.mapped, len(c.memory), address(c.memory))
		}
		if got, want := resident(t, c.memory), len(c.memory)/pageBytes; got != want {
			t.Errorf("request of %d bytes: %d pages are there, want all %d", n, got, want)
		}
	}
	if after := Mapped(); after.Bytes-before.Bytes != a.Reserved() || after.Refused != before.Refused {
		t.Errorf("mapped %+v, was %+v, the arena holds %d", after, before, a.Reserved())
	}
}

func TestSmallChunksAreNotMapped(t *testing.T) {
	a := NewArena(Pass)
	for a.Used() < HugeBytes/2 {
		Make[byte](a, 100)
	}
	for i, c := range a.chunks {
		if c.mapped {
			t.Errorf("chunk %d of %d bytes is mapped", i, len(c.memory))
		}
	}
}

// fault returns what reading a byte gives: nothing, or the fault.
func fault(p *byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e, ok := recover().(runtime.Error); ok {
			err = e
		}
	}()
	if *p == 1 {
		return errors.New("1, where nothing was written")
	}
	return nil
}

func TestCloseTrimAndReplaceUnmap(t *testing.T) {
	a := NewArena(Pass)
	before := Mapped().Bytes
	for name, drop := range map[string]func(){
		"Close":           a.Close,
		"Trim":            func() { a.Reset(); a.Trim(); a.Trim() },
		"a larger demand": func() { a.Reset(); Make[byte](a, 9*ChunkBytes) },
	} {
		a.Close()
		s := Make[byte](a, 3*ChunkBytes)
		if err := fault(&s[0]); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		drop()
		if fault(&s[0]) == nil && !a.holds(address(s)) {
			t.Errorf("after %s the memory is still there", name)
		}
		if got := Mapped().Bytes - before; got != a.Reserved() {
			t.Errorf("after %s %d bytes are mapped, %d reserved", name, got, a.Reserved())
		}
	}
	a.Close()
}

// holds reports whether the arena's huge chunks cover the address: a new
// mapping may lie where an old one was.
func (a *Arena) holds(at uintptr) bool {
	for _, h := range a.huge {
		if from := address(h.memory); at >= from && at < from+uintptr(len(h.memory)) {
			return true
		}
	}
	return false
}

// TestDroppedArenasAreUnmapped: nobody closes the engines that tests make.
func TestDroppedArenasAreUnmapped(t *testing.T) {
	before := Mapped().Bytes
	func() {
		for range 5 {
			a := NewArena(Pass)
			Make[byte](a, 2*ChunkBytes)
			for range 3 * ChunkBytes / 1000 {
				Make[byte](a, 1000)
			}
		}
		var ac Accounts
		Make[byte](ac.NewArena(Plan), ChunkBytes)
	}()
	const wait, again = 30 * time.Second, 200 * time.Millisecond
	for began := time.Now(); time.Since(began) < wait; {
		runtime.GC()
		for collected := time.Now(); time.Since(collected) < again; runtime.Gosched() {
			if Mapped().Bytes == before {
				return
			}
		}
	}
	t.Errorf("%d bytes of dropped arenas are still mapped", Mapped().Bytes-before)
}

func TestGuardPageBehindMappedChunks(t *testing.T) {
	if !invariants.Enabled {
		return // there is none in production; the invariants build runs this
	}
	a := NewArena(Pass)
	defer a.Close()
	Make[byte](a, ChunkBytes)
	memory := a.huge[0].memory
	last := unsafe.Add(unsafe.Pointer(unsafe.SliceData(memory)), len(memory)-1)
	if err := fault((*byte)(last)); err != nil {
		t.Errorf("the last byte: %v", err)
	}
	if fault((*byte)(unsafe.Add(last, 1))) == nil {
		t.Error("the first byte behind the chunk can be read")
	}
}

// nodes returns the NUMA nodes with memory.
func nodes(t *testing.T) []int {
	t.Helper()
	list, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(list)), ",") {
		from, to, many := strings.Cut(part, "-")
		if !many {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			t.Fatalf("has_memory says %q", list)
		}
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
	}
	return out
}

// nodesOf counts the memory's pages by the node that they lie on; a page that
// is not there counts for a negative number.
func nodesOf(t *testing.T, memory []byte) map[int]int {
	t.Helper()
	const pagesAtOnce = 4096
	out := map[int]int{}
	for from := 0; from < len(memory); from += pagesAtOnce * pageBytes {
		part := memory[from:min(from+pagesAtOnce*pageBytes, len(memory))]
		addresses, status := make([]uintptr, len(part)/pageBytes), make([]int32, len(part)/pageBytes)
		for i := range addresses {
			addresses[i] = address(part) + uintptr(i*pageBytes)
		}
		_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(addresses)), uintptr(unsafe.Pointer(unsafe.SliceData(addresses))), 0, uintptr(unsafe.Pointer(unsafe.SliceData(status))), 0)
		if errno != 0 {
			t.Skipf("move_pages is needed to ask where pages lie, and this system refuses it: %v", errno)
		}
		for _, s := range status {
			out[int(s)]++
		}
	}
	return out
}

// TestMemoryLiesOnItsNode binds arenas to each node of the machine in turn and
// asks the system where their pages are. On a machine with one node it shows
// that the wish is understood; make test-numa runs it on two.
func TestMemoryLiesOnItsNode(t *testing.T) {
	all := nodes(t)
	if len(all) == 0 {
		t.Skip("no NUMA nodes in /sys/devices/system/node: the kernel was built without them")
	}
	for _, node := range all {
		a := NewArena(Pass)
		a.SetNode(node)
		before := Mapped()
		Make[byte](a, 10*ChunkBytes)
		for a.next < 6 {
			Make[byte](a, HugeBytes/2)
		}
		if Mapped().Misplaced != before.Misplaced {
			a.Close()
			t.Skipf("this system refuses mbind (a container without CAP_SYS_NICE?)")
		}
		for _, c := range append(a.chunks, a.huge[0].chunk) {
			if !c.mapped {
				continue
			}
			got := nodesOf(t, c.memory)
			if len(got) != 1 || got[node] != len(c.memory)/pageBytes {
				t.Errorf("chunk of %d pages bound to node %d: pages by node %v", len(c.memory)/pageBytes, node, got)
			}
		}
		a.Close()
	}
	t.Logf("nodes %v", all)
}

func TestNodesThatAreNotThereAreCounted(t *testing.T) {
	for _, node := range []int{nodesMax - 1, nodesMax, 1 << 40} {
		a := NewArena(Pass)
		a.SetNode(node)
		before := Mapped().Misplaced
		s := Make[byte](a, ChunkBytes)
		s[0] = 1 // it serves all the same
		if got := Mapped().Misplaced - before; got != 1 {
			t.Errorf("node %d: %d chunks counted as misplaced, want 1", node, got)
		}
		a.Close()
	}
	a := NewArena(Pass)
	a.SetNode(-7)
	before := Mapped().Misplaced
	Make[byte](a, ChunkBytes)
	if Mapped().Misplaced != before {
		t.Error("any node will do, and yet a chunk is misplaced")
	}
	a.Close()
}

// TestPartsMeet wants the parts that are faulted in side by side to cover a
// chunk without an overlap.
func TestPartsMeet(t *testing.T) {
	for chunks := 1; chunks < 70; chunks++ {
		for n := 1; n <= populateWorkersMax; n++ {
			bytes := chunks * ChunkBytes
			if part(bytes, 0, n) != 0 || part(bytes, n, n) != bytes {
				t.Fatalf("%d chunks in %d parts: %d … %d", chunks, n, part(bytes, 0, n), part(bytes, n, n))
			}
			for i := range n {
				if from, to := part(bytes, i, n), part(bytes, i+1, n); from > to || from%ChunkBytes != 0 {
					t.Fatalf("%d chunks, part %d of %d: %d … %d", chunks, i, n, from, to)
				}
			}
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	const bytes = 256 << 20
	for b.Loop() {
		a := NewArena(Pass)
		a.Reserve(bytes)
		a.Close()
	}
	b.SetBytes(bytes)
}

// BenchmarkDependentReads follows a cycle through memory in random order: each
// read waits for the one before, and misses the caches and, on small pages, the
// translation of addresses.
func BenchmarkDependentReads(b *testing.B) {
	const elements = 64 << 20 / 4
	for _, name := range []string{"heap", "mapped"} {
		b.Run("memory="+name, func(b *testing.B) {
			a := NewArena(Pass)
			defer a.Close()
			next := make([]uint32, elements)
			if name == "mapped" {
				next = MakeDirty[uint32](a, elements)
			}
			for i := range next {
				next[i] = uint32(i)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for i := elements - 1; i > 0; i-- { // Sattolo: one cycle through all
				j := rng.IntN(i)
				next[i], next[j] = next[j], next[i]
			}
			at := uint32(0)
			for b.Loop() {
				at = next[at]
			}
			if at >= elements {
				b.Fatal(at)
			}
		})
	}
}
