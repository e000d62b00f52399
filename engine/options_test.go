package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func TestOptionsOfGangsAreChecked(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string // "" = no fault
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Band = 0 }, ""},
		{func(o *Options) { o.Band = math.Inf(1) }, ""},
		{func(o *Options) { o.Band = -1 }, "band: must be 0 or more"},
		{func(o *Options) { o.Nodes = []int{-1, 0, 7} }, ""},
		{func(o *Options) { o.Nodes = []int{0, -2} }, "nodes[1]: must be a NUMA node or -1 (any), got -2"},
		{func(o *Options) { o.Band = math.NaN() }, "band: must be 0 or more"},
		{func(o *Options) { o.SearchPairs, o.SearchUnits = 1, 1 }, ""},
		{func(o *Options) { o.SearchPairs = -1 }, "searchPairs: must be 0 (the default, 4194304) or more, got -1"},
		{func(o *Options) { o.SearchUnits = -1 }, "searchUnits: must be 0 (the default, 33554432) or more, got -1"},
		{func(o *Options) { o.Acquire, o.MaxMachineShare, o.Fit = AcquireFit, 1, Fit{} }, ""},
		{func(o *Options) { o.Acquire = 7 }, "acquire: no such rule of acquisition: 7"},
		{func(o *Options) { o.MaxMachineShare = 1.1 }, "maxMachineShare: must be a number from 0 to 1, got 1.1"},
		{func(o *Options) { o.Fit.Lambda = math.NaN() }, "fit.lambda: must be a number from 0 to 1, got NaN"},
		{func(o *Options) { o.Fit.Epsilon = -1 }, "fit.epsilon: must be a number from 0 to 1, got -1"},
		{func(o *Options) { o.Victims = 7 }, "victims: no such way"},
		{func(o *Options) { o.Tenancy.Tenants = []Tenant{{Name: "a", Clusters: []string{"c"}}, {Name: "b"}} }, ""},
		{func(o *Options) { o.Tenancy.Tenants = []Tenant{{}} }, "tenants[0].name: is missing"},
		{func(o *Options) { o.Tenancy.Tenants = []Tenant{{Name: "a"}, {Name: "a"}} }, `tenants[1].name: "a" is used twice`},
		{func(o *Options) {
			o.Tenancy.Tenants = []Tenant{{Name: "a", Clusters: []string{"c"}}, {Name: "b", Clusters: []string{"c"}}}
		}, `tenants[1].clusters[0]: "c" is a cluster of tenant "a" already`},
		{func(o *Options) {
			o.Tenancy.Tenants = []Tenant{{Name: "a", Share: model.Resources{{Name: "cpu", Value: -1}}}}
		}, "tenants[0].share: must be sorted"},
		{func(o *Options) { o.Tenancy.Tenants = make([]Tenant, TenantsMax+1) }, "at most 1024"},
	} {
		o := DefaultOptions()
		c.change(&o)
		switch err := o.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%+v is refused: %v", o.Tenancy, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
