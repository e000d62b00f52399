package fleetview

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"sync"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/advice"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/web"
)

const (
	// reliefTimeMax is how long the page looks for what would satisfy most Needs.
	reliefTimeMax = time.Second
	// reliefAgeMax is for how long an answer is good while the same Needs are short. When others are, it is good for nothing; the next
	// one is looked for after reliefAgeMin at least, and after reliefRest times as long as the last search took.
	reliefAgeMin, reliefAgeMax, reliefRest = time.Second, time.Minute, 10
)

// relieved is the last answer of relief, for everybody who looks at the page.
type relieved struct {
	mu     sync.Mutex
	answer *advice.Relief
	short  uint64 // which Needs were short of what then, see shortSet
	found  time.Time
	took   time.Duration
}

// shortSet tells which Needs are short, and of what, from others, in whatever order.
func (l *unmetList) shortSet() uint64 {
	sum := uint64(l.total)
	for i := range l.rows {
		of := fnv.New64a()
		fmt.Fprint(of, l.rows[i].name(), " ", l.rows[i].key.text(), " ", l.rows[i].reason == engine.UnmetAwaitingDrain, l.vector(&l.rows[i]))
		sum += of.Sum64()
	}
	return sum
}

// relief computes which machines, of one kind, would satisfy the most Needs that are short. In a process of several shards it is about
// that with the most such Needs. About a shard that is too large for the page to decide again, or about which there was no time to decide, it says nothing.
func (v *View) relief(ctx context.Context, _ url.Values) (any, error) {
	part, n := 0, 0
	var list unmetList
	v.unmetNow(func(l *unmetList) {
		if l.total > list.total {
			part, list = n, *l
		}
		n++
	})
	if list.total == 0 {
		return &advice.Relief{}, nil
	}
	set, none := list.shortSet(), &advice.Relief{Short: list.total, Exhausted: true}
	// Whoever asks meanwhile waits for the same answer.
	v.relieved.mu.Lock()
	defer v.relieved.mu.Unlock()
	last := &v.relieved
	switch age := time.Since(last.found); {
	case last.answer != nil && last.short == set && age < reliefAgeMax:
		return last.answer, nil
	case last.answer != nil && age < max(reliefAgeMin, reliefRest*last.took):
		return none, nil
	}
	began := time.Now()
	holds := func(p Part, _ engine.Input) bool { return p.Recorder == v.parts[part].Recorder }
	answer, err := v.worldOf(ctx, "relief", holds, func(w *world.World) (any, error) {
		within, cancel := context.WithTimeout(ctx, reliefTimeMax)
		defer cancel()
		r, err := advice.ForShort(within, w, func(x advice.Part) { v.asked.pace.next(within, x) })
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%w: the first decision took longer than %v; ask again in a moment", web.ErrBusy, reliefTimeMax)
		}
		return r, err
	})
	// The page asks this of every fleet, and nobody by a click: where there is no answer it says nothing.
	if errors.Is(err, web.ErrTooLarge) || errors.Is(err, web.ErrBusy) {
		answer, err = none, nil
	}
	if err != nil {
		return nil, err
	}
	last.answer, last.short, last.found, last.took = answer.(*advice.Relief), set, time.Now(), time.Since(began)
	return last.answer, nil
}
