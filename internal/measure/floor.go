package measure

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tonnage/tonnage/alloc"
)

// A cycle from nothing reads every row of the demand and rewrites every machine. The floor is how
// long that takes this machine's memory when nothing is computed: each row is read once in the
// order of memory, one cache line of each once in random order, and one word of each machine is
// rewritten in random order, shared out among the workers. Milliseconds differ between machines;
// how many times the floor a cycle takes differs much less. It is measured between the cycles,
// since what else a machine does changes within seconds.

const (
	// lineWords is how many words a cache line has; a row is one line here.
	lineWords = 8
	// cyclesPerFloor is how many cycles are measured between two floors.
	cyclesPerFloor = 2
)

// floor measures what the memory allows for a number of rows and machines.
type floor struct {
	memory  *alloc.Arena
	rows    []uint64 // lineWords for each row
	words   []uint64 // one for each machine
	order   []uint32 // of the rows: where their lines begin, at random
	targets []uint32 // the machines at random
	sums    []uint64 // lineWords for each worker
}

func newFloor(rows, machines, workers int) *floor {
	a := alloc.NewArena(alloc.Pass)
	f := &floor{
		memory: a, rows: alloc.Make[uint64](a, rows*lineWords), words: alloc.Make[uint64](a, machines),
		order: alloc.Make[uint32](a, rows), targets: alloc.Make[uint32](a, machines), sums: make([]uint64, workers*lineWords),
	}
	for i := range f.rows {
		f.rows[i] = 1 // pages that were never written are all the same one
	}
	r := rand.New(rand.NewPCG(1, 2))
	shuffled(r, f.order, lineWords)
	shuffled(r, f.targets, 1)
	f.run() // the first has the caches of nobody
	return f
}

// shuffled fills a slice with the multiples of step below len(into)*step, in random order.
func shuffled(r *rand.Rand, into []uint32, step uint32) {
	for i := range into {
		into[i] = uint32(i) * step
	}
	r.Shuffle(len(into), func(i, j int) { into[i], into[j] = into[j], into[i] })
}

// close gives the memory back.
func (f *floor) close() { f.memory.Close() }

// run does the work once and returns how long it took.
func (f *floor) run() time.Duration {
	workers := len(f.sums) / lineWords
	var wg sync.WaitGroup
	start := time.Now()
	for w := range workers {
		wg.Go(func() { f.sums[w*lineWords] = f.part(w, workers) })
	}
	wg.Wait()
	return time.Since(start)
}

// part is the share of one worker. It returns a sum, so that nothing that is read can be left out.
func (f *floor) part(worker, workers int) (sum uint64) {
	share := func(n int) (from, to int) { return n * worker / workers, n * (worker + 1) / workers }
	from, to := share(len(f.order))
	for _, v := range f.rows[from*lineWords : to*lineWords] {
		sum += v
	}
	for _, at := range f.order[from:to] {
		sum += f.rows[at]
	}
	from, to = share(len(f.targets))
	for _, at := range f.targets[from:to] {
		f.words[at] = f.words[at]*3 + 1
	}
	return sum
}
