package rollup

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// PlannedRow is what one row asks for by a plan, in place of the sum of its requests. A request with the label
// [api.LabelPackingOverhead] has such rows, as JSON, in the annotation [api.AnnotationRows].
type PlannedRow struct {
	// Tag names the row, as in [Row]; "" is a row of no requests: that of machines that are held.
	Tag string `json:"tag,omitempty"`
	// Resources are what it asks for, Unit is its smallest unit. A row without resources is not reported.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	Unit      corev1.ResourceList `json:"unit,omitempty"`
}

// heldKind is the kind of the rows of no requests: that of machines that are held, and those of ApartTag.
const heldKind = 1

// ApartMax is how many rows of no requests a plan may have beside that of machines that are held.
const ApartMax = ClassesMax - 1

// ApartTag is the tag of the i-th of them, from 0 to ApartMax - 1.
func ApartTag(i int) string { return (&overhead{heldKind, uint64(i + 2)}).tag() }

// plannedMax is how many rows a plan may have.
const plannedMax = 4096

// plan is what a request says of rows.
type plan struct {
	rows    []uint32 // indexes in the rows, of the part until it is joined
	amounts [][]amount
	domain  string // where the only row of it, a group, has to be; "" = it is no plan of a group
}

// planOf returns the text of a plan. Nobody but the operator writes in its namespace, so that no other namespace
// says what all ask for.
func planOf(request *api.CapacityRequest) (text string, is bool) {
	if request.Namespace != api.NamespaceOfPlans || request.Labels[api.LabelPackingOverhead] == "" {
		return "", false
	}
	text, is = request.Annotations[api.AnnotationRows]
	return text, is
}

// readPlan reads the rows of a plan.
func (p *part) readPlan(i int, request *api.CapacityRequest, text string) error {
	var rows []PlannedRow
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return fmt.Errorf("%w: annotation %s: %w", ErrUnreadable, api.AnnotationRows, err)
	}
	if len(rows) > plannedMax {
		return fmt.Errorf("%w: annotation %s has %d rows, at most %d are read", ErrLarge, api.AnnotationRows, len(rows), plannedMax)
	}
	out := &plan{}
	for j := range rows {
		tag := &overhead{heldKind, 1}
		if rows[j].Tag != "" {
			tag = readTag(rows[j].Tag)
		}
		p.size.begin(request)
		p.size.overhead, p.size.class = tag, tag.class
		var asks, unit shares
		asks.overhead, unit.overhead = true, true
		for list, to := range map[*corev1.ResourceList]*shares{&rows[j].Resources: &asks, &rows[j].Unit: &unit} {
			if err := p.measure(*list, to); err != nil {
				return err
			}
		}
		at, err := p.row(request)
		if err != nil {
			return err
		}
		var r row
		asks.overhead, unit.overhead = false, false
		r.add(&asks)
		for k := range r.amounts {
			r.amounts[k].top = 0
		}
		for x := range unit.all {
			r.at(x.dim).top = x.n
		}
		out.rows, out.amounts = append(out.rows, at), append(out.amounts, r.amounts)
	}
	if p.plans == nil {
		p.plans = map[int]*plan{}
	}
	p.plans[i] = out
	return nil
}

// all are the shares, one after the other.
func (s *shares) all(yield func(share) bool) {
	for i := range s.used {
		if !yield(share{s.n[i], s.dim[i]}) {
			return
		}
	}
	if s.more != nil {
		for _, x := range *s.more {
			if !yield(x) {
				return
			}
		}
	}
}

// join gives rows and resources their numbers in the whole.
func (l *plan) join(part *part) {
	for i, at := range l.rows {
		l.rows[i] = part.to[at]
		for k := range l.amounts[i] {
			l.amounts[i][k].dim = part.dimTo[l.amounts[i][k].dim]
		}
	}
}

// applyPlans has rows ask for what plans say, and together for no less than their requests that were heard: those that were
// not, the next plan knows. A plan for rows without any requests is passed over, and so is one that asks for nothing.
func (g *Aggregator) applyPlans() {
	live := g.plans[:0:0]
	for _, l := range g.plans {
		if l.domain != "" {
			if g.applyDomain(l) {
				live = append(live, l)
			}
			continue
		}
		var heard, planned row
		for i, at := range l.rows {
			r := g.row(at)
			heard.members += r.members
			for k := range r.amounts {
				a := heard.at(r.amounts[k].dim)
				a.sum = saturatingAdd(a.sum, r.amounts[k].sum)
			}
			for _, x := range l.amounts[i] {
				a := planned.at(x.dim)
				a.sum = saturatingAdd(a.sum, x.sum)
			}
		}
		if len(planned.amounts) == 0 || heard.members == 0 {
			continue
		}
		for i, at := range l.rows {
			r := g.row(at)
			r.exact, r.planned = append([]amount(nil), l.amounts[i]...), g.round
		}
		first := row{amounts: g.rows[l.rows[0]].exact}
		for _, a := range heard.amounts {
			if short := a.sum - planned.at(a.dim).sum; short > 0 {
				first.at(a.dim).sum += short
			}
		}
		g.rows[l.rows[0]].exact = first.amounts
		live = append(live, l)
	}
	g.plans = live
}

// dropPlans has rows ask for what their requests do. Groups stay where they are: that adds no rows.
func (g *Aggregator) dropPlans() {
	live := g.plans[:0:0]
	for _, l := range g.plans {
		if l.domain != "" {
			live = append(live, l)
			continue
		}
		for _, at := range l.rows {
			g.rows[at].planned = 0
		}
	}
	g.plans = live
}

// placePlanned gives rows that are not reported the place of one that is, of the same plan.
func (g *Aggregator) placePlanned() {
	for _, l := range g.plans {
		instead := int32(-1)
		for _, at := range l.rows {
			if g.rows[at].asks() {
				instead = g.places[at]
			}
		}
		for _, at := range l.rows {
			if !g.rows[at].asks() {
				g.places[at] = instead
			}
		}
	}
}

// asks tells whether a row asks for anything.
func (r *row) asks() bool {
	if r.planned != r.round {
		return r.members > 0
	}
	for i := range r.exact {
		if r.exact[i].sum > 0 {
			return true
		}
	}
	return false
}
