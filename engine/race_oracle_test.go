package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Racing is the other way to acquire. Needs that stand next to each other in the
// order walk at the same time. Who finds a machine writes its own place into the
// machine's word, and takes it over from whoever stands further down; that one
// walks again. It is deferred acceptance (Gale and Shapley, 1962) with machines
// that all prefer the same order, and so comes to the one answer of the pass in
// rank order, whoever is faster:
//
//   - A need's order over the machines is fixed while it walks, and it walks
//     until it is covered.
//   - A machine changes hands only towards the top. What a need has lost it
//     does not get back, and what it claimed without the machine it claims all
//     the more when it lacks more: walks only add.
//   - Gangs and needs with spread choose by what everybody before them has left.
//     They do not race: the race before them comes to its end first. So does it
//     before a reservation begins to count. Nor do those race who could have what is
//     held for somebody below them.
//   - What a need gives back since something larger has made it superfluous, those
//     below it in the race may want: they are decided in their turn then.
//
// The outcome of a race is committed in rank order, and what is committed is
// looked at: a need that lost too often to be let on, and one that such a need
// took a machine from, is decided then and there, in its turn.
//
// It is five to six times slower than handing out whole components. It is here as a second oracle for
// the first way, for it shares neither heads nor ladders' steps with it.

// raceNeeds is how many needs race at a time.
const raceNeeds = 1024

// Tests change these: how often a need may walk in a race, and that those who
// stand furthest down walk first, which gives the most to take over.
var (
	raceTries     = 64
	raceBackwards = false
)

// racer is a need in a race.
type racer struct {
	need, rank int32
	state      atomic.Uint32
	tries      int
	claims     []raceClaim // of its last walk, in the order of the walk
}

// raceClaim is a machine of a stage.
type raceClaim struct {
	row   columnar.Row
	stage int
}

// The states of a racer. Only who has made it run changes it from there.
const (
	raceWaiting  uint32 = iota // to be walked
	raceRuns                   // somebody walks it
	raceRunsLost               // the same, and it has lost a machine meanwhile
	raceDone                   // covered, or nothing is left for it
	raceGivenUp                // decided when its turn comes
)

// race is a window of needs that race, and the counts of all of them.
type race struct {
	*worker // of who commits
	racers  []racer
	n       int
	// reopened says that what nobody could have in this race is free now.
	reopened bool
	// word says who claims a machine, by row: the number of the race above, the
	// place in it below. An older race's is nobody's.
	word   []uint64
	number uint64
	scouts []scout // by worker

	next    atomic.Int32
	pending atomic.Int32 // racers that wait or run
	mu      sync.Mutex
	again   []int32 // racers that have lost a machine

	walks, retries, lost, takenOver, givenUp atomic.Int64
}

// scout is where a worker's walk stands in the classes of a stage.
type scout struct {
	*worker
	at   []uint32
	walk []uint32 // by class: the walk for which at holds
	now  uint32
}

func newRace(l *worker) *race {
	r := &race{worker: l, racers: make([]racer, raceNeeds), word: alloc.Make[uint64](l.arena, l.p.s.Supply.RowMax())}
	for _, other := range l.p.e.workers {
		classes := len(l.p.s.Classes)
		r.scouts = append(r.scouts, scout{worker: other, at: alloc.MakeDirty[uint32](l.arena, classes), walk: alloc.Make[uint32](l.arena, classes)})
	}
	return r
}

// Race has an engine acquire by racing from now on.
func Race(e *Engine) { e.racing = (*worker).acquireRacing }

// acquireRacing is acquirePending, by racing.
func (l *worker) acquireRacing() {
	r := newRace(l)
	g := &gatherer{pass: l.p}
	b := &workers.Batch{}
	for g.fill(b); b.N > 0; g.fill(b) {
		for i, need := range b.Need[:b.N] {
			rank := b.Rank[i]
			if r.mayEnter(need, rank) {
				r.enter(need, rank)
				continue
			}
			r.run()
			if l.p.isIdle(int(rank), l.p.kindAt[rank], false) || l.p.lines[need].Is(state.IsSatisfied) {
				continue
			}
			l.blockUpTo(rank)
			l.takeTurn(need, rank)
		}
	}
	r.run()
	l.figures.counts.Proposals += r.walks.Load()
	l.figures.counts.Retries, l.figures.counts.Conflicts, l.figures.counts.Displacements, l.figures.counts.RetriesExhausted = r.retries.Load(), r.lost.Load(), r.takenOver.Load(), r.givenUp.Load()
}

