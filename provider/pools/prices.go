package pools

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// Listed is one row of a price list.
type Listed struct {
	InstanceType string
	Price
}

// priceColumns are the columns of a price list in CSV; zone and interruption_probability may be left out.
var priceColumns = []string{"instance_type", "capacity_type", "price_per_hour"}

var listedSchema = document.NewSchema(
	document.Field[Listed]{Key: "instanceType", Required: true, Read: func(r *reader, n *node, p *Listed) { r.Name(n, &p.InstanceType) }},
	document.Field[Listed]{Key: "capacityType", Required: true, Read: func(r *reader, n *node, p *Listed) { readCapacityType(r, n, &p.CapacityType) }},
	document.Field[Listed]{Key: "zone", Read: func(r *reader, n *node, p *Listed) { r.OptionalName(n, &p.Zone) }},
	document.Field[Listed]{Key: "pricePerHour", Required: true, Read: func(r *reader, n *node, p *Listed) { r.Float(n, 0, priceMax, &p.PricePerHour) }},
	document.Field[Listed]{Key: "interruptionProbability", Read: func(r *reader, n *node, p *Listed) { r.Float(n, 0, 1, &p.InterruptionProbability) }},
)

// ReadPrices reads a price list: CSV with the columns instance_type, capacity_type,
// price_per_hour and, if wanted, zone and interruption_probability; or a JSON list of objects with the
// keys instanceType, capacityType, pricePerHour, zone and interruptionProbability.
func ReadPrices(in io.Reader) ([]Listed, error) {
	b := bufio.NewReader(in)
	for {
		c, _, err := b.ReadRune()
		if err != nil {
			return nil, errors.New("the price list is empty")
		}
		if !unicode.IsSpace(c) {
			if err := b.UnreadRune(); err != nil {
				return nil, err
			}
			if c == '[' {
				return pricesOfJSON(b)
			}
			return pricesOfCSV(b)
		}
	}
}

func pricesOfJSON(in io.Reader) ([]Listed, error) {
	text, err := readAll(in)
	if err != nil {
		return nil, err
	}
	root, fault := document.Parse(text)
	if fault != nil {
		return nil, fault
	}
	s := source{name: "price list", text: text}
	var out []Listed
	listOf(&s.r, root, importRowsMax, "prices", listedSchema, &out, func() Listed { return Listed{} })
	e := &Error{}
	if e.add(&s); len(e.Faults) > 0 {
		return nil, e
	}
	return out, nil
}

func pricesOfCSV(in io.Reader) ([]Listed, error) {
	t, err := openTable(in, priceColumns)
	if err != nil {
		return nil, err
	}
	var out []Listed
	var faults []error
	for t.next() && len(faults) < document.FaultsMax {
		x := Listed{InstanceType: t.text("instance_type"), Price: Price{Zone: t.text("zone"), PricePerHour: t.number("price_per_hour"), InterruptionProbability: t.number("interruption_probability")}}
		if err := model.CheckName(x.InstanceType); err != nil {
			t.faults = append(t.faults, fmt.Errorf("column \"instance_type\" %w", err))
		}
		if x.CapacityType, _ = parseCapacityType(t.text("capacity_type")); x.CapacityType == model.CapacityUnspecified {
			t.wrong("capacity_type", "must be one of BareMetal, Reserved, OnDemand, Spot")
		}
		if t.text("price_per_hour") == "" || x.PricePerHour > priceMax {
			t.wrong("price_per_hour", fmt.Sprintf("must be from 0 to %v", float64(priceMax)))
		}
		if x.InterruptionProbability > 1 {
			t.wrong("interruption_probability", "must be from 0 to 1")
		}
		if err := t.fault(); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", t.line, err))
		}
		out = append(out, x)
	}
	if err := errors.Join(append(faults, t.err)...); err != nil {
		return nil, err
	}
	return out, nil
}

