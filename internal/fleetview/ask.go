package fleetview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// AskMachinesMax is the most machines and rows of a shard about which the page decides again: copying the world
// takes about a second then. Commands have no such limit.
const AskMachinesMax = 60_000

// worldAgeMax is for how long a copy of the world is used again.
const worldAgeMax = 3 * time.Second

// asker decides again about the world of a shard, one question at a time.
type asker struct {
	turn  chan struct{} // of one slot
	part  int           // that the world is of
	made  time.Time
	world *world.World
}

// worldOf runs a question about the world of a shard. The world must not be changed.
func (v *View) worldOf(ctx context.Context, holds func(in engine.Input) bool, ask func(*world.World) (any, error)) (any, error) {
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
			found, rows = holds(in), in.Supply.Len()+in.Demand.Len()
			return nil
		})
		if !found {
			continue
		}
		if rows > AskMachinesMax {
			return nil, fmt.Errorf("%w: the shard has %d machines and rows, and the page decides again about at most %d; ask with the command, which shows the same: tonnage explain --shard or tonnage what-if --shard", web.ErrTooLarge, rows, AskMachinesMax)
		}
		w, err := v.asked.read(n, p)
		if err != nil {
			return nil, err
		}
		return ask(w)
	}
	return nil, fmt.Errorf("%w: no shard has it", web.ErrNotFound)
}

// askPatience is how long a question waits for the one before it.
const askPatience = 5 * time.Second

// read returns the world of a shard, one that was read lately if there is one.
func (a *asker) read(part int, p Part) (*world.World, error) {
	if a.world != nil && a.part == part && time.Since(a.made) < worldAgeMax {
		return a.world, nil
	}
	var text bytes.Buffer
	a.world = nil // the old one need not be held meanwhile
	err := p.Inspect(func(in engine.Input, opts engine.Options, held *shard.HeldBack) error {
		return world.WriteShard(&text, in, opts, held, nil)
	})
	if err != nil {
		return nil, err
	}
	if a.world, err = world.Read(&text); err != nil {
		return nil, fmt.Errorf("the world of the shard cannot be read: %w", err)
	}
	a.part, a.made = part, time.Now()
	return a.world, nil
}

// explain says why a Need (need) or a machine (machine) is as it is, as `tonnage explain -o json` does.
func (v *View) explain(ctx context.Context, q url.Values) (any, error) {
	need, machine := q.Get("need"), q.Get("machine")
	if (need == "") == (machine == "") {
		return nil, fmt.Errorf("%w: name one of need and machine", web.ErrBadQuery)
	}
	subjects := &world.Subjects{Needs: map[string]bool{}, Machines: map[string]bool{}}
	holds := func(in engine.Input) bool { _, ok := in.Supply.Lookup(machine); return ok }
	if need != "" {
		subjects.Needs[need] = true
		holds = func(in engine.Input) bool { return in.Demand.Block(clusterOf(need)) != nil }
	} else {
		subjects.Machines[machine] = true
	}
	return v.worldOf(ctx, holds, func(w *world.World) (any, error) {
		answer, err := w.Explain(subjects)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", web.ErrNotFound, err)
		}
		var out bytes.Buffer
		err = answer.WriteExplanationJSON(&out)
		return json.RawMessage(out.Bytes()), err
	})
}

// WhatIfAnswer is what losing machines would do.
type WhatIfAnswer struct {
	Lost   int             `json:"lost"`
	Answer json.RawMessage `json:"answer"` // as `tonnage what-if -o json` writes it
}

// whatIf says what it would do to lose machines: lose names one, or key and value a domain.
func (v *View) whatIf(ctx context.Context, q url.Values) (any, error) {
	lose, key, value := q.Get("lose"), q.Get("key"), q.Get("value")
	if (lose == "") == (key == "") {
		return nil, fmt.Errorf("%w: name a machine to lose, or key and value of a domain", web.ErrBadQuery)
	}
	lost := []string{lose}
	if key != "" {
		f, err := v.copy()
		if err != nil {
			return nil, err
		}
		if _, err := f.keyOf(key); err != nil {
			return nil, err
		}
		if lost = f.lost(key, value); len(lost) == 0 {
			return nil, fmt.Errorf("%w: no machine has %.80s %.80q", web.ErrNotFound, key, value)
		}
	}
	holds := func(in engine.Input) bool { _, ok := in.Supply.Lookup(lost[0]); return ok }
	return v.worldOf(ctx, holds, func(w *world.World) (any, error) { return askLoss(w, lost) })
}

// askLoss asks what losing machines would do. Those that are not in the world, or not any more, are left out.
func askLoss(w *world.World, ids []string) (any, error) {
	there := make(map[string]bool, len(w.Machines))
	for i := range w.Machines {
		there[w.Machines[i].ID] = true
	}
	edits := &world.Edits{}
	for _, id := range ids {
		if there[id] {
			edits.Lose = append(edits.Lose, id)
		}
	}
	answer, err := whatif.Ask(w, edits)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := answer.WriteJSON(&out); err != nil {
		return nil, err
	}
	return WhatIfAnswer{Lost: len(edits.Lose), Answer: json.RawMessage(strings.TrimSpace(out.String()))}, nil
}
