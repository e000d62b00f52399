package buying

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tonnage/tonnage/engine"
)

// ChurnResult is what pods that come and go ended with.
type ChurnResult struct {
	Result
	Bought  int     // machines, once all pods had run
	Reclaim int     // machines that were given back since then
	Again   int     // of those bought, how many within 10 minutes after one of their type was given back
	First   float64 // how far the spend was above the bound when all ran first
	Longest int     // rounds that a pod was pending at the most
	// Mean spend and bound of all rounds after all pods had run for the first time, dollars an hour.
	MeanSpend, MeanBound float64
}

// MeanOver is how far the mean spend is above the mean bound, 0.02 = 2 %.
func (r *ChurnResult) MeanOver() float64 { return r.MeanSpend/r.MeanBound - 1 }

// Churning says how pods come and go.
type Churning struct {
	Rounds int
	Swaps  int // pods that leave in each round, and are replaced by others
	// Deploy redeploys one size when two fifths of the rounds have passed: for a round
	// there are twice as many pods of it.
	Deploy bool
	// Gangs are so many groups of four pods with 1, 2, 4 or 8 GPUs each, which must be in one of three zones. A third of them is
	// replaced while pods come and go.
	Gangs int
	Rest  int // rounds after that in which nothing comes and goes
	Seed  uint64
}

// Churn is [Run], and then rounds in each of which some pods leave and as many come, drawn from
// the feed with equal chances.
func Churn(types []Type, feed []Pod, place Placer, options engine.Options, c Churning) (*ChurnResult, error) {
	f, first, err := start(types, feed, place, options, c)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(c.Seed, 2))
	out := &ChurnResult{Result: *first, First: first.Over()}
	given, bought := f.given, len(f.machines)
	waits := map[string]int{}
	for n := range c.Rounds + c.Rest {
		if n >= c.Rounds {
			c.Swaps, c.Gangs = 0, 0
		}
		for range c.Swaps {
			f.leave(r.IntN(len(f.pods)))
			f.come(feed[r.IntN(len(feed))])
		}
		switch deployed := 2 * c.Rounds / 5; {
		case c.Deploy && n == deployed:
			f.deploy(r.IntN(len(f.pods)))
		case c.Deploy && n == deployed+1:
			f.retire()
		}
		if swaps := c.Gangs / 3; (n+1)*swaps/c.Rounds > n*swaps/c.Rounds {
			f.leaveGang(r.IntN(c.Gangs))
			f.comeGang(r)
		}
		if _, err := f.round(); err != nil {
			return nil, err
		}
		for i, at := range f.on {
			if at < 0 {
				waits[f.objects[i].Name]++
				out.Longest = max(out.Longest, waits[f.objects[i].Name])
			}
		}
		bound, err := Bound(types, f.pods)
		if err != nil {
			return nil, err
		}
		out.Bound = bound
		out.MeanSpend, out.MeanBound = out.MeanSpend+f.spend/float64(c.Rounds+c.Rest), out.MeanBound+bound/float64(c.Rounds+c.Rest)
	}
	out.Spend, out.Machines, out.Pending = f.spend, len(f.machines)-f.given, f.pending()
	out.Bought, out.Reclaim, out.Again = len(f.machines)-bought, f.given-given, f.again
	return out, nil
}

// deploy makes as many pods of one's size as there are; the old ones go with retire.
func (f *fleet) deploy(like int) {
	size := f.pods[like]
	for i := range len(f.pods) {
		if f.pods[i] == size {
			f.old = append(f.old, f.objects[i].Name)
			f.come(size)
		}
	}
}

func (f *fleet) retire() {
	for _, name := range f.old {
		if i := slices.IndexFunc(f.objects, func(p *corev1.Pod) bool { return p.Name == name }); i >= 0 {
			f.leave(i)
		}
	}
	f.old = nil
}

// leave takes a pod away.
func (s *site) leave(i int) {
	if at := s.on[i]; at >= 0 {
		for d, n := range s.pods[i] {
			s.machines[at].Used[d] -= n
		}
	}
	s.pods = slices.Delete(s.pods, i, i+1)
	s.objects, s.requests, s.on = slices.Delete(s.objects, i, i+1), slices.Delete(s.requests, i, i+1), slices.Delete(s.on, i, i+1)
}
