package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
)

const (
	// faultsLook is how often it is looked whether the file has changed.
	faultsLook = 200 * time.Millisecond
	// faultsBytesMax is the longest file that is read.
	faultsBytesMax = 1 << 20
	faultTimesMax  = 1_000_000
)

// The kinds of faults, as the file spells them.
var faultKinds = []string{"fail", "late", "refuse", "lose", "slow"}

// faultsFile is what the file says.
type faultsFile struct {
	calls  []server.Trouble
	atOnce []simulated.Fault
	late   []simulated.Fault
	vanish []string
	repair []string
	prices map[string]float64
}

// faultFile is one fault while it is read.
type faultFile struct {
	kind, on, machine string
	times             int64
	probability       float64
	delay             time.Duration
}

func oneOf(r *document.Reader, n *document.Node, words []string, into *string) {
	if r.Text(n, into); n.Kind == document.Text && !slices.Contains(words, *into) {
		r.Fault("must be one of %s, got %s", strings.Join(words, ", "), document.Quote(*into))
	}
}

var faultSchema = document.NewSchema(
	document.Field[faultFile]{Key: "kind", Required: true, Read: func(r *document.Reader, n *document.Node, f *faultFile) { oneOf(r, n, faultKinds, &f.kind) }},
	document.Field[faultFile]{Key: "on", Read: func(r *document.Reader, n *document.Node, f *faultFile) { oneOf(r, n, server.Methods(), &f.on) }},
	document.Field[faultFile]{Key: "machine", Read: func(r *document.Reader, n *document.Node, f *faultFile) { r.Name(n, &f.machine) }},
	document.Field[faultFile]{Key: "times", Read: func(r *document.Reader, n *document.Node, f *faultFile) { r.Int(n, 1, faultTimesMax, &f.times) }},
	document.Field[faultFile]{Key: "probability", Read: func(r *document.Reader, n *document.Node, f *faultFile) { r.Float(n, 0, 1, &f.probability) }},
	document.Field[faultFile]{Key: "delay", Read: func(r *document.Reader, n *document.Node, f *faultFile) {
		r.Duration(n, server.DelayMax, &f.delay)
	}},
)

var faultsSchema = document.NewSchema(
	document.Field[faultsFile]{Key: "faults", Read: func(r *document.Reader, n *document.Node, f *faultsFile) {
		r.List(n, func(_ int, n *document.Node) {
			x := faultFile{on: server.MethodAny}
			faultSchema.Read(r, n, &x)
			f.add(r, &x)
		})
	}},
	document.Field[faultsFile]{Key: "vanish", Read: func(r *document.Reader, n *document.Node, f *faultsFile) { r.Names(n, &f.vanish) }},
	document.Field[faultsFile]{Key: "repair", Read: func(r *document.Reader, n *document.Node, f *faultsFile) { r.Names(n, &f.repair) }},
	document.Field[faultsFile]{Key: "prices", Read: func(r *document.Reader, n *document.Node, f *faultsFile) {
		f.prices = map[string]float64{}
		r.Map(n, func(id string, n *document.Node) {
			var price float64
			r.Float(n, 0, math.MaxFloat64, &price)
			f.prices[id] = price
		})
	}},
)

// add enters one fault where it belongs.
func (f *faultsFile) add(r *document.Reader, x *faultFile) {
	if (x.times > 0) == (x.probability > 0) {
		r.Fault("give either times or a probability above 0")
		return
	}
	if (x.kind == "slow") != (x.delay > 0) {
		r.Fault("a delay above 0 belongs to kind slow, and to no other")
		return
	}
	machine := simulated.Fault{Machine: x.machine, Times: int(x.times), Probability: x.probability}
	call := server.Trouble{Method: x.on, Machine: x.machine, Times: int(x.times), Probability: x.probability, Delay: x.delay}
	switch x.kind {
	case "fail", "late":
		op, ok := shard.ParseOp(x.on)
		if !ok {
			r.FaultKey("on", "%s leaves no machine Failed; use refuse, lose or slow", x.on)
			return
		}
		if machine.Op = op; x.kind == "late" {
			f.late = append(f.late, machine)
		} else {
			f.atOnce = append(f.atOnce, machine)
		}
		return
	case "refuse":
		call.Kind = server.Refuse
	case "lose":
		call.Kind = server.Lose
	case "slow":
		call.Kind = server.Slow
	default:
		return // a fault already
	}
	f.calls = append(f.calls, call)
}

// readFaults reads the file; one that is not there says nothing.
func readFaults(path string) (*faultsFile, error) {
	out := &faultsFile{}
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, faultsBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > faultsBytesMax {
		return nil, fmt.Errorf("is longer than %d bytes", faultsBytesMax)
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return out, nil
	}
	root, fault := document.Parse(data)
	if fault != nil {
		return nil, fault
	}
	var r document.Reader
	faultsSchema.Read(&r, root, out)
	list, _ := r.Faults()
	var all []error
	for i := range list {
		all = append(all, &list[i])
	}
	return out, errors.Join(all...)
}

// troubles makes trouble as flags and file say.
type troubles struct {
	path   string
	rates  [2]float64 // of the flags: at once, late
	server *server.Server
	store  *store.Store
	log    *slog.Logger

	seen string // what the file looked like when it was read last
}

// look makes the trouble that the file asks for, if it has changed. A file that
// cannot be read changes nothing.
func (t *troubles) look(ctx context.Context) error {
	if t.path == "" && t.rates == [2]float64{} {
		return nil
	}
	now := "none"
	if t.path != "" {
		switch info, err := os.Stat(t.path); {
		case err == nil:
			now = fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
		case errors.Is(err, fs.ErrNotExist) && now != t.seen:
			t.log.Warn("--faults-file is not there; it makes trouble when it comes", "file", t.path)
		}
	}
	if now == t.seen {
		return nil
	}
	t.seen = now
	f := &faultsFile{}
	if t.path != "" {
		var err error
		if f, err = readFaults(t.path); err != nil {
			return fmt.Errorf("--faults-file %s: %w", t.path, err)
		}
	}
	for i, into := range [...]*[]simulated.Fault{&f.atOnce, &f.late} {
		if t.rates[i] > 0 {
			*into = append(*into, simulated.Fault{Probability: t.rates[i]})
		}
	}
	return t.apply(ctx, f)
}

func (t *troubles) apply(ctx context.Context, f *faultsFile) error {
	if err := t.server.SetTrouble(f.calls); err != nil {
		return err
	}
	err := t.store.Administer(ctx, func(fleet *simulated.Fleet) error {
		all := []error{fleet.SetFaults(f.atOnce, f.late)}
		for _, id := range f.repair {
			all = append(all, fleet.Heal(id))
		}
		for _, id := range slices.Sorted(maps.Keys(f.prices)) {
			price := f.prices[id]
			all = append(all, fleet.Change(id, simulated.Change{PricePerHour: &price}))
		}
		return errors.Join(all...)
	})
	lost, lostErr := t.store.Lose(ctx, f.vanish...)
	t.log.Info("trouble is as asked for", "calls", len(f.calls), "machinesAtOnce", len(f.atOnce), "machinesLate", len(f.late), "vanished", lost, "prices", len(f.prices))
	return errors.Join(err, lostErr)
}

// watch looks at the file until the context ends.
func (t *troubles) watch(ctx context.Context) error {
	tick := time.NewTicker(faultsLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := t.look(ctx); err != nil && ctx.Err() == nil {
			t.log.Error("the trouble that was asked for cannot be made in full", "error", err)
		}
	}
}
