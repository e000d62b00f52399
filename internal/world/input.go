package world

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// WriteInput writes what a cycle of an engine looked at as a world in JSON: read
// again, it gives the same decision. Rows of the demand are named by
// cluster and row, from 0; stamps and reservations are written as they are, whether or
// not their Need still exists. The rails of a shard are no part of it; see WriteShard.
//
// Lost is what no decision depends on: hosts, and what the provider says of the last
// error of a machine that has not failed.
func WriteInput(out io.Writer, in engine.Input, opts engine.Options) error {
	return momentOf(&in, &opts, nil, nil).write(context.Background(), out)
}

// Names are names of Needs that are better known than by cluster and row; "" = this one is not.
type Names func(cluster string, n *model.Need) string

// WriteShard is WriteInput for a running shard, and writes what its rails hold back. That
// changes no decision. What is written is a copy of the shard's tables: the shard is locked only while they are copied, as in
// CopyShard. names may be nil. The error is the context's, that of inspect, or of out.
func WriteShard(ctx context.Context, out io.Writer, inspect Inspect, names Names) error {
	m, err := lookAt(inspect, names)
	if err != nil {
		return err
	}
	if err := m.write(ctx, out); err != nil {
		return err
	}
	return ctx.Err()
}

// write writes the file; it ends early once the context has ended.
func (m *moment) write(ctx context.Context, out io.Writer) error {
	x := inputWriter{out: bufio.NewWriterSize(out, 1<<16)}
	x.j.open('{')
	x.time("now", m.now)
	x.j.line(" ")
	x.options(&m.opts, m.drainSeconds)
	x.held(m.held)
	x.j.line(" ")
	x.j.key("reported")
	x.j.texts(m.reported())
	x.j.line(" ")
	x.j.key("needs")
	x.j.open('[')
	for name, n := range m.needs(ctx) {
		x.need(name, n)
	}
	x.j.close(']')
	x.j.line(" ")
	x.j.key("machines")
	x.j.open('[')
	for m := range m.machines(ctx) {
		x.machine(m)
	}
	x.j.b = append(x.j.b, "]}\n"...)
	x.flush()
	if err := x.out.Flush(); err != nil { // the first error, whenever it was
		return fmt.Errorf("write the input of a cycle: %w", err)
	}
	return nil
}

// inputWriter writes item by item.
type inputWriter struct {
	j   jsonWriter
	out *bufio.Writer
}

// Of returns what a Need of the demand is called. f may be nil. A name that reads like a cluster and a row is not
// taken over: another Need may be called so.
func (f Names) Of(cluster string, row int, n *model.Need) string {
	if f != nil {
		if name := f(cluster, n); name != "" && !NamesRow(name) {
			return name
		}
	}
	return nameOfRow(cluster, row)
}

// NamesRow tells whether a name ends in a slash and digits, as that of a cluster and a row does.
func NamesRow(name string) bool {
	digits := strings.TrimRight(name, "0123456789")
	return digits != name && strings.HasSuffix(digits, "/")
}

// flush hands on what was written, all but the last byte: it tells the writer
// what may follow.
func (x *inputWriter) flush() {
	last := len(x.j.b) - 1
	_, _ = x.out.Write(x.j.b[:last]) // the error stays with out
	x.j.b = append(x.j.b[:0], x.j.b[last])
	if x.j.b[0] == '\n' {
		_ = x.out.WriteByte('\n')
		x.j.b = x.j.b[:0]
	}
}

// time writes a time; files know none before 1970.
func (x *inputWriter) time(key string, nanos int64) {
	x.j.key(key)
	x.j.text(time.Unix(0, max(nanos, 0)).UTC().Format(time.RFC3339Nano))
}

// someTime writes a time unless it is 0.
func (x *inputWriter) someTime(key string, nanos int64) {
	if nanos != 0 {
		x.time(key, nanos)
	}
}

func (x *inputWriter) integer(key string, v int64) {
	if v != 0 {
		x.j.key(key)
		x.j.int(v)
	}
}

func (x *inputWriter) penalty(key string, b model.Bucket) {
	switch b {
	case model.BucketUnspecified:
	case model.BucketPinned:
		x.j.word(key, "pinned")
	default:
		x.j.number(key, b.Dollars())
	}
}

func (x *inputWriter) options(opts *engine.Options, drainSeconds map[string]float64) {
	x.j.key("options")
	x.j.open('{')
	x.integer("workers", int64(opts.Workers))
	x.j.word("acquire", opts.Acquire.String())
	if opts.MaxMachineShare > 0 {
		x.j.number("maxMachineShare", opts.MaxMachineShare)
	}
	if opts.Fit != engine.DefaultFit {
		x.j.key("fit")
		x.j.open('{')
		x.j.number("lambda", opts.Fit.Lambda)
		x.j.number("epsilon", opts.Fit.Epsilon)
		x.j.close('}')
	}
	x.j.key("gang")
	x.j.open('{')
	x.j.word("victims", opts.Victims.String())
	x.j.number("band", opts.Band)
	x.integer("topDomains", int64(opts.TopDomains))
	x.integer("searchPairs", int64(opts.SearchPairs))
	x.integer("searchUnits", int64(opts.SearchUnits))
	if len(opts.Nested) > 0 {
		x.j.names("nested", opts.Nested)
	}
	x.j.close('}')
	x.tenancy(&opts.Tenancy)
	x.j.key("weights")
	x.j.open('{')
	x.j.number("priority", opts.Weights.Priority)
	x.j.number("drainSpeed", opts.Weights.DrainSpeed)
	x.j.number("interruption", opts.Weights.Interruption)
	x.j.number("reclamation", opts.Weights.Reclamation)
	x.j.close('}')
	x.j.key("release")
	x.j.open('{')
	x.j.word("OnDemand", opts.Release.OnDemand.String())
	x.j.word("Spot", opts.Release.Spot.String())
	x.j.close('}')
	if len(drainSeconds) > 0 {
		x.j.key("drainSeconds")
		x.j.open('{')
		for _, t := range slices.Sorted(maps.Keys(drainSeconds)) {
			x.j.number(t, drainSeconds[t])
		}
		x.j.close('}')
	}
	x.j.close('}')
}

