package rollup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// placed is what the request says that has the group of another be in a domain.
func placed(of *api.CapacityRequest, domain, resources string) *api.CapacityRequest {
	row, err := GroupOf(of)
	if err != nil {
		panic(err)
	}
	r := request(resources, in(of.Namespace))
	r.Labels = map[string]string{api.LabelPackingOverhead: row.Tag, "other": "x"}
	r.Annotations = map[string]string{api.AnnotationDomain: domain, "other": "x"}
	r.Spec.CoLocation = of.Spec.CoLocation
	Trim(r)
	return r
}

// where writes cores and requirements of rows, in the order of their cores.
func where(r *Result) string {
	var rows []string
	for _, n := range r.Needs {
		text := n.AggregateResources["cpu"] + "/" + n.MinUnit["cpu"]
		for _, q := range n.Requirements {
			text = strings.TrimRight(fmt.Sprintf("%s %s %s %s", text, q.Key, strings.TrimPrefix(q.Operator.String(), "OPERATOR_"), strings.Join(q.Values, ",")), " ")
		}
		rows = append(rows, text)
	}
	slices.Sort(rows)
	return strings.Join(rows, "; ")
}

// TestDomain: a group is where its overhead says, all of it, and asks for at least as much.
func TestDomain(t *testing.T) {
	first, second := &metav1.LabelSelector{MatchLabels: map[string]string{"job": "1"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"job": "2"}}
	one, other := request("cpu=2", together("zone", first), heard(0)), request("cpu=3", together("zone", second))
	all := []*api.CapacityRequest{one, request("cpu=1", together("zone", first)), other}
	const without = "3/2 zone SAME; 3/3 zone SAME"
	elsewhere := placed(one, "b", "cpu=1")
	elsewhere.Namespace = "tenant"
	apart := request("cpu=2")
	apart.Labels, apart.Annotations = map[string]string{api.LabelPackingOverhead: "0000000000000000-1"}, map[string]string{api.AnnotationDomain: "b"}
	for name, c := range map[string]struct {
		added []*api.CapacityRequest
		want  string
	}{
		"nothing is said":         {nil, without},
		"one is in b":             {[]*api.CapacityRequest{placed(one, "b", "cpu=1")}, "3/2 zone SAME zone IN b; 3/3 zone SAME"},
		"and asks for more":       {[]*api.CapacityRequest{placed(one, "b", "cpu=7")}, "3/3 zone SAME; 7/2 zone SAME zone IN b"},
		"more, wherever it is":    {[]*api.CapacityRequest{placed(one, "", "cpu=7")}, "3/3 zone SAME; 7/2 zone SAME"},
		"both are":                {[]*api.CapacityRequest{placed(one, "b", "cpu=1"), placed(other, "c", "cpu=1")}, "3/2 zone SAME zone IN b; 3/3 zone SAME zone IN c"},
		"in another namespace":    {[]*api.CapacityRequest{elsewhere}, without},
		"of nobody it is nothing": {[]*api.CapacityRequest{placed(request("cpu=1", together("rack", first)), "b", "cpu=1")}, without},
		"it is of no group":       {[]*api.CapacityRequest{apart}, without},
	} {
		t.Run(name, func(t *testing.T) {
			var g Aggregator
			for range 2 {
				if s := where(g.Aggregate(append(all[:3:3], c.added...))); s != c.want {
					t.Errorf("rows are %s, want %s", s, c.want)
				}
			}
			if s := where(g.Aggregate(all)); s != without {
				t.Errorf("without it rows are %s, want %s", s, without)
			}
			if s := where(g.Aggregate(append(all[:3:3], c.added...))); s != c.want {
				t.Errorf("with it again rows are %s, want %s", s, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		domain string
		want   error
	}{"too long": {strings.Repeat("x", 64), ErrLarge}, "no name": {"a\x00", ErrName}} {
		r := Aggregate(append(all[:3:3], placed(one, c.domain, "cpu=1")))
		if s := where(r); s != without || len(r.Refused) != 1 || !errors.Is(r.Refused[0].Err, c.want) {
			t.Errorf("%s: rows are %s, refused %v", name, s, r.Refused)
		}
	}
}

// TestRowsOfGroups: a member of a group has a row of its own kind, and nobody else has.
func TestRowsOfGroups(t *testing.T) {
	member, plain := request("cpu=2", together("zone", nil)), request("cpu=2", heard(1))
	if row, err := GroupOf(member); err != nil || row.Key == "" || row.Tag == "" {
		t.Errorf("a member is in %+v: %v", row, err)
	}
	if _, err := GroupOf(plain); !errors.Is(err, ErrNoRow) {
		t.Errorf("the row of a group of one that is in none: %v", err)
	}
	if _, err := RowOf(member); !errors.Is(err, ErrNoRow) {
		t.Errorf("the row of a member: %v", err)
	}
}
