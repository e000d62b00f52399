package fleetview

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/web"
)

// Part is one shard of a process.
type Part struct {
	Recorder *Recorder
	// Inspect shows the shard's tables, as Shard.Inspect does.
	Inspect func(visit func(in engine.Input, opts engine.Options, held *shard.HeldBack) error) error
}

// names says what the shard's Needs are called.
func (p *Part) names() world.Names { return p.Recorder.cfg.Names }

// View answers questions about the shards of a process. Its methods may be called by any
// goroutine.
type View struct {
	parts []Part
	album *Album
	asked asker

	relieved relieved

	listing sync.Mutex // held while all Needs are listed

	mu    sync.Mutex // held while a copy is made: others wait for it and take it
	fleet *fleet
	grids grids
}

// NewView returns a view of the shards. album may be nil.
func NewView(album *Album, parts ...Part) *View {
	v := &View{parts: parts, album: album, asked: asker{turn: make(chan struct{}, 1)}}
	v.asked.pace.took = map[any]time.Duration{}
	for _, p := range parts {
		v.asked.pace.gates = append(v.asked.pace.gates, &p.Recorder.gate)
	}
	return v
}

// Queries are the answers below /api/v1.
func (v *View) Queries() map[string]web.Query {
	return map[string]web.Query{
		"needs": v.needs, "need": v.need,
		"machines": v.machines, "machine": v.machine,
		"clusters": v.clusters, "cluster": v.cluster, "tenants": v.tenants,
		"domains": v.domains, "domain": v.domain,
		"plans": v.plans, "plan": v.plan,
		"money": v.money, "map": v.layout, "cells": v.cells,
		"cycles": v.cycles, "changes": v.changes, "preemptions": v.preemptions,
		"explain": v.explain, "help": v.help, "relief": v.relief, "whatif": v.whatIf, "kinds": v.kinds,
	}
}

// copy returns a copy of the machines that is young enough.
func (v *View) copy() (*fleet, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fleet != nil && !v.fleet.rested() {
		return v.fleet, nil
	}
	f, err := copyFleet(v.parts)
	if err == nil {
		v.fleet = f
	}
	return f, err
}

// Limits of lists.
const (
	listDefault = 100
	listMax     = 1000
)

// window is the part of a list that is asked for.
type window struct{ offset, limit int }

func windowOf(q url.Values) (w window, err error) {
	if w.offset, err = integer(q, "offset", 0, 1<<30, 0); err != nil {
		return w, err
	}
	w.limit, err = integer(q, "limit", 1, listMax, listDefault)
	return w, err
}

// cut returns the window's part of a list.
func cut[T any](w window, list []T) []T {
	from := min(w.offset, len(list))
	return list[from:min(from+w.limit, len(list))]
}

func integer(q url.Values, key string, least, most, otherwise int) (int, error) {
	text := q.Get(key)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s must be a whole number between %d and %d, got %.40q", web.ErrBadQuery, key, least, most, text)
	}
	return n, nil
}

// wanted returns a value of the query that must be there.
func wanted(q url.Values, key string) (string, error) {
	if text := q.Get(key); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("%w: %s is missing", web.ErrBadQuery, key)
}

// Amount is one dimension of a vector, in its natural unit.
type Amount = web.Amount

func vectorOf(r model.Resources) []Amount {
	out := make([]Amount, len(r))
	for i, a := range r {
		out[i] = Amount{Name: a.Name, Value: a.Value}
	}
	return out
}

// share is the largest part of a whole, over the dimensions of the part that the whole has.
func share(part, whole model.Resources) float64 {
	most := 0.0
	for _, a := range part {
		if of := whole.Get(a.Name); of > 0 {
			most = max(most, float64(a.Value)/float64(of))
		}
	}
	return most
}

// unmetNow calls see with the unmet Needs of each shard's last cycle.
func (v *View) unmetNow(see func(*unmetList)) {
	for _, p := range v.parts {
		p.Recorder.mu.Lock()
		l := p.Recorder.unmet // its slices do not change
		p.Recorder.mu.Unlock()
		see(&l)
	}
}

// plans lists the plans that are kept.
func (v *View) plans(context.Context, url.Values) (any, error) {
	if v.album == nil {
		return []PlanRow{}, nil
	}
	return v.album.list(), nil
}

// PlanAnswer is one plan of preemption.
type PlanAnswer struct {
	PlanRow
	Takes []PlanVictim `json:"takes"` // the machines that it takes
}

// plan answers with one plan.
func (v *View) plan(_ context.Context, q url.Values) (any, error) {
	n, err := integer(q, "number", 1, 1<<62, 0)
	if err != nil {
		return nil, err
	}
	var x numberedPlan
	if v.album != nil {
		x = v.album.get(uint64(cmp.Or(n, 0)))
	}
	if x.number == 0 {
		return nil, fmt.Errorf("%w: plan %d is not kept; only the last %d are", web.ErrNotFound, n, AlbumPlansMax)
	}
	return PlanAnswer{x.about, x.taken}, nil
}