// ApplyPrices puts a price list over the prices of types. A row for a zone changes that zone; one
// without changes the price for all zones and removes those of single zones. A row without an interruption probability keeps the one
// there is. It returns how many rows name a type that is not there.
func ApplyPrices(types []Type, list []Listed) (unknown int) {
	byName := map[string]*Type{}
	for i := range types {
		byName[types[i].Name] = &types[i]
	}
	for _, row := range list {
		t := byName[row.InstanceType]
		if t == nil {
			unknown++
			continue
		}
		t.setPrice(row.Price)
	}
	return unknown
}

func (t *Type) setPrice(p Price) {
	if p.InterruptionProbability == 0 {
		for _, old := range t.Prices {
			if old.CapacityType == p.CapacityType && (old.Zone == p.Zone || old.Zone == "") {
				p.InterruptionProbability = old.InterruptionProbability
			}
		}
	}
	t.Prices = slices.DeleteFunc(t.Prices, func(old Price) bool {
		return old.CapacityType == p.CapacityType && (p.Zone == "" || old.Zone == p.Zone)
	})
	t.Prices = append(t.Prices, p)
	slices.SortFunc(t.Prices, func(a, b Price) int {
		return cmp.Or(cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
}

// ReadTypes reads a types file, as AppendTypes writes it.
func ReadTypes(path string) ([]Type, error) {
	in := readTypesFile(path)
	if in.err != nil {
		return nil, in.err
	}
	e := &Error{}
	if e.add(in.source); len(e.Faults) > 0 {
		return nil, e
	}
	var out []Type
	for _, t := range in.types {
		if t.template != nil {
			return nil, fmt.Errorf("%s: type %s has a template, which would be lost; keep it in the pool", path, document.Quote(t.name))
		}
		x := Type{Name: t.name, Zones: t.zones, Resources: t.resources, Allocatable: t.allocatable, Labels: t.labels}
		for _, p := range t.prices {
			x.Prices = append(x.Prices, Price{p.zone, p.capacityType, p.price, p.interruption})
		}
		out = append(out, x)
	}
	return out, nil
}

// AppendTypes appends a types file in YAML. The same types give the same bytes.
func AppendTypes(dst []byte, types []Type) []byte {
	dst = append(dst, "types:\n"...)
	for i := range types {
		t := &types[i]
		dst = fmt.Appendf(dst, "- name: %q\n", t.Name)
		if len(t.Zones) > 0 {
			dst = append(dst, "  zones: ["...)
			for k, z := range t.Zones {
				if k > 0 {
					dst = append(dst, ", "...)
				}
				dst = strconv.AppendQuote(dst, z)
			}
			dst = append(dst, "]\n"...)
		}
		dst = appendResources(dst, "resources", t.Resources)
		dst = appendResources(dst, "allocatable", t.Allocatable)
		if len(t.Labels) > 0 {
			dst = append(dst, "  labels: {"...)
			for k, key := range slices.Sorted(maps.Keys(t.Labels)) {
				if k > 0 {
					dst = append(dst, ", "...)
				}
				dst = fmt.Appendf(dst, "%q: %q", key, t.Labels[key])
			}
			dst = append(dst, "}\n"...)
		}
		dst = append(dst, "  prices:\n"...)
		for _, p := range t.Prices {
			dst = fmt.Appendf(dst, "  - {capacityType: %s, ", p.CapacityType)
			if p.Zone != "" {
				dst = fmt.Appendf(dst, "zone: %q, ", p.Zone)
			}
			dst = fmt.Appendf(dst, "pricePerHour: %v", p.PricePerHour)
			if p.InterruptionProbability > 0 {
				dst = fmt.Appendf(dst, ", interruptionProbability: %.6g", p.InterruptionProbability)
			}
			dst = append(dst, "}\n"...)
		}
	}
	return dst
}

func appendResources(dst []byte, key string, r model.Resources) []byte {
	if r.IsZero() {
		return dst
	}
	dst = fmt.Appendf(dst, "  %s: {", key)
	for i, a := range r {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = fmt.Appendf(dst, "%q: %q", a.Name, model.FormatQuantity(a.Name, a.Value))
	}
	return append(dst, "}\n"...)
}
