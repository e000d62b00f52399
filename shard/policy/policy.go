// Package policy reads what clusters may ask of a shard: how high a priority, and
// how high penalties, their rows may have. What is above is lowered when a roll-up
// is read. A file of policy is YAML or JSON:
//
//	default:                     # every cluster without an entry of its own
//	  maxPriority: 1000
//	  maxInterruptionPenalty: 64 # dollars, or pinned
//	clusters:
//	  prod-eu:                   # keys that are left out are those of default
//	    maxPriority: 100000
//
// A key that is given nowhere sets no limit.
package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// ClustersMax is the most clusters that a file may have entries for.
const ClustersMax = 1 << 16

// Limits are the highest values that the rows of a cluster may have.
type Limits struct {
	Priority     int32
	Interruption model.Bucket
	Reclamation  model.Bucket
}

// None returns limits that no row is above.
func None() Limits {
	return Limits{Priority: math.MaxInt32, Interruption: model.BucketPinned, Reclamation: model.BucketPinned}
}

// Allow reports whether a profile is within the limits.
func (l Limits) Allow(p *model.Profile) bool {
	return p.Priority() <= l.Priority && p.Interruption() <= l.Interruption && p.Reclamation() <= l.Reclamation
}

// Lower returns the profile with what is above the limits lowered to them; the
// same one when nothing is.
func (l Limits) Lower(p *model.Profile) (*model.Profile, error) {
	if l.Allow(p) {
		return p, nil
	}
	return model.NewProfile(model.ProfileSpec{
		Requirements: p.Requirements(), Spread: p.Spread(), Priority: min(p.Priority(), l.Priority),
		Interruption: min(p.Interruption(), l.Interruption), Reclamation: min(p.Reclamation(), l.Reclamation),
	})
}

// String describes the limits for logs.
func (l Limits) String() string {
	return fmt.Sprintf("priority at most %d, interruption penalty at most %s, reclamation penalty at most %s", l.Priority, l.Interruption.Label(), l.Reclamation.Label())
}

// Policy holds the limits of all clusters. The zero value sets none. It is not
// changed after Parse.
type Policy struct {
	set      bool
	others   Limits
	clusters map[string]Limits
}

// Of returns a cluster's limits.
func (p *Policy) Of(cluster string) Limits {
	if p == nil || !p.set {
		return None()
	}
	if l, ok := p.clusters[cluster]; ok {
		return l
	}
	return p.others
}

// entry is what one entry of a file says; nil = not given.
type entry struct {
	priority                  *int32
	interruption, reclamation *model.Bucket
}

// over returns the limits with what the entry says in their place.
func (e *entry) over(l Limits) Limits {
	if e.priority != nil {
		l.Priority = *e.priority
	}
	if e.interruption != nil {
		l.Interruption = *e.interruption
	}
	if e.reclamation != nil {
		l.Reclamation = *e.reclamation
	}
	return l
}

var entrySchema = document.NewSchema(
	document.Field[entry]{Key: "maxPriority", Read: func(r *document.Reader, n *document.Node, e *entry) {
		v := int64(math.MaxInt32)
		r.Int(n, math.MinInt32, math.MaxInt32, &v)
		p := int32(v)
		e.priority = &p
	}},
	document.Field[entry]{Key: "maxInterruptionPenalty", Read: func(r *document.Reader, n *document.Node, e *entry) { e.interruption = readPenalty(r, n) }},
	document.Field[entry]{Key: "maxReclamationPenalty", Read: func(r *document.Reader, n *document.Node, e *entry) { e.reclamation = readPenalty(r, n) }},
)

// readPenalty reads a penalty in dollars, or "pinned", as the bucket that it is in.
func readPenalty(r *document.Reader, n *document.Node) *model.Bucket {
	b := model.BucketPinned
	switch {
	case n.Kind == document.Text && n.Text == "pinned":
	case n.Kind == document.Number:
		dollars := 0.0
		r.Float(n, 0, math.MaxFloat64, &dollars)
		b = model.BucketForDollars(dollars)
	default:
		r.Fault(`must be an amount in dollars or "pinned", got %s`, document.Describe(n))
	}
	return &b
}

// file is a whole file.
type file struct {
	others   entry
	clusters map[string]*entry
}

var fileSchema = document.NewSchema(
	document.Field[file]{Key: "default", Read: func(r *document.Reader, n *document.Node, f *file) { entrySchema.Read(r, n, &f.others) }},
	document.Field[file]{Key: "clusters", Read: func(r *document.Reader, n *document.Node, f *file) {
		if len(n.Items) > ClustersMax {
			r.Fault("has entries for %d clusters; at most %d are accepted", len(n.Items), ClustersMax)
			return
		}
		f.clusters = make(map[string]*entry, len(n.Items))
		r.Map(n, func(cluster string, n *document.Node) {
			if cluster == "" || len(cluster) > model.NameBytesMax {
				r.Fault("a cluster id has 1 to %d bytes, this one has %d", model.NameBytesMax, len(cluster))
				return
			}
			e := &entry{}
			entrySchema.Read(r, n, e)
			f.clusters[cluster] = e
		})
	}},
)

// Parse reads a policy. The error lists every fault, one a line, each with the key
// or line where it is.
func Parse(data []byte) (*Policy, error) {
	root, fault := document.Parse(data)
	if fault != nil {
		return nil, fault
	}
	var r document.Reader
	var f file
	fileSchema.Read(&r, root, &f)
	if r.Failed() {
		faults, more := r.Faults()
		var all []error
		for i := range faults {
			all = append(all, &faults[i])
		}
		if more > 0 {
			all = append(all, fmt.Errorf("and %d more", more))
		}
		return nil, errors.Join(all...)
	}
	p := &Policy{set: true, others: f.others.over(None()), clusters: make(map[string]Limits, len(f.clusters))}
	for cluster, e := range f.clusters {
		p.clusters[cluster] = e.over(p.others)
	}
	return p, nil
}
