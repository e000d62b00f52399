package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
	"github.com/tonnage/tonnage/web"
)

// shardPage is what a shard shows beside its metrics.
type shardPage struct {
	feed  *web.Feed
	feeds *pageFeed
	calls *countedProvider
}

// newPage prepares the page of a shard whose machines come from a provider.
func (x *shardProcess) newPage(machines *countedProvider) *shardPage {
	feed := web.NewFeed(web.Info{
		Version: versionText(), Source: "shard " + x.plan.id, Provider: "provider at " + cmp.Or(x.plan.provider, "hand: machines in memory"),
		Started: time.Now(), CycleInterval: x.plan.shard.CycleInterval,
	})
	page := &pageFeed{feed: feed, failed: machines.failed.Load, sessions: func() (int, []web.Lowered) { return summarise(x.sessions.Sessions()) }, album: &planAlbum{}}
	return &shardPage{feed: feed, feeds: page, calls: machines}
}

// summarise counts sessions, and lists the clusters whose last roll-up had rows that
// the policy lowers.
func summarise(all []session.Info) (connected int, lowered []web.Lowered) {
	for i := range all {
		if n := all[i].Rollup.Lowered; n > 0 {
			lowered = append(lowered, web.Lowered{Cluster: all[i].Cluster, Rows: n, Limits: all[i].Limits.String()})
		}
	}
	slices.SortStableFunc(lowered, func(a, b web.Lowered) int { return cmp.Compare(b.Rows, a.Rows) })
	return len(all), lowered
}

// observe publishes a cycle, logs its phases where that was asked for, and
// tidies up.
func (x *shardProcess) observe(r *shard.CycleReport) {
	x.page.feeds.observe(r)
	x.tidy.after(r)
	if x.plan.phaseLog {
		x.logPhases(r)
	}
}

// handler serves the page, metrics and probes to everybody who reaches the
// address, and to this machine only what shows the fleet whole, changes it, or
// looks into the process.
func (x *shardProcess) handler() http.Handler {
	site := web.New(web.Config{Feed: x.page.feed, Metrics: x.registry, Ready: x.ready, World: x.writeWorld, Plan: x.page.feeds.album.write})
	mux := http.NewServeMux()
	mux.Handle("/", site)
	mux.Handle("GET "+worldPath, fromHere(site))
	mux.Handle("POST "+retirePath, fromHere(http.HandlerFunc(x.retire)))
	if x.pprof == nil {
		mux.Handle("GET /debug/pprof/", fromHere(profileHandler()))
	}
	return mux
}

// writeWorld writes what the next cycle would look at.
func (x *shardProcess) writeWorld(out io.Writer) error {
	return x.shard.Inspect(func(in engine.Input, opts engine.Options) error { return world.WriteInput(out, in, opts) })
}

// retire forgets a Failed machine.
func (x *shardProcess) retire(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("machine")
	if err := x.shard.Retire(id); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	x.log.Info("retired by hand", "machine", id)
	fmt.Fprintln(w, "retired")
}

// countedProvider counts the calls that fail.
type countedProvider struct {
	shard.Provider
	failed atomic.Int64
}

func (p *countedProvider) Create(ctx context.Context, req shard.CreateRequest) (shard.Record, error) {
	r, err := p.Provider.Create(ctx, req)
	return r, p.note(err)
}

func (p *countedProvider) Configure(ctx context.Context, req shard.ConfigureRequest) (shard.Record, error) {
	r, err := p.Provider.Configure(ctx, req)
	return r, p.note(err)
}

func (p *countedProvider) Drain(ctx context.Context, req shard.DrainRequest) (shard.Record, error) {
	r, err := p.Provider.Drain(ctx, req)
	return r, p.note(err)
}

func (p *countedProvider) Delete(ctx context.Context, req shard.DeleteRequest) (shard.Record, error) {
	r, err := p.Provider.Delete(ctx, req)
	return r, p.note(err)
}

func (p *countedProvider) note(err error) error {
	if err != nil {
		p.failed.Add(1)
	}
	return err
}
