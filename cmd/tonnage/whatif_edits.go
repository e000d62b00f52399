package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
)

// Keys of machines that have flags of their own.
const (
	rackKey = "topology.kubernetes.io/rack"
	zoneKey = "topology.kubernetes.io/zone"
)

// changes are the flags that change something, with their values.
func (f *whatIfFlags) changes() [][]string {
	return [][]string{f.add, f.lose, f.loseRacks, f.loseZones, f.loseWhere, f.remove, f.priorities, f.relax, f.sizes, f.prices, f.weights}
}

// check refuses what cannot be asked together.
func (f *whatIfFlags) check(format string) error {
	inputs := 0
	for _, path := range []string{f.source.file, f.edits, f.batch} {
		if path == "-" {
			inputs++
		}
	}
	if inputs > 1 {
		return errors.New("the world and the changes cannot both be standard input; name a file for one")
	}
	if f.batch == "" {
		return nil
	}
	switch {
	case f.edits != "" || slices.ContainsFunc(f.changes(), func(c []string) bool { return len(c) > 0 }):
		return errors.New("--batch has all changes in its file; give the others there, as a question")
	case format == formatSVG || format == formatDiff:
		return fmt.Errorf("-o %s shows one answer; a batch takes -o table or -o json", format)
	}
	return nil
}

// whatIfBatch answers the questions of a file.
func whatIfBatch(s streams, f *whatIfFlags, w *world.World, format string) error {
	in, err := openFile(s, f.batch)
	if err != nil {
		return err
	}
	defer in.Close()
	questions, err := w.ReadBatch(in)
	if err != nil {
		return faultsIn(err, f.batch)
	}
	answers, err := whatif.AskAll(w, questions)
	if err != nil {
		return badInput(err)
	}
	if format == formatTable {
		return whatif.WriteBatchTable(s.out, answers)
	}
	return whatif.WriteBatchJSON(s.out, answers)
}

// whatIfEdits joins the changes of the file and those of the flags.
func whatIfEdits(s streams, f whatIfFlags, w *world.World) (*world.Edits, error) {
	flags, from, err := editsOfFlags(&f, w)
	if err != nil {
		return nil, badInput(err)
	}
	out, err := w.ReadEdits(bytes.NewReader(flags))
	if err != nil {
		return nil, badInput(namedByFlag(err, from))
	}
	if f.edits == "" {
		return out, nil
	}
	in, err := openFile(s, f.edits)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	file, err := w.ReadEdits(in)
	if err != nil {
		return nil, faultsIn(err, f.edits)
	}
	return file.Join(out), nil
}

// flagEdits are the changes of the flags as a file would have them, and which flag each is from.
type flagEdits struct {
	doc  map[string][]any
	from map[string][]string // by key: what to call each item in a message
}

func (e *flagEdits) add(key, flag string, item any) {
	e.doc[key] = append(e.doc[key], item)
	e.from[key] = append(e.from[key], flag)
}

// editsOfFlags writes the changes of the flags as a file would.
func editsOfFlags(f *whatIfFlags, w *world.World) ([]byte, map[string][]string, error) {
	e := flagEdits{doc: map[string][]any{}, from: map[string][]string{}}
	for key, names := range map[string][]string{"lose": f.lose, "remove": f.remove} {
		for _, name := range names {
			e.add(key, "--"+key, name)
		}
	}
	e.loses(f)
	for _, step := range []func(*whatIfFlags, *world.World) error{e.adds, e.pricesOf, e.needsOf} {
		if err := step(f, w); err != nil {
			return nil, nil, err
		}
	}
	doc := map[string]any{}
	for key, list := range e.doc {
		doc[key] = list
	}
	weights := map[string]any{}
	for _, text := range f.weights {
		name, weight, err := numberFlag("--weight", "NAME=NUMBER", text)
		if err != nil {
			return nil, nil, err
		}
		weights[name] = weight
	}
	if len(weights) > 0 {
		doc["weights"] = weights
	}
	text, err := json.Marshal(doc)
	return text, e.from, err
}