// mayEnter reports whether a need can race: a choice among all machines is no walk.
func (r *race) mayEnter(need, rank int32) bool {
	n := &r.p.lines[need]
	k := &r.p.kinds[n.Kind]
	return r.p.e.opts.Acquire == AcquireCheapest && !k.Same && len(k.Spread) == 0 && !r.p.shortage.special[rank] && n.Status&(state.SitsOut|state.IsUncredited) == 0 && !r.p.anyLower(k)
}

// enter lets a need race; a full window is run first, and one in which a
// reservation would begin to count.
func (r *race) enter(need, rank int32) {
	blocks := r.p.reserved.Blocks
	if r.n == raceNeeds || r.nextBlock < len(blocks) && blocks[r.nextBlock].From <= rank {
		r.run()
		r.blockUpTo(rank)
	}
	for stage := range r.p.stock.free {
		if x := r.p.stock.ladders[r.p.kindOf(need).Number][stage]; x.Epoch != r.p.stock.epoch {
			x.Epoch = r.p.stock.epoch
			x.Reopen()
		}
	}
	x := &r.racers[r.n]
	x.need, x.rank, x.tries = need, rank, 0
	x.state.Store(raceWaiting)
	r.n++
}

// run lets the window race, and commits what comes of it in rank order.
func (r *race) run() {
	if r.n == 0 {
		return
	}
	r.number++
	r.next.Store(0)
	r.pending.Store(int32(r.n))
	r.p.e.crew.Run(func(worker int) { r.work(&r.scouts[worker]) })
	gave := r.figures.gaveBack
	for i := range r.racers[:r.n] {
		r.reopened = r.figures.gaveBack != gave
		r.commit(&r.racers[i])
	}
	r.n = 0
}

// work walks racers until none waits or runs any more.
func (r *race) work(s *scout) {
	for r.pending.Load() > 0 {
		if i := r.take(); i >= 0 {
			r.walkOut(s, i)
		} else {
			runtime.Gosched()
		}
	}
}

// take returns a racer that waits; -1 for none.
func (r *race) take() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.again); n > 0 {
		i := r.again[n-1]
		r.again = r.again[:n-1]
		return i
	}
	if i := r.next.Load(); i < int32(r.n) {
		r.next.Store(i + 1)
		if raceBackwards {
			i = int32(r.n) - 1 - i
		}
		return i
	}
	return -1
}

// walkOut walks a racer until it has not lost anything meanwhile, or too often.
func (r *race) walkOut(s *scout, i int32) {
	x := &r.racers[i]
	x.state.Store(raceRuns)
	for {
		if r.walks.Add(1); x.tries > 0 {
			r.retries.Add(1)
		}
		r.walk(s, uint32(i))
		x.tries++
		if x.state.CompareAndSwap(raceRuns, raceDone) {
			break
		}
		if x.tries >= raceTries {
			x.state.Store(raceGivenUp)
			r.givenUp.Add(1)
			break
		}
		x.state.Store(raceRuns)
	}
	r.pending.Add(-1)
}

// walk claims machines for a racer until it is covered, those that it has
// already among them.
func (r *race) walk(s *scout, i uint32) {
	x := &r.racers[i]
	k := s.p.kindOf(x.need)
	x.claims = x.claims[:0]
	s.resume(x.need)
	for stage := range s.p.stock.free {
		s.now++
		ladder := r.p.stock.ladders[k.Number][stage]
		for j := ladder.Low; j < len(ladder.Steps) && s.lacks != 0; {
			row, ok := r.nextOf(s, &ladder.Steps[j], k, stage, i)
			if !ok {
				j++
				continue
			}
			s.figures.probes++
			if r.claimFor(row, i) {
				x.claims = append(x.claims, raceClaim{row, stage})
				s.subtract(s.p.s.View.Class[row])
			}
			s.at[s.p.s.View.Class[row]]++
		}
	}
}

