package main

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
	"github.com/tonnage/tonnage/web"
)

// shardPage is what a shard shows beside its metrics.
type shardPage struct {
	feed     *web.Feed
	recorder *fleetview.Recorder
	calls    *countedProvider
	album    fleetview.Album
}

// newPage prepares the page of a shard whose machines come from a provider.
func (x *shardProcess) newPage(machines *countedProvider) *shardPage {
	feed := web.NewFeed(web.Info{
		Version: versionText(), Source: "shard " + x.plan.id, Provider: "provider at " + cmp.Or(x.plan.provider, "hand: machines in memory"),
		Started: time.Now(), CycleInterval: x.plan.shard.CycleInterval,
	})
	page := &shardPage{feed: feed, calls: machines}
	page.recorder = fleetview.NewRecorder(fleetview.Config{
		Publish: feed.Publish, Failed: machines.failed.Load, Album: &page.album,
		Sessions: func() (int, []web.Lowered) { return summarise(x.sessions.Sessions()) },
	})
	return page
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
	x.page.recorder.Observe(r)
	x.tidy.after(r)
	if x.plan.phaseLog {
		x.logPhases(r)
	}
}

// site serves the page, its API, metrics and probes.
func (x *shardProcess) site() *web.Site {
	return web.New(web.Config{
		Feed: x.page.feed, Metrics: x.registry, Ready: x.ready, World: x.writeWorld, Plan: x.page.album.Write,
		Queries: fleetview.NewView(&x.page.album, fleetview.Part{Recorder: x.page.recorder, Inspect: x.shard.Inspect}).Queries(),
		Retire:  x.retire, Profiles: x.pprof == nil && x.pages == nil, Guard: x.guard,
	})
}

// serveEndpoints starts the HTTP servers. Without an address of its own, the page
// is at that of the metrics.
func (x *shardProcess) serveEndpoints(part func(func(context.Context) error)) {
	serve := func(l net.Listener, h http.Handler) {
		if l != nil {
			part(func(ctx context.Context) error { return httpguard.Serve(ctx, l, h, httpguard.Options{Log: x.log}) })
		}
	}
	serve(x.pprof, x.guard.Profiles())
	site := x.site()
	if x.pages == nil {
		serve(x.metrics, site)
		return
	}
	serve(x.metrics, probes(x.registry, x.ready, x.guard, x.pprof == nil))
	part(func(ctx context.Context) error { return site.Serve(ctx, x.pages, x.tls) })
}

// writeWorld writes what the next cycle would look at, and what the rails hold back.
func (x *shardProcess) writeWorld(ctx context.Context, out io.Writer) error {
	return world.WriteShard(ctx, out, x.shard.Inspect, nil)
}

// retire forgets a Failed machine.
func (x *shardProcess) retire(machine string) error {
	err := x.shard.Retire(machine)
	if err == nil {
		x.log.Info("retired by hand", "machine", machine)
	}
	return err
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
