package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/state"
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
	*assign.Worker // of who commits
	p              *assign.Pass
	racers         []racer
	n              int
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
	*assign.Worker
	p    *assign.Pass
	at   []uint32
	walk []uint32 // by class: the walk for which at holds
	now  uint32
}

func newRace(p *assign.Pass, all []*assign.Worker) *race {
	l := all[0]
	r := &race{Worker: l, p: p, racers: make([]racer, raceNeeds), word: alloc.Make[uint64](l.Arena, p.Snap.Supply.RowMax())}
	for _, other := range all {
		classes := len(p.Snap.Classes)
		r.scouts = append(r.scouts, scout{Worker: other, p: p, at: alloc.MakeDirty[uint32](l.Arena, classes), walk: alloc.Make[uint32](l.Arena, classes)})
	}
	return r
}

// Race has an engine acquire by racing from now on.
func Race(e *Engine) {
	e.store.Racing = acquireRacing
}

// acquireRacing gives all Needs their turns, by racing.
func acquireRacing(p *assign.Pass, all []*assign.Worker) {
	l, r := all[0], newRace(p, all)
	w := assign.NewWalk(l)
	for w.Gather() {
		for i, need := range w.Need[:w.N] {
			rank := w.Rank[i]
			if r.mayEnter(need, rank) {
				r.enter(need, rank)
				continue
			}
			r.run()
			if p.IsTurnIdle(int(rank), p.KindAt[rank]) || p.Lines[need].Is(state.IsSatisfied) {
				continue
			}
			l.BlockUpTo(rank)
			l.TakeTurn(need, rank)
		}
	}
	r.run()
	l.Figures.Counts.Proposals += r.walks.Load()
	l.Figures.Counts.Retries, l.Figures.Counts.Conflicts, l.Figures.Counts.Displacements, l.Figures.Counts.RetriesExhausted = r.retries.Load(), r.lost.Load(), r.takenOver.Load(), r.givenUp.Load()
}

// mayEnter reports whether a need can race: a choice among all machines is no walk.
func (r *race) mayEnter(need, rank int32) bool {
	n := &r.p.Lines[need]
	k := &r.p.Kinds[n.Kind]
	return r.p.Opts.Acquire == AcquireCheapest && !k.Same && len(k.Spread) == 0 && !r.p.Special.Has(uint32(rank)) && n.Status&(state.SitsOut|state.IsUncredited) == 0 && !r.p.AnyLower(k)
}

// enter lets a need race; a full window is run first, and one in which a
// reservation would begin to count.
func (r *race) enter(need, rank int32) {
	blocks := r.p.Reserved.Blocks
	if r.n == raceNeeds || r.NextBlock < len(blocks) && blocks[r.NextBlock].From <= rank {
		r.run()
		r.BlockUpTo(rank)
	}
	for stage := range r.p.Stock.Free {
		if x := r.p.Stock.Ladders[r.p.KindOf(need).Number][stage]; x.Epoch != r.p.Stock.Epoch {
			x.Epoch = r.p.Stock.Epoch
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
	r.p.Crew.Run(func(worker int) { r.work(&r.scouts[worker]) })
	gave := r.Figures.GaveBack
	for i := range r.racers[:r.n] {
		r.reopened = r.Figures.GaveBack != gave
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
	k := s.p.KindOf(x.need)
	x.claims = x.claims[:0]
	s.Resume(x.need)
	for stage := range s.p.Stock.Free {
		s.now++
		ladder := r.p.Stock.Ladders[k.Number][stage]
		for j := ladder.Low; j < len(ladder.Steps) && s.Lacks != 0; {
			row, ok := r.nextOf(s, &ladder.Steps[j], k, stage, i)
			if !ok {
				j++
				continue
			}
			s.Figures.Probes++
			if r.claimFor(row, i) {
				x.claims = append(x.claims, raceClaim{row, stage})
				s.Subtract(s.p.Snap.View.Class[row])
			}
			s.at[s.p.Snap.View.Class[row]]++
		}
	}
}

// nextOf returns the first machine of a step's classes that helps and that
// nobody above the racer claims.
func (r *race) nextOf(s *scout, x *free.Step, k *state.Kind, stage int, i uint32) (row columnar.Row, ok bool) {
	pool := &s.p.Stock.Free[stage]
	best := uint32(free.Exhausted)
	for _, c := range x.Classes[:x.Live] {
		if s.p.ClassMask[c]&s.Lacks == 0 || !k.AcceptsClass(c) {
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
		if m := pool.Lists.Rows[at]; pool.Place.Of(m) < best {
			best, row, ok = pool.Place.Of(m), m, true
		}
	}
	return row, ok
}

// skip passes over what is taken, and what somebody above a racer claims.
func (r *race) skip(lists *snapshot.Lists, at, class, i uint32) uint32 {
	for end := lists.Off[class+1]; at < end; at++ {
		if m := lists.Rows[at]; !r.p.Taken[m] && r.claimant(atomic.LoadUint64(&r.word[m])) >= i {
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
	n := &r.p.Lines[x.need]
	if r.p.Spent[n.Kind] {
		return
	}
	r.Visit(x.need)
	k := &r.p.Kinds[n.Kind]
	r.Resume(x.need)
	if x.state.Load() == raceGivenUp || r.reopened || r.robbed(x) {
		r.Acquire(x.need, k)
	} else {
		for _, c := range x.claims {
			r.ClaimFree(c.row, x.need, c.stage)
		}
		r.GiveBackSuperfluous(x.need, k)
	}
	r.VoidTaken(x.need)
	r.FinishTurn(x.need, x.rank)
	if r.Lacks != 0 && !r.p.AnyFree(k) {
		r.p.Spent[n.Kind] = true
	}
}

// robbed reports whether something that a racer claimed went to one above it
// that was decided in its turn.
func (r *race) robbed(x *racer) bool {
	for _, c := range x.claims {
		if r.p.Taken[c.row] {
			r.lost.Add(1)
			return true
		}
	}
	return false
}