// nextOf returns the first machine of a step's classes that helps and that
// nobody above the racer claims.
func (r *race) nextOf(s *scout, x *free.Step, k *state.Kind, stage int, i uint32) (row columnar.Row, ok bool) {
	pool := &s.p.stock.free[stage]
	best := uint32(free.Exhausted)
	for _, c := range x.Classes[:x.Live] {
		if s.p.classMask[c]&s.lacks == 0 || !k.AcceptsClass(c) {
			continue
		}
		if s.walk[c] != s.now {
			s.walk[c], s.at[c] = s.now, pool.At[c]
		}
		at := r.skip(pool.Lists, s.at[c], c, i)
		s.at[c] = at
		if at == pool.Lists.Off[c+1] {
			continue
		}
		if m := pool.Lists.Rows[at]; pool.Place[m] < best {
			best, row, ok = pool.Place[m], m, true
		}
	}
	return row, ok
}

// skip passes over what is taken, and what somebody above a racer claims.
func (r *race) skip(lists *snapshot.Lists, at, class, i uint32) uint32 {
	for end := lists.Off[class+1]; at < end; at++ {
		if m := lists.Rows[at]; !r.p.taken[m] && r.claimant(atomic.LoadUint64(&r.word[m])) >= i {
			break
		}
	}
	return at
}

// nobody claims a machine.
const nobody = 1<<32 - 1

// claimant returns whose word it is in this race.
func (r *race) claimant(word uint64) uint32 {
	if word>>32 != r.number {
		return nobody
	}
	return uint32(word)
}

// claimFor claims a machine for a racer, from whoever stands below; false when
// somebody above it was faster.
func (r *race) claimFor(row columnar.Row, i uint32) bool {
	for {
		word := atomic.LoadUint64(&r.word[row])
		was := r.claimant(word)
		switch {
		case was == i:
			return true
		case was < i:
			r.lost.Add(1)
			return false
		case !atomic.CompareAndSwapUint64(&r.word[row], word, r.number<<32|uint64(i)):
			continue
		}
		if was != nobody {
			r.takenOver.Add(1)
			r.displace(int32(was))
		}
		return true
	}
}

// displace has a racer that has lost a machine walk again.
func (r *race) displace(i int32) {
	x := &r.racers[i]
	for {
		switch x.state.Load() {
		case raceDone:
			if x.tries >= raceTries {
				if x.state.CompareAndSwap(raceDone, raceGivenUp) {
					r.givenUp.Add(1)
					return
				}
				continue
			}
			// It counts again before it waits: the race must not end in between.
			r.pending.Add(1)
			if !x.state.CompareAndSwap(raceDone, raceWaiting) {
				r.pending.Add(-1)
				continue
			}
			r.mu.Lock()
			r.again = append(r.again, i)
			r.mu.Unlock()
			return
		case raceRuns:
			if x.state.CompareAndSwap(raceRuns, raceRunsLost) {
				return
			}
		default:
			return // it will be walked, or decided in its turn
		}
	}
}

// commit gives a racer what it has claimed, in its turn: everybody above it has
// theirs.
func (r *race) commit(x *racer) {
	n := &r.p.lines[x.need]
	if r.p.isSpent(n.Kind) {
		return
	}
	r.visit(x.need)
	k := &r.p.kinds[n.Kind]
	r.resume(x.need)
	if x.state.Load() == raceGivenUp || r.reopened || r.robbed(x) {
		r.acquire(x.need, k)
	} else {
		for _, c := range x.claims {
			r.acquired(c.row, x.need, c.stage)
		}
		r.giveBackSuperfluous(x.need, k)
	}
	r.voidTaken(x.need)
	r.finishTurn(x.need, x.rank)
	if r.lacks != 0 && !r.p.anyFree(k) {
		r.p.spend(n.Kind)
	}
}

// robbed reports whether something that a racer claimed went to one above it
// that was decided in its turn.
func (r *race) robbed(x *racer) bool {
	for _, c := range x.claims {
		if r.p.taken[c.row] {
			r.lost.Add(1)
			return true
		}
	}
	return false
}
