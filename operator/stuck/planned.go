package stuck

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
)

// planned are the rows of a plan: of each machine that stays one row has it, the first in rank whose smallest unit it
// covers. So no row can take a machine that another has.
func (f *fleet) planned(x *family, missed []missing, gone map[string]bool) []rollup.PlannedRow {
	sums := make([]amounts, len(missed))
	for i := range missed {
		sums[i] = slices.Clone(missed[i].asks)
	}
	var unit amounts
	rest := make(amounts, len(f.dims))
	for i := range x.machines {
		m := &x.machines[i]
		if gone[m.name] {
			continue
		}
		to := rest
		if at := slices.IndexFunc(missed, func(k missing) bool { return covers(m.amounts, k.unit) }); at >= 0 {
			to = sums[at]
		} else {
			unit = smallest(unit, m.amounts)
		}
		for d, n := range m.amounts {
			to[d] += n
		}
	}
	if unit != nil {
		for i := range missed {
			unit = smallest(unit, missed[i].unit)
		}
		if len(gone) == 0 { // else the unit keeps what is given back away
			unit = smallest(unit, f.largestOf(x))
		}
	}
	out := []rollup.PlannedRow{{Resources: f.list(rest), Unit: f.list(unit)}}
	for _, r := range x.rows {
		p := rollup.PlannedRow{Tag: r.Tag}
		if at := slices.IndexFunc(missed, func(k missing) bool { return k.row == r }); at >= 0 {
			p.Resources, p.Unit = f.list(sums[at]), f.list(missed[at].unit)
		}
		out = append(out, p)
	}
	apart := 0
	for i := range missed {
		if missed[i].row == nil {
			out = append(out, rollup.PlannedRow{Tag: rollup.ApartTag(apart), Resources: f.list(sums[i]), Unit: f.list(missed[i].unit)})
			apart++
		}
	}
	return out
}

// largestOf is the most that a pod of the family asks for of each resource.
func (f *fleet) largestOf(x *family) amounts {
	out := make(amounts, len(f.dims))
	for _, r := range x.rows {
		out = largest(out, f.unit(r))
	}
	return out
}

// write makes the request that is a family's plan.
func (f *fleet) write(x *family, missed []missing, gone map[string]bool, now state) *api.CapacityRequest {
	r := x.rows[0]
	text, err := json.Marshal(f.planned(x, missed, gone))
	if err != nil {
		panic(err) // quantities and names
	}
	out := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{
		Name: planName(x.key), Namespace: api.NamespaceOfPlans, Labels: map[string]string{api.LabelPackingOverhead: r.Tag},
		Annotations: map[string]string{
			api.AnnotationRows: string(text), annotationAbsorbed: strconv.Itoa(now.tried.absorbed), annotationInVain: strconv.Itoa(now.tried.inVain),
		},
	}}
	for annotation, at := range map[string]time.Time{annotationRaised: now.raised, annotationSpare: now.spare, annotationLowered: now.lowered, annotationParted: now.parted.at} {
		if !at.IsZero() {
			out.Annotations[annotation] = at.UTC().Format(time.RFC3339)
		}
	}
	if now.parted.sizes != "" {
		out.Annotations[annotationApart] = now.parted.sizes
	}
	if len(x.adopted) > 0 {
		out.Annotations[annotationAdopted] = namesOf(x.adopted)
	}
	if len(gone) > 0 {
		out.Annotations[annotationGone] = namesOf(gone)
	}
	out.Spec = *r.of.Spec.DeepCopy()
	out.Spec.Resources = f.list(f.askedBy(x, missed, gone))
	return out
}

// askedBy is what all rows of a plan ask for together.
func (f *fleet) askedBy(x *family, missed []missing, gone map[string]bool) amounts {
	sum := make(amounts, len(f.dims))
	for i := range x.machines {
		if m := &x.machines[i]; !gone[m.name] {
			for d, n := range m.amounts {
				sum[d] += n
			}
		}
	}
	for i := range missed {
		for d, n := range missed[i].asks {
			sum[d] += n
		}
	}
	return sum
}

// wantedOf is what all pods of a family ask for.
func (f *fleet) wantedOf(x *family) amounts {
	out := make(amounts, len(f.dims))
	for _, r := range x.rows {
		for d, n := range f.wanted(r) {
			out[d] += n
		}
	}
	return out
}

// countPlan adds up what the rows ask for beyond the sum of their pods.
func (f *fleet) countPlan(x *family, missed []missing, gone map[string]bool, out *Result) {
	sum := f.askedBy(x, missed, gone)
	for d, n := range f.wantedOf(x) {
		q := quantity(f.dims[d], max(0, sum[d]-n))
		out.Overhead[f.dims[d]] += q.AsApproximateFloat64()
	}
}

// sameNotes tells whether two plans say the same.
func sameNotes(a, b *api.CapacityRequest) bool {
	for _, name := range []string{api.AnnotationRows, annotationAbsorbed, annotationInVain, annotationRaised, annotationSpare, annotationLowered, annotationGone, annotationApart, annotationParted, annotationAdopted} {
		if a.Annotations[name] != b.Annotations[name] {
			return false
		}
	}
	return a.Labels[api.LabelPackingOverhead] == b.Labels[api.LabelPackingOverhead]
}
