package world

import (
	"cmp"
	"fmt"
	"io"

	"github.com/tonnage/tonnage/engine"
)

// writeTenancy writes what came of reclaim between tenants.
func writeTenancy(j *jsonWriter, x *engine.TenancyExplanation) {
	j.key("tenancy")
	j.open('{')
	j.word("tenant", x.Tenant)
	j.vector("has", x.Has)
	j.vector("share", x.Share)
	j.word("verdict", x.Verdict)
	if len(x.Givers) > 0 {
		j.key("tenants")
		j.open('[')
		for i := range x.Givers {
			g := &x.Givers[i]
			j.line("     ")
			j.open('{')
			j.word("tenant", g.Tenant)
			j.vector("has", g.Has)
			j.vector("share", g.Share)
			j.number("ratio", g.Ratio)
			j.word("verdict", g.Verdict)
			j.close('}')
		}
		j.close(']')
	}
	j.close('}')
}

// What the verdicts of the ledger say.
var (
	turnSays = map[string]string{
		"no_tenant": "its cluster is of no tenant: it reclaims nothing",
		"backs_off": "a plan of it has failed: it reclaims nothing for now",
		"reclaims":  "it reclaims from other tenants",
		"reserves":  "it reclaims nothing; what is free, on its way or excess is held for it",
		"nothing":   "it reclaims nothing",
	}
	giverSays = map[string]string{
		"gives":          "gives",
		"within_share":   "is within its share",
		"nothing_of_use": "has nothing of use at this priority",
		"taker_share":    "would bring the taker above its share",
		"giver_share":    "would fall below its share",
		"not_needed":     "is not needed",
	}
)

// tellTenancy says it in words.
func tellTenancy(w io.Writer, x *engine.TenancyExplanation) {
	fmt.Fprintf(w, "  between tenants: %s\n", turnSays[x.Verdict])
	if x.Tenant != "" && len(x.Share) > 0 {
		fmt.Fprintf(w, "  its tenant %s has %s of its share of %s\n", cell(x.Tenant), cell(cmp.Or(vector(x.Has), "nothing")), cell(vector(x.Share)))
	}
	for i := range x.Givers[:min(len(x.Givers), tableDomainsMax)] {
		g := &x.Givers[i]
		fmt.Fprintf(w, "  tenant %s %s: has %s of its share of %s\n", cell(g.Tenant), giverSays[g.Verdict], cell(cmp.Or(vector(g.Has), "nothing")), cell(vector(g.Share)))
	}
	if more := len(x.Givers) - tableDomainsMax; more > 0 {
		fmt.Fprintf(w, "  … and %s more; -o json lists them all\n", plural(more, "tenant"))
	}
}
