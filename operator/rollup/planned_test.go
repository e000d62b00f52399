package rollup

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// planned makes the plan of the rows that are like a request: each row as "request asks/unit", where request is
// the index of one of the row, or "-" for the row of machines that are held.
func planned(t *testing.T, requests []*api.CapacityRequest, rows ...string) *api.CapacityRequest {
	t.Helper()
	var all []PlannedRow
	for _, text := range rows {
		fields := strings.Split(text, "/")
		p := PlannedRow{Resources: request(fields[1]).Spec.Resources, Unit: request(fields[2]).Spec.Resources}
		if fields[0] != "-" {
			row, err := RowOf(requests[fields[0][0]-'0'])
			if err != nil {
				t.Fatal(err)
			}
			p.Tag = row.Tag
		}
		all = append(all, p)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	out := overheadOf(t, requests[0], "cpu=1")
	out.Namespace, out.Annotations = api.NamespaceOfPlans, map[string]string{api.AnnotationRows: string(text), "other": "x"}
	Trim(out)
	return out
}

// TestPlanned: the rows of a plan ask for what it says, with the units that it says.
func TestPlanned(t *testing.T) {
	small, wide, giant := request("cpu=2", heard(1)), request("cpu=4", heard(2)), request("cpu=20", heard(1))
	all := []*api.CapacityRequest{small, wide, giant}
	elsewhere := planned(t, all, "-/cpu=40/cpu=1")
	elsewhere.Namespace = "tenant"
	unreadable := planned(t, all, "-/cpu=40/cpu=1")
	unreadable.Annotations[api.AnnotationRows] = "{"
	unlike := planned(t, []*api.CapacityRequest{request("cpu=1", heard(1), priority(7))}, "-/cpu=40/cpu=1", "0//")
	for name, c := range map[string]struct {
		requests []*api.CapacityRequest
		want     string
	}{
		"machines that are held":           {append(all[:3:3], planned(t, all, "-/cpu=40/cpu=1", "0//", "1//", "2//")), "40/1"},
		"and what is missing":              {append(all[:3:3], planned(t, all, "-/cpu=10/cpu=1", "0//", "1/cpu=34/cpu=3", "2//")), "10/1 34/3"},
		"no less than the requests":        {append(all[:3:3], planned(t, all, "-/cpu=10/cpu=1", "0//", "1/cpu=3/cpu=3", "2//")), "23/1 3/3"},
		"nothing is held":                  {append(all[:3:3], planned(t, all, "-//", "0//", "1/cpu=30/cpu=3", "2//")), "30/3"},
		"a row that it does not name":      {append(all[:3:3], planned(t, all, "-/cpu=10/cpu=1", "0//", "1//")), "10/1 20/20"},
		"those that nobody has heard wait": {append(all[:3:3], planned(t, all, "-/cpu=30/cpu=1", "0//", "1//", "2//"), request("cpu=3"), request("cpu=3")), "30/1"},
		"it asks for nothing":              {append(all[:3:3], planned(t, all, "-//", "0//", "1//", "2//")), "2/2 20/20 4/4"},
		"of nobody it is nothing":          {append(all[:3:3], unlike), "2/2 20/20 4/4"},
		"in another namespace":             {append(all[:3:3], elsewhere), "2/2 20/20 4/4"},
		"it cannot be read":                {append(all[:3:3], unreadable), "2/2 20/20 4/4"},
	} {
		t.Run(name, func(t *testing.T) {
			var g Aggregator
			for range 2 {
				r := g.Aggregate(c.requests)
				if s := cores(r); s != c.want {
					t.Errorf("rows are %s, want %s", s, c.want)
				}
				for i, at := range r.Rows {
					if at < 0 || int(at) >= len(r.Needs) {
						t.Errorf("%s is in row %d of %d", r.Included[i].Name, at, len(r.Needs))
					}
				}
			}
		})
	}
	// Without the plan they ask for what they did, and where there is no room for its rows.
	var g Aggregator
	with := slices.Concat(all, []*api.CapacityRequest{planned(t, all, "-/cpu=10/cpu=1", "0/cpu=3/cpu=2", "1/cpu=3/cpu=3", "2/cpu=10/cpu=5")})
	for _, c := range []struct {
		requests []*api.CapacityRequest
		rows     int
		want     string
	}{{with, 0, "10/1 10/5 3/2 3/3"}, {all, 0, "2/2 20/20 4/4"}, {with, 0, "10/1 10/5 3/2 3/3"}, {with, 3, "2/2 20/20 4/4"}} {
		g.Limit(Limits{Rows: c.rows})
		if s := cores(g.Aggregate(c.requests)); s != c.want {
			t.Errorf("with %d rows at most: %s, want %s", c.rows, s, c.want)
		}
	}
}
