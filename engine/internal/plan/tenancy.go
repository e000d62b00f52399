package plan

import (
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
)

// TenantsMax is the largest number of tenants in a policy.
const TenantsMax = 1024

// Tenancy is the policy of reclaim between tenants: it takes machines from tenants above their share
// for tenants below theirs. It needs VictimsGang. The default has no tenants; then only priority decides
// who may preempt.
type Tenancy struct {
	// Tenants are at most TenantsMax. A cluster that belongs to no tenant neither gives nor gets.
	Tenants []Tenant
}

// Tenant is a named set of clusters with a share of the fleet.
type Tenant struct {
	Name     string
	Clusters []string
	// Share is what the tenant's machines may offer in total without being taken for other tenants. A
	// dimension that it does not name is not limited.
	Share model.Resources
}

// faults returns the faults of the policy.
func (t *Tenancy) faults() (faults []error) {
	if len(t.Tenants) > TenantsMax {
		return []error{fmt.Errorf("tenancy: %d tenants; at most %d are accepted", len(t.Tenants), TenantsMax)}
	}
	names, owner := map[string]bool{}, map[string]string{}
	for i := range t.Tenants {
		x := &t.Tenants[i]
		switch {
		case x.Name == "":
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].name: is missing", i))
		case names[x.Name]:
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].name: %q is used twice", i, x.Name))
		}
		names[x.Name] = true
		if !x.Share.Canonical() {
			faults = append(faults, fmt.Errorf("tenancy.tenants[%d].share: must be sorted by name, each name once and each value positive", i))
		}
		for j, c := range x.Clusters {
			if other, taken := owner[c]; taken {
				faults = append(faults, fmt.Errorf("tenancy.tenants[%d].clusters[%d]: %q is a cluster of tenant %q already", i, j, c, other))
			}
			owner[c] = x.Name
		}
	}
	return faults
}