// loses adds racks, zones and others that go.
func (e *flagEdits) loses(f *whatIfFlags) {
	for _, x := range []struct {
		flag, key string
		values    []string
	}{{"--lose-rack", rackKey, f.loseRacks}, {"--lose-zone", zoneKey, f.loseZones}} {
		for _, value := range x.values {
			e.add("loseWhere", x.flag+" "+value, map[string]any{"key": x.key, "value": value})
		}
	}
	for _, text := range f.loseWhere {
		key, value, _ := strings.Cut(text, "=")
		e.add("loseWhere", "--lose-where "+text, map[string]any{"key": key, "value": value})
	}
}

func (e *flagEdits) adds(f *whatIfFlags, w *world.World) error {
	for _, text := range f.add {
		name, count, err := numberFlag("--add", "POOL=COUNT", text)
		if err != nil {
			return err
		}
		pool := w.Pool(name)
		pool["count"] = count
		e.add("pools", "--add "+text, pool)
	}
	return nil
}

func (e *flagEdits) pricesOf(f *whatIfFlags, w *world.World) error {
	for _, text := range f.prices {
		name, price, err := numberFlag("--price", "MACHINE=DOLLARS", text)
		if err != nil {
			return err
		}
		pool := w.Pool(name)
		if w.HasMachine(name) || !w.HasType(fmt.Sprint(pool["instanceType"])) {
			e.add("change", "--price "+text, map[string]any{"machine": name, "pricePerHour": price})
			continue
		}
		pool["pricePerHour"] = price
		e.add("changePools", "--price "+text, pool)
	}
	return nil
}

// needsOf adds what of needs changes; several flags may be about one.
func (e *flagEdits) needsOf(f *whatIfFlags, w *world.World) error {
	at := map[string]map[string]any{}
	need := func(name, flag string) map[string]any {
		if at[name] == nil {
			at[name] = map[string]any{"name": name}
			e.add("needs", flag, at[name])
		}
		return at[name]
	}
	for _, text := range f.priorities {
		name, priority, err := numberFlag("--priority", "NEED=NUMBER", text)
		if err != nil {
			return err
		}
		need(name, "--priority "+text)["priority"] = priority
	}
	for _, text := range f.relax {
		name, key, found := cutLast(text, "=")
		n := w.Need(name)
		switch {
		case !found:
			return fmt.Errorf("--relax: must be NEED=KEY, got %q", text)
		case n == nil:
			return fmt.Errorf("--relax: no need is named %q", name)
		}
		list, has := world.WithoutRequirements(n, key)
		if !has {
			return fmt.Errorf("--relax: need %q has no requirement on %q", name, key)
		}
		edit := need(name, "--relax "+text)
		if before, twice := edit["requirements"]; twice {
			list = common(before.([]any), list)
		}
		edit["requirements"] = list
	}
	for _, text := range f.sizes {
		name, list, found := cutLast(text, ":")
		if !found {
			return fmt.Errorf("--size: must be NEED:cpu=8,memory=32Gi, got %q", text)
		}
		size := map[string]any{}
		for _, part := range strings.Split(list, ",") {
			dimension, quantity, found := strings.Cut(part, "=")
			if !found {
				return fmt.Errorf("--size: must be NEED:cpu=8,memory=32Gi, got %q", text)
			}
			size[dimension] = quantity
		}
		need(name, "--size "+text)["aggregate"] = size
	}
	return nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// namedByFlag names what is wrong with changes of flags by the flags: they were never
// in a file.
func namedByFlag(err error, from map[string][]string) error {
	faults, ok := errors.AsType[*world.Faults](err)
	if !ok {
		return err
	}
	var all []error
	for _, fault := range faults.List {
		list, rest, _ := strings.Cut(fault.Path, "[")
		index, _, _ := strings.Cut(rest, "]")
		at, _ := strconv.Atoi(index)
		where := fault.Path
		if at < len(from[list]) {
			where = from[list][at]
		} else if name, ok := strings.CutPrefix(list, "weights."); ok {
			where = "--weight " + name
		}
		all = append(all, fmt.Errorf("%s: %s", cmp.Or(where, "$"), fault.Msg))
	}
	return errors.Join(all...)
}

// common returns what two lists of requirements have both, in the order of the first.
func common(a, b []any) []any {
	return slices.DeleteFunc(a, func(x any) bool {
		return !slices.ContainsFunc(b, func(y any) bool { return reflect.DeepEqual(x, y) })
	})
}
