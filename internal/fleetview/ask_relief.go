package fleetview

import (
	"context"
	"errors"
	"fmt"
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
	// reliefAgeMin is for how long an answer is good whatever happens, and reliefAgeMax for as long as as many Needs are short.
	reliefAgeMin, reliefAgeMax = 10 * time.Second, time.Minute
)

// relieved is the last answer of relief, for everybody who looks at the page.
type relieved struct {
	mu     sync.Mutex
	answer *advice.Relief
	short  int // Needs that were short when it was found
	found  time.Time
}

// relief computes which machines, of one kind, would satisfy the most Needs that are short. In a process of several shards it is about
// that with the most such Needs.
func (v *View) relief(ctx context.Context, _ url.Values) (any, error) {
	part, short := 0, 0
	for i, p := range v.parts {
		p.Recorder.mu.Lock()
		if n := p.Recorder.unmet.total; n > short {
			part, short = i, n
		}
		p.Recorder.mu.Unlock()
	}
	if short == 0 {
		return &advice.Relief{}, nil
	}
	// Whoever asks meanwhile waits for the same answer.
	v.relieved.mu.Lock()
	defer v.relieved.mu.Unlock()
	if age := time.Since(v.relieved.found); v.relieved.answer != nil && (age < reliefAgeMin || age < reliefAgeMax && v.relieved.short == short) {
		return v.relieved.answer, nil
	}
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
	if err != nil {
		return nil, err
	}
	v.relieved.answer, v.relieved.short, v.relieved.found = answer.(*advice.Relief), short, time.Now()
	return v.relieved.answer, nil
}
