package fleetview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/advice"
	"github.com/tonnage/tonnage/internal/pin"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

const (
	// AskMachinesMax is the most machines and rows of a shard about which the page decides again. Commands, which decide in a
	// process of their own, take any world that may be read.
	AskMachinesMax = 100_000
	// worldAgeMax is for how long a copy of the world is used again.
	worldAgeMax = 3 * time.Second
	// askPatience is how long a question waits for the one before it.
	askPatience = 5 * time.Second
	// helpTimeMax is how long the page looks for what would help a Need; what was found until then is the answer.
	helpTimeMax = 2 * time.Second
)

// asker decides again about the world of a shard, one question at a time.
type asker struct {
	turn  chan struct{} // of one slot
	part  int           // that the world is of
	made  time.Time
	world *world.World
	pace  pacer
}

// holding tells whether a shard is the one that a question is about.
type holding func(p Part, in engine.Input) bool

func holdsNeed(name string) holding {
	return func(p Part, in engine.Input) bool {
		_, _, err := findNeed(in, p.names(), name, "")
		return err == nil
	}
}

func holdsMachine(id string) holding {
	return func(_ Part, in engine.Input) bool {
		_, ok := in.Supply.Lookup(id)
		return ok
	}
}

// worldOf runs a question about the world of a shard. The question gets one processor, at the lowest priority, pauses while
// cycles run, and must not change the world.
func (v *View) worldOf(ctx context.Context, question string, holds holding, ask func(*world.World) (any, error)) (any, error) {
	select {
	case v.asked.turn <- struct{}{}:
		defer func() { <-v.asked.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(askPatience):
		return nil, fmt.Errorf("%w: somebody else is being answered; ask again in a moment", web.ErrBusy)
	}
	for n, p := range v.parts {
		found, rows := false, 0
		_ = p.Inspect(func(in engine.Input, _ engine.Options, _ *shard.HeldBack) error {
			found, rows = holds(p, in), in.Supply.Len()+in.Demand.Len()
			return nil
		})
		if !found {
			continue
		}
		if rows > AskMachinesMax {
			return nil, fmt.Errorf("%w: the shard has %d machines and rows, and the page decides again about at most %d; ask with the command, which shows the same: tonnage explain --shard or tonnage what-if --shard", web.ErrTooLarge, rows, AskMachinesMax)
		}
		answer, err := v.asked.answer(ctx, n, p, question, ask)
		if errors.Is(err, web.ErrNotFound) { // the shard has it, and the copy may be older
			v.asked.world = nil
			answer, err = v.asked.answer(ctx, n, p, question, ask)
		}
		return answer, err
	}
	return nil, fmt.Errorf("%w: no shard has what the question is about", web.ErrNotFound)
}

// answer runs a question about a copy of a shard's world.
func (a *asker) answer(ctx context.Context, part int, p Part, question string, ask func(*world.World) (any, error)) (answer any, err error) {
	w, err := a.read(ctx, part, p)
	if err != nil {
		return nil, err
	}
	a.pace.next(ctx, question)
	defer a.pace.end()
	pin.Aside(func() { answer, err = ask(w) })
	return answer, err
}

// read returns the world of a shard, one that was read lately if there is one.
func (a *asker) read(ctx context.Context, part int, p Part) (*world.World, error) {
	if a.world != nil && a.part == part && time.Since(a.made) < worldAgeMax {
		return a.world, nil
	}
	a.world = nil // the old one need not be held meanwhile

	kind := "tables" // of the first part, for which the shard is locked
	w, err := world.CopyShard(ctx, p.Inspect, p.names(), func() {
		a.pace.next(ctx, kind)
		kind = "copy"
	})
	a.pace.end()
	if err != nil {
		return nil, err
	}
	w.Options.Engine.Workers = 1 // the others are for the shard's cycles
	a.world, a.part, a.made = w, part, time.Now()
	return w, nil
}

// explain says why a Need (need) or a machine (machine) is as it is, as `tonnage explain -o json` does. Of a machine
// that is bound it also says, as `free`, what would be done with it if it were free: why it, and what in its place.
func (v *View) explain(ctx context.Context, q url.Values) (any, error) {
	need, machine := q.Get("need"), q.Get("machine")
	if (need == "") == (machine == "") {
		return nil, fmt.Errorf("%w: name one of need and machine", web.ErrBadQuery)
	}
	subjects := &world.Subjects{Needs: map[string]bool{}, Machines: map[string]bool{}}
	if need != "" {
		subjects.Needs[need] = true
		return v.worldOf(ctx, "explain need", holdsNeed(need), func(w *world.World) (any, error) { return explained(w, subjects) })
	}
	subjects.Machines[machine] = true
	return v.worldOf(ctx, "explain machine", holdsMachine(machine), func(w *world.World) (any, error) {
		answer, err := explained(w, subjects)
		if err != nil {
			return nil, err
		}
		free, bound := freed(w, machine)
		if !bound {
			return answer, nil
		}
		again, err := explained(free, subjects)
		if err != nil {
			return nil, err
		}
		answer["free"] = again["machines"]
		return answer, nil
	})
}

func explained(w *world.World, subjects *world.Subjects) (map[string]json.RawMessage, error) {
	answer, err := w.Explain(subjects)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", web.ErrNotFound, err)
	}
	var text bytes.Buffer
	if err := answer.WriteExplanationJSON(&text); err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	err = json.Unmarshal(text.Bytes(), &out)
	return out, err
}

// freed returns the world with one machine idle that is bound in it.
func freed(w *world.World, id string) (_ *world.World, bound bool) {
	out := w.With(&world.Edits{})
	for i := range out.Machines {
		m := &out.Machines[i]
		if m.ID != id || !m.State.Bound() {
			continue
		}
		m.State, m.Cluster, m.Assigned, m.IdleSince = model.Idle, "", model.Assignment{}, w.Now
		return out, true
	}
	return nil, false
}

// HelpAnswer is what would help a Need.
type HelpAnswer struct {
	*advice.Advice
	Millis float64 `json:"millis"` // how long it took to find out
}

// help computes what would help a Need, as `tonnage explain need --help-me -o json` does, for as long as the client waits and for
// helpTimeMax at most.
func (v *View) help(ctx context.Context, q url.Values) (any, error) {
	need, err := wanted(q, "need")
	if err != nil {
		return nil, err
	}
	return v.worldOf(ctx, "help", holdsNeed(need), func(w *world.World) (any, error) {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, helpTimeMax)
		defer cancel()
		a, err := advice.InParts(within, w, w.NameOf(need), func(x advice.Part) { v.asked.pace.next(within, x) })
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("%w: the first decision took longer than %v; ask again in a moment", web.ErrBusy, helpTimeMax)
		case err != nil && ctx.Err() == nil:
			return nil, fmt.Errorf("%w: %w", web.ErrNotFound, err)
		case err != nil:
			return nil, err
		}
		return HelpAnswer{a, float64(time.Since(began).Microseconds()) / 1e3}, nil
	})
}
