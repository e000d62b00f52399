package fleetview

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/web"
)

// WhatIfAnswer is what a change would do.
type WhatIfAnswer struct {
	Lost  int `json:"lost"`  // machines
	Added int `json:"added"` // machines
	// Answer is as `tonnage what-if -o json` writes it; its lists of actions have whatIfActionsMax at most, and Begun and
	// Dropped count all of them.
	Answer  json.RawMessage `json:"answer"`
	Begun   int             `json:"begun"`
	Dropped int             `json:"dropped"`
}

// Limits of a question of the page.
const (
	whatIfActionsMax  = 500
	whatIfMachinesMax = 10_000 // that are added
)

// question is what a query asks about.
type question struct {
	add        string // a kind of machines as Pool reads it, or a machine like which they are
	count      int
	need       string
	priority   int
	prioritise bool
	relax      string // key of the Need's requirements that are left out
	lose       string // a machine
	key, value string // of a domain that is lost
}

func questionOf(q url.Values) (x question, err error) {
	x = question{add: q.Get("add"), need: q.Get("need"), lose: q.Get("lose"), key: q.Get("key"), value: q.Get("value"), relax: q.Get("relax"), prioritise: q.Get("priority") != ""}
	if x.count, err = integer(q, "count", 1, whatIfMachinesMax, 1); err != nil {
		return x, err
	}
	if x.priority, err = integer(q, "priority", -1<<31, 1<<31-1, 0); err != nil {
		return x, err
	}
	switch {
	case (x.need != "") != (x.prioritise || x.relax != ""):
		return x, fmt.Errorf("%w: need belongs to a priority, or to relax", web.ErrBadQuery)
	case x.key == "" && x.value != "":
		return x, fmt.Errorf("%w: value belongs to the key of a domain", web.ErrBadQuery)
	case x.need == "" && x.relax != "":
		return x, fmt.Errorf("%w: relax belongs to a need", web.ErrBadQuery)
	case x.add == "" && x.need == "" && x.lose == "" && x.key == "":
		return x, fmt.Errorf("%w: nothing is to change: name machines to add, a Need and its new priority or a key whose requirements it is to have no more, a machine to lose, or key and value of a domain to lose", web.ErrBadQuery)
	}
	return x, nil
}

// edits writes the change as a file of changes would.
func (x *question) edits(w *world.World) (*world.Edits, error) {
	doc := map[string]any{}
	if x.add != "" {
		pool := w.Pool(x.add)
		pool["count"] = x.count
		doc["pools"] = []any{pool}
	}
	if x.need != "" {
		edit := map[string]any{"name": w.NameOf(x.need)}
		if x.prioritise {
			edit["priority"] = x.priority
		}
		if n := w.Need(w.NameOf(x.need)); x.relax != "" && n != nil {
			list, has := world.WithoutRequirements(n, x.relax)
			if !has {
				return nil, fmt.Errorf("%w: %.80q has no requirement on %.80q", web.ErrNotFound, x.need, x.relax)
			}
			edit["requirements"] = list
		}
		doc["needs"] = []any{edit}
	}
	if x.lose != "" {
		doc["lose"] = []any{x.lose}
	}
	if x.key != "" {
		doc["loseWhere"] = []any{map[string]any{"key": x.key, "value": x.value}}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	e, err := w.ReadEdits(bytes.NewReader(text))
	if faults, ok := errors.AsType[*world.Faults](err); ok {
		says := make([]string, len(faults.List))
		for i := range faults.List {
			says[i] = faults.List[i].Msg
		}
		return nil, fmt.Errorf("%w: %s", web.ErrBadQuery, strings.Join(says, "; "))
	}
	return e, err
}

// whatIf says what a change would do: machines that join, another priority of a Need, a machine or a domain that is lost.
func (v *View) whatIf(ctx context.Context, q url.Values) (any, error) {
	x, err := questionOf(q)
	if err != nil {
		return nil, err
	}
	holds := func(Part, engine.Input) bool { return true }
	switch {
	case x.need != "":
		holds = holdsNeed(x.need)
	case x.lose != "":
		holds = holdsMachine(x.lose)
	case x.key != "":
		f, err := v.copy()
		if err != nil {
			return nil, err
		}
		if _, err := f.keyOf(x.key); err != nil {
			return nil, err
		}
		lost := f.lost(x.key, x.value)
		if len(lost) == 0 {
			return nil, fmt.Errorf("%w: no machine has %.80s %.80q", web.ErrNotFound, x.key, x.value)
		}
		holds = holdsMachine(lost[0])
	}
	return v.worldOf(ctx, "whatif", holds, func(w *world.World) (any, error) {
		edits, err := x.edits(w)
		if err != nil {
			return nil, err
		}
		return askWhatIf(w, edits)
	})
}

func askWhatIf(w *world.World, edits *world.Edits) (any, error) {
	answer, err := whatif.Ask(w, edits)
	if err != nil {
		return nil, err
	}
	out := WhatIfAnswer{Lost: len(edits.Lose), Added: len(edits.Machines), Begun: len(answer.Begun), Dropped: len(answer.Dropped)}
	answer.Begun = answer.Begun[:min(len(answer.Begun), whatIfActionsMax)]
	answer.Dropped = answer.Dropped[:min(len(answer.Dropped), whatIfActionsMax)]
	var text bytes.Buffer
	if err := answer.WriteJSON(&text); err != nil {
		return nil, err
	}
	out.Answer = json.RawMessage(bytes.TrimSpace(text.Bytes()))
	return out, nil
}

// KindRow is machines that are alike to whoever adds some: by type, how they are paid for, zone and price.
type KindRow struct {
	Name     string   `json:"name"` // as `what-if --add` takes it
	Type     string   `json:"type"`
	Capacity string   `json:"capacity"`
	Machines int      `json:"machines"`
	Price    float64  `json:"price"` // the least, USD an hour
	Offers   []Amount `json:"offers"`
}

// kinds lists the kinds of machines that there are, those with most machines first.
func (v *View) kinds(context.Context, url.Values) (any, error) {
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	type kind struct {
		instanceType string
		capacity     model.CapacityType
	}
	rows := map[kind]*KindRow{}
	for i := range f.ids {
		c := &f.classes[f.class[i]]
		k := kind{c.instanceType, f.capacity[i]}
		if c.instanceType == "" || f.state[i] == model.Failed || f.state[i] == model.Deleting {
			continue
		}
		r := rows[k]
		if r == nil {
			r = &KindRow{Name: k.instanceType + "/" + k.capacity.String(), Type: k.instanceType, Capacity: k.capacity.String(), Price: c.price, Offers: vectorOf(c.offers)}
			rows[k] = r
		}
		r.Machines++
		r.Price = min(r.Price, c.price)
	}
	out := make([]KindRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b KindRow) int {
		return cmp.Or(cmp.Compare(b.Machines, a.Machines), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), listDefault)], nil
}