func (x *inputWriter) tenancy(t *engine.Tenancy) {
	if len(t.Tenants) == 0 {
		return
	}
	j := &x.j
	j.key("tenancy")
	j.open('{')
	j.key("tenants")
	j.open('[')
	for i := range t.Tenants {
		j.open('{')
		j.word("name", t.Tenants[i].Name)
		j.names("clusters", t.Tenants[i].Clusters)
		j.vector("share", t.Tenants[i].Share)
		j.close('}')
	}
	j.close(']')
	j.close('}')
}

func (x *inputWriter) need(name string, n *model.Need) {
	j := &x.j
	j.line("  ")
	j.open('{')
	j.word("name", name)
	j.word("cluster", n.Cluster)
	x.profile(n.Profile)
	j.vector("aggregate", n.Aggregate)
	j.vector("minUnit", n.MinUnit)
	j.vector("minAggregate", n.MinAggregate)
	j.word("group", n.Group)
	x.someTime("arrival", n.Arrival)
	x.time("shortSince", n.ShortSince) // left out it would be now
	j.flag("parked", n.Parked)
	j.close('}')
	x.flush()
}

func (x *inputWriter) profile(p *model.Profile) {
	j := &x.j
	x.integer("priority", int64(p.Priority()))
	x.penalty("interruptionPenalty", p.Interruption())
	x.penalty("reclamationPenalty", p.Reclamation())
	if list := p.Requirements(); len(list) > 0 {
		j.key("requirements")
		j.open('[')
		for i := range list {
			j.open('{')
			j.word("key", list[i].Key)
			j.word("operator", list[i].Operator.String())
			j.names("values", list[i].Values)
			j.close('}')
		}
		j.close(']')
	}
	if list := p.Spread(); len(list) > 0 {
		j.key("spread")
		j.open('[')
		for i := range list {
			j.open('{')
			j.word("topologyKey", list[i].Key)
			x.integer("maxSkew", int64(list[i].MaxSkew))
			j.word("whenUnsatisfiable", list[i].WhenUnsatisfiable.String())
			j.close('}')
		}
		j.close(']')
	}
}

func (x *inputWriter) machine(m *model.Machine) {
	j := &x.j
	j.line("  ")
	j.open('{')
	j.word("id", m.ID)
	j.word("state", m.State.String())
	j.word("cluster", m.Cluster)
	j.word("instanceType", m.InstanceType)
	j.word("zone", m.Zone)
	j.word("capacityType", m.CapacityType.String())
	j.vector("resources", m.Resources)
	j.vector("allocatable", m.Allocatable)
	x.labels(m.Labels)
	j.number("pricePerHour", m.PricePerHour)
	j.number("interruptionProbability", m.InterruptionProbability)
	if m.State == model.Idle {
		x.time("idleSince", m.IdleSince) // left out it would be now
	}
	if m.State == model.Failed {
		j.word("lastError", m.LastError)
	}
	x.assigned(&m.Assigned)
	if m.Reservation.Active() && slices.Contains(reservable, m.State) {
		x.reservation(&m.Reservation)
	}
	j.close('}')
	x.flush()
}

func (x *inputWriter) labels(labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	x.j.key("labels")
	x.j.open('{')
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		x.j.key(k)
		x.j.text(labels[k])
	}
	x.j.close('}')
}

func (x *inputWriter) assigned(a *model.Assignment) {
	if *a == (model.Assignment{}) {
		return
	}
	x.j.key("assigned")
	x.j.open('{')
	x.integer("priority", int64(a.Priority))
	x.penalty("interruptionPenalty", a.Interruption)
	x.penalty("reclamationPenalty", a.Reclamation)
	x.hex("fingerprint", a.Fingerprint)
	x.j.word("group", a.Group)
	x.j.close('}')
}

func (x *inputWriter) reservation(res *model.Reservation) {
	x.j.key("reservedFor")
	x.j.open('{')
	x.j.word("cluster", res.Owner.Cluster)
	x.hex("fingerprint", res.Owner.Fingerprint)
	x.j.word("group", res.Owner.Group)
	x.integer("priority", int64(res.Priority))
	x.penalty("interruptionPenalty", res.Interruption)
	x.penalty("reclamationPenalty", res.Reclamation)
	x.someTime("arrival", res.Arrival)
	x.someTime("until", res.Deadline)
	x.hex("plan", res.Plan)
	x.j.word("domain", res.Domain)
	x.j.close('}')
}

// hex writes a number that has no size, unless it is 0.
func (x *inputWriter) hex(key string, v uint64) {
	if v != 0 {
		x.j.word(key, fmt.Sprintf("%016x", v))
	}
}
