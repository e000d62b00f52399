package rollup

import (
	"fmt"
	"slices"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// A group is in the domain that a shard chooses, until a scheduler has placed one of its pods: then all others must run
// where this one does. A request with the annotation [api.AnnotationDomain] says where that is. It is in the row of the group, so
// that the whole group changes at once.

// domainBytesMax is how long the name of a domain is at most: the value of a label.
const domainBytesMax = 63

// domainOf returns where a request says that its group is.
func domainOf(request *api.CapacityRequest) (domain string, is bool) {
	if request.Labels[api.LabelPackingOverhead] == "" || !isMember(request) {
		return "", false
	}
	domain = request.Annotations[api.AnnotationDomain]
	return domain, domain != ""
}

// readDomain reads where a group is, and what it asks for at the least.
func (p *part) readDomain(i int, request *api.CapacityRequest, domain string) error {
	if len(domain) > domainBytesMax {
		return fmt.Errorf("%w: annotation %s has %d bytes, at most %d are read", ErrLarge, api.AnnotationDomain, len(domain), domainBytesMax)
	}
	if err := model.CheckText(domain); err != nil {
		return fmt.Errorf("%w: annotation %s %w", ErrName, api.AnnotationDomain, err)
	}
	p.size.begin(request)
	asks := shares{overhead: true}
	if err := p.measure(request.Spec.Resources, &asks); err != nil {
		return err
	}
	at, err := p.row(request)
	if err != nil {
		return err
	}
	var r row
	r.add(&asks)
	if p.plans == nil {
		p.plans = map[int]*plan{}
	}
	p.plans[i] = &plan{rows: []uint32{at}, amounts: [][]amount{r.amounts}, domain: domain}
	return nil
}

// applyDomain has a group be where a plan says, and ask for at least what it says. Of a group without members it is nothing.
func (g *Aggregator) applyDomain(l *plan) bool {
	r := g.row(l.rows[0])
	if r.members == 0 {
		return false
	}
	var exact row
	for i := range r.amounts {
		a := exact.at(r.amounts[i].dim)
		a.sum, a.top = r.amounts[i].asked(), r.amounts[i].top
	}
	for _, x := range l.amounts[0] {
		a := exact.at(x.dim)
		a.sum = max(a.sum, x.least)
	}
	r.exact, r.planned, r.domain = exact.amounts, g.round, l.domain
	return true
}

// requirements are those of a row, with the domain of a group that is in one.
func (r *row) requirements(domain string) []*bigfleet.NodeSelectorRequirement {
	if domain == "" {
		return r.need.Requirements
	}
	out := slices.Clone(r.need.Requirements)
	for _, q := range r.need.Requirements {
		if q.Operator == bigfleet.NodeSelectorRequirement_OPERATOR_SAME {
			out = append(out, &bigfleet.NodeSelectorRequirement{
				Key: q.Key, Operator: bigfleet.NodeSelectorRequirement_OPERATOR_IN, Values: []string{domain},
			})
		}
	}
	return out
}
