package pools

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
)

// Error is everything that is wrong with a pools file.
type Error struct {
	Faults []Fault
	More   int // that are not in Faults
}

// Fault is one thing that is wrong.
type Fault struct {
	File         string
	Line, Column int // from 1; 0 = not known
	Path, Msg    string
}

// Error returns one line for each fault: file:line:column: path: message.
func (e *Error) Error() string {
	var lines []string
	for _, f := range e.Faults {
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", at, f.Path, f.Msg))
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// source is the text of one file and the reader of what it holds.
type source struct {
	name string
	text []byte
	r    reader
}

// add takes the faults of a source over.
func (e *Error) add(s *source) {
	faults, more := s.r.Faults()
	e.More += more
	for _, f := range faults {
		line, column, _ := document.Locate(s.text, f.Path)
		e.Faults = append(e.Faults, Fault{s.name, line, column, f.Path, f.Msg})
	}
}

// Read reads the pools file at a path, and the types files that it names. The error is an
// *Error, or one of the file system.
func Read(path string) (*File, error) {
	f, _, err := load(path)
	return f, err
}

// load reads a pools file, and returns all texts that it consists of.
func load(path string) (*File, [][]byte, error) {
	main, root, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	var in lists
	fileSchema.Read(&main.r, root, &in)
	sources := []*source{main}
	texts := [][]byte{main.text}
	read := map[string]*typesRead{}
	for i := range in.pools {
		p := &in.pools[i]
		if p.typesFile == "" {
			continue
		}
		name := p.typesFile
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		t := read[name]
		if t == nil {
			t = readTypesFile(name)
			read[name] = t
			if t.source != nil {
				sources, texts = append(sources, t.source), append(texts, t.source.text)
			}
		}
		if t.err != nil {
			main.r.FaultAt(fmt.Sprintf("pools[%d].typesFile", i), "%v", t.err)
		}
		p.types = append(p.types, t.types...)
	}
	out := in.build(&main.r)
	e := &Error{}
	for _, s := range sources {
		e.add(s)
	}
	if len(e.Faults) > 0 {
		return nil, texts, e
	}
	return out, texts, nil
}

// open reads a file as a document.
func open(path string) (*source, *node, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	text, err := readAll(in)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	root, fault := document.Parse(text)
	if fault != nil {
		return nil, nil, &Error{Faults: []Fault{{File: path, Path: fault.Path, Msg: fault.Msg}}}
	}
	return &source{name: path, text: text}, root, nil
}

// typesRead is a types file that was read.
type typesRead struct {
	source *source
	types  []typeFile
	err    error
}

func readTypesFile(path string) *typesRead {
	s, root, err := open(path)
	if err != nil {
		return &typesRead{err: err}
	}
	t := &typesRead{source: s}
	typesSchema.Read(&s.r, root, &t.types)
	for i := range t.types {
		t.types[i].from, t.types[i].at = &s.r, fmt.Sprintf("types[%d]", i)
	}
	return t
}

// build makes a File of what was read, and notes what contradicts itself.
func (l *lists) build(r *reader) *File {
	f := &File{Drivers: l.drivers, Quotas: l.quotas}
	drivers, quotas := map[string]bool{}, map[string]bool{}
	for i := range l.drivers {
		unique(r, drivers, l.drivers[i].Name, fmt.Sprintf("drivers[%d].name", i))
	}
	for i := range l.quotas {
		at := fmt.Sprintf("quotas[%d]", i)
		if unique(r, quotas, l.quotas[i].Name, at+".name"); l.quotas[i].Machines == 0 && l.quotas[i].Resources.IsZero() {
			r.FaultAt(at, "limits nothing; set machines or resources")
		}
	}
	names := map[string]bool{}
	offers := 0
	for i := range l.pools {
		p := &l.pools[i]
		at := fmt.Sprintf("pools[%d]", i)
		unique(r, names, p.Name, at+".name")
		if !drivers[p.Driver] {
			r.FaultAt(at+".driver", "there is no driver %s%s", document.Quote(p.Driver), nearest(p.Driver, drivers))
		}
		for k, q := range p.Quotas {
			if !quotas[q] {
				r.FaultAt(fmt.Sprintf("%s.quotas[%d]", at, k), "there is no quota %s%s", document.Quote(q), nearest(q, quotas))
			}
		}
		p.check(r, at)
		if offers += len(p.Offers); offers > OffersMax {
			r.FaultAt("pools", "have more than %d offers (type, zone, capacity type) together", OffersMax)
			break
		}
		f.Pools = append(f.Pools, p.Pool)
	}
	return f
}

func unique(r *reader, seen map[string]bool, name, at string) {
	if seen[name] && name != "" {
		r.FaultAt(at, "%s is there twice", document.Quote(name))
	}
	seen[name] = true
}

func nearest(name string, known map[string]bool) string {
	if near := document.Nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// check completes a pool, and notes what contradicts itself in it.
func (p *poolFile) check(r *reader, at string) {
	p.Owned = p.initial == initialIdle
	switch {
	case len(p.Hosts) > 0 && !p.Owned:
		r.FaultAt(at+".hosts", "belong to owned machines; write initial: idle, or leave them out")
	case len(p.Hosts) > 0 && p.Machines > 0:
		r.FaultAt(at+".machines", "is the number of hosts already; leave it out")
	case len(p.Hosts) > 0:
		p.Machines = len(p.Hosts)
	case p.Machines == 0:
		r.FaultAt(at+".machines", "is missing; say how many machines the pool has at most")
	}
	if p.Owned && p.LateBound {
		r.FaultAt(at+".lateBound", "an owned machine is there before it has a cluster; leave lateBound or initial: idle out")
	}
	if len(p.zones) > ZonesMax {
		r.FaultAt(at+".zones", "has %d zones; at most %d are read", len(p.zones), ZonesMax)
		return
	}
	if len(p.types) == 0 && p.typesFile == "" {
		r.FaultAt(at+".types", "is missing; name instance types here or in a typesFile")
	}
	names := map[string]bool{}
	for i := range p.types {
		t := &p.types[i]
		if t.from == nil {
			t.from, t.at = r, fmt.Sprintf("%s.types[%d]", at, i)
		}
		unique(t.from, names, t.name, t.at+".name")
		p.offer(t.from, t.at, t)
	}
	if p.Owned && len(p.Offers) > 1 {
		r.FaultAt(at, "has %d offers, and owned machines are of one; write a pool for each type and zone", len(p.Offers))
	}
}

// offer adds the offers of one instance type: one for each zone and capacity type that has a price.
func (p *poolFile) offer(r *reader, at string, t *typeFile) {
	zones := t.zones
	if len(zones) == 0 {
		zones = p.zones
	}
	if len(zones) == 0 {
		r.FaultAt(at+".zones", "is missing, and the pool has none")
		return
	}
	prices := t.pricesByOffer(r, at, zones)
	base := driver.Offer{
		Resources: t.resources, Allocatable: t.allocatable, Labels: maps.Clone(p.labels), Taints: p.taints, Template: p.template,
	}
	if base.Allocatable.IsZero() {
		base.Allocatable = t.resources
	}
	if base.Labels == nil {
		base.Labels = map[string]string{}
	}
	maps.Copy(base.Labels, t.labels)
	if t.template != nil {
		base.Template = t.template
	}
	for _, zone := range zones {
		for c := model.BareMetal; int(c) < model.NumCapacityTypes; c++ {
			price, ok := prices[priceKey{zone, c}]
			if !ok || len(p.capacityTypes) > 0 && !slices.Contains(p.capacityTypes, c) {
				continue
			}
			o := base
			o.Key = driver.Key{Pool: p.Name, InstanceType: t.name, Zone: zone, CapacityType: c}
			o.PricePerHour, o.InterruptionProbability = price.price, price.interruption
			p.Offers = append(p.Offers, &o)
		}
	}
}

type priceKey struct {
	zone         string
	capacityType model.CapacityType
}

// pricesByOffer spreads the prices of a type over zones; a price of one zone goes before one
// of all.
func (t *typeFile) pricesByOffer(r *reader, at string, zones []string) map[priceKey]priceFile {
	seen := map[priceKey]bool{}
	out := map[priceKey]priceFile{}
	for pass := range 2 { // of all zones first
		for i, price := range t.prices {
			if (price.zone != "") != (pass == 1) {
				continue
			}
			here := fmt.Sprintf("%s.prices[%d]", at, i)
			key := priceKey{price.zone, price.capacityType}
			if seen[key] {
				r.FaultAt(here, "is there twice")
			}
			seen[key] = true
			if price.capacityType == model.Spot && !(price.interruption > 0) {
				r.FaultAt(here+".interruptionProbability", "must be above 0 for Spot: the probability that a machine is taken back within an hour")
			}
			for _, z := range zones {
				if price.zone == "" || price.zone == z {
					out[priceKey{z, price.capacityType}] = price
				}
			}
			if price.zone != "" && !slices.Contains(zones, price.zone) {
				r.FaultAt(here+".zone", "%s is none of the zones", document.Quote(price.zone))
			}
		}
	}
	return out
}
