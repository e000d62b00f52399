package world

import (
	"fmt"
	"math"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// needFile is a Need while it is read.
type needFile struct {
	Need
	spec          model.ProfileSpec
	asked         float64 // the interruption penalty, when it was rounded up
	shortSinceSet bool
}

var needSchema = document.NewSchema(
	document.Field[needFile]{Key: "name", Required: true,
		Is: document.Is(document.TypeName), About: "What outputs call the need; each once. It is no part of what the need is.",
		Read: func(r *reader, n *node, f *needFile) { readNeedName(r, n, &f.Name) }},
	document.Field[needFile]{Key: "cluster",
		Is: document.Is(document.TypeName), About: "Required, but in a roll-up of a run, which names it.",
		Read: func(r *reader, n *node, f *needFile) { r.Name(n, &f.Cluster) }},
	document.Field[needFile]{Key: "priority",
		Is: document.IntegerOf(math.MinInt32, math.MaxInt32), Default: "0", About: "Higher goes first, and may preempt lower.",
		Read: func(r *reader, n *node, f *needFile) { readPriority(r, n, &f.spec.Priority) }},
	document.Field[needFile]{Key: "interruptionPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "What an interruption costs, in dollars; rounded up to a power of two ([buckets](docs/explanation/contract.md#34-penalties)).",
		Read: func(r *reader, n *node, f *needFile) { f.asked = readPenalty(r, n, &f.spec.Interruption) }},
	document.Field[needFile]{Key: "reclamationPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "What giving a machine back costs, in dollars; rounded up likewise.",
		Read: func(r *reader, n *node, f *needFile) { readPenalty(r, n, &f.spec.Reclamation) }},
	document.Field[needFile]{Key: "requirements",
		Is: document.ListOf(document.ObjectOf("requirement", func() []document.Description { return requirementSchema.Describe() })), Default: "none", About: "What a machine must be. All of them hold together.",
		Read: func(r *reader, n *node, f *needFile) {
			r.List(n, func(_ int, n *node) {
				var q model.Requirement
				requirementSchema.Read(r, n, &q)
				f.spec.Requirements = append(f.spec.Requirements, q)
			})
		}},
	document.Field[needFile]{Key: "spread",
		Is: document.ListOf(document.ObjectOf("spread", func() []document.Description { return spreadSchema.Describe() })), Default: "none", About: "How evenly the machines must lie.",
		Read: func(r *reader, n *node, f *needFile) {
			r.List(n, func(_ int, n *node) {
				var s model.Spread
				spreadSchema.Read(r, n, &s)
				f.spec.Spread = append(f.spec.Spread, s)
			})
		}},
	document.Field[needFile]{Key: "aggregate",
		Is: document.Is(document.TypeQuantities), Default: "none", About: "All that is asked for, over all machines together. Empty is a warning.",
		Read: func(r *reader, n *node, f *needFile) { r.Resources(n, &f.Aggregate) }},
	document.Field[needFile]{Key: "minUnit",
		Is: document.Is(document.TypeQuantities), Default: "none", About: "What each machine must cover by itself. More than the `aggregate` is a warning.",
		Read: func(r *reader, n *node, f *needFile) { r.Resources(n, &f.MinUnit) }},
	document.Field[needFile]{Key: "minAggregate",
		Is: document.Is(document.TypeQuantities), Default: "`aggregate`", About: "What an elastic gang can live with; at most the `aggregate`.",
		Read: func(r *reader, n *node, f *needFile) { r.Resources(n, &f.MinAggregate) }},
	document.Field[needFile]{Key: "shortSince",
		Is: document.Is(document.TypeTime), Default: "`now`", About: "Since when a gang has been short.",
		Read: func(r *reader, n *node, f *needFile) {
			f.shortSinceSet = true
			r.Time(n, &f.ShortSince)
		}},
	document.Field[needFile]{Key: "group",
		Is: document.Is(document.TypeText), Default: "empty", About: "Rows of one cluster with one group are the roles of one gang, if one of them asks for Same.",
		Read: func(r *reader, n *node, f *needFile) { r.Text(n, &f.Group) }},
	document.Field[needFile]{Key: "arrival",
		Is: document.Is(document.TypeTime), Default: "unset, before every other", About: "When it was demanded first; earlier goes first.",
		Read: func(r *reader, n *node, f *needFile) { r.Time(n, &f.Arrival) }},
	document.Field[needFile]{Key: "parked",
		Is: document.Is(document.TypeBool), Default: "false", About: "The shard's mark on a gang that has waited in vain.",
		Read: func(r *reader, n *node, f *needFile) { r.Bool(n, &f.Parked) }},
).Refuse("count", "unknown key; a need has no count: aggregate says how much in all, and how many machines that takes is the answer").
	Refuse("replicas", "unknown key; a need has no count: aggregate says how much in all, and how many machines that takes is the answer")

var operatorNames = func() (names []string) {
	for o := model.In; o <= model.Lt; o++ {
		names = append(names, o.String())
	}
	return names
}()

var requirementSchema = document.NewSchema(
	document.Field[model.Requirement]{Key: "key", Required: true,
		Is: document.Is(document.TypeName), About: "The attribute: a label, `node.kubernetes.io/instance-type`, `topology.kubernetes.io/zone`, or the capacity type.",
		Read: func(r *reader, n *node, q *model.Requirement) { r.Name(n, &q.Key) }},
	document.Field[model.Requirement]{Key: "operator", Required: true,
		Is: document.WordOf(operatorNames...), About: "Same asks that all machines have one value of the key.",
		Read: func(r *reader, n *node, q *model.Requirement) {
			readChoice(r, n, "operator", operatorNames, func(text string) (ok bool) {
				q.Operator, ok = model.ParseOperator(text)
				return ok
			})
		}},
	document.Field[model.Requirement]{Key: "values",
		Is: document.ListOf(document.Is(document.TypeText)), Default: "none", About: "In and NotIn take some; Same may; Gt and Lt take one whole number; Exists and DoesNotExist take none.",
		Read: func(r *reader, n *node, q *model.Requirement) {
			r.List(n, func(_ int, n *node) {
				var v string
				r.Plain(n, &v)
				q.Values = append(q.Values, v)
			})
		}},
)

var spreadSchema = document.NewSchema(
	document.Field[model.Spread]{Key: "topologyKey", Required: true,
		Is: document.Is(document.TypeName), About: "The attribute whose values are the domains.",
		Read: func(r *reader, n *node, s *model.Spread) { r.Name(n, &s.Key) }},
	document.Field[model.Spread]{Key: "maxSkew", Required: true,
		Is: document.IntegerOf(1, math.MaxInt32), About: "How many machines more one domain may have than another.",
		Read: func(r *reader, n *node, s *model.Spread) {
			var v int64
			r.Int(n, 1, math.MaxInt32, &v)
			s.MaxSkew = int32(v)
		}},
	document.Field[model.Spread]{Key: "whenUnsatisfiable", Required: true,
		Is: document.WordOf("DoNotSchedule", "ScheduleAnyway"), About: "ScheduleAnyway does not constrain.",
		Read: func(r *reader, n *node, s *model.Spread) {
			readChoice(r, n, "word", []string{"DoNotSchedule", "ScheduleAnyway"}, func(text string) (ok bool) {
				s.WhenUnsatisfiable, ok = model.ParseWhenUnsatisfiable(text)
				return ok
			})
		}},
)

// readNeeds reads a list of Needs and enters them in the book. Inside a
// roll-up, cluster is the roll-up's, which its Needs need not repeat.
func (b *book) readNeeds(r *reader, n *node, now int64, cluster string) []Need {
	if n.Kind != document.List {
		r.Fault("must be a list of needs, got %s", document.Describe(n))
		return nil
	}
	out := make([]Need, 0, len(n.Items))
	names, profiles := make(map[string]int, len(n.Items)), make(map[string]*model.Profile) // profiles by canonical text: Needs share them
	r.List(n, func(i int, n *node) {
		f := needFile{}
		needSchema.Read(r, n, &f)
		f.finish(r, n, now, cluster)
		if p := f.Profile; p != nil {
			if profiles[p.Canonical()] == nil {
				profiles[p.Canonical()] = p
			}
			f.Profile = profiles[p.Canonical()]
		}
		b.enter(r, &f.Need, i, names)
		if f.asked != 0 {
			b.asked[f.Name] = f.asked
		}
		out = append(out, f.Need)
	})
	if cluster == "" {
		b.needs, b.list = names, out
		for i := range out {
			b.names = append(b.names, out[i].Name)
		}
	}
	return out
}

// NeedNameBytesMax is the longest name of a Need: WriteInput names it by its cluster
// and row.
const NeedNameBytesMax = model.NameBytesMax + len("/2097152")

// readNeedName reads a name that may be somewhat longer than others.
func readNeedName(r *reader, n *node, into *string) {
	var name string
	before := r.Count()
	r.Plain(n, &name)
	switch {
	case r.Count() != before:
	case name == "":
		r.Fault("must not be empty")
	case len(name) > NeedNameBytesMax:
		r.Fault("has %d bytes; at most %d are accepted", len(name), NeedNameBytesMax)
	default:
		*into = name
	}
}

// enter checks that the name is the only one of its list, and that it belongs
// to one cluster in the whole file: outputs know a Need by its name alone.
func (b *book) enter(r *reader, need *Need, i int, names map[string]int) {
	if need.Name == "" {
		return
	}
	if first, ok := names[need.Name]; ok {
		r.FaultKey("name", "%s is used twice; first by item [%d] of the list", document.Quote(need.Name), first)
		return
	}
	names[need.Name] = i
	if other, ok := b.clusterOf[need.Name]; ok && other != need.Cluster {
		r.FaultKey("name", "%s is the name of a need of cluster %s already", document.Quote(need.Name), document.Quote(other))
		return
	}
	b.clusterOf[need.Name] = need.Cluster
}

// finish checks what concerns several fields and builds the profile, which
// stays nil when there is a fault in it.
func (f *needFile) finish(r *reader, n *node, now int64, cluster string) {
	switch {
	case n.Kind != document.Object:
		return
	case f.Cluster == "" && cluster == "":
		r.FaultKey("cluster", "is missing")
	case f.Cluster == "":
		f.Cluster = cluster
	case cluster != "" && f.Cluster != cluster:
		r.FaultKey("cluster", "must be %s as in the roll-up, or left out; got %s", document.Quote(cluster), document.Quote(f.Cluster))
	}
	if f.Aggregate.IsZero() && !r.Failed() {
		r.Warn("aggregate", "asks for nothing, so the need is satisfied without a machine; say how much it needs in all")
	}
	for _, a := range f.MinUnit {
		if whole := f.Aggregate.Get(a.Name); whole > 0 && a.Value > whole {
			r.Warn("minUnit", "%s of %s is above the aggregate's %s: one machine is more than enough; is the aggregate the sum of all units?",
				a.Name, model.FormatQuantity(a.Name, a.Value), model.FormatQuantity(a.Name, whole))
		}
	}
	for _, a := range f.MinAggregate {
		if whole := f.Aggregate.Get(a.Name); a.Value > whole {
			r.Enter("minAggregate")
			r.FaultKey(a.Name, "must be at most the aggregate's %s, got %s", model.FormatQuantity(a.Name, whole), model.FormatQuantity(a.Name, a.Value))
			r.Leave()
		}
	}
	if !f.shortSinceSet {
		f.ShortSince = now
	}
	for _, fault := range f.spec.Validate() {
		r.FaultAt(fault.Path, "%s", oneLine(fault.Msg))
	}
	if profile, err := model.NewProfile(f.spec); err == nil {
		f.Profile = profile
	}
}

// oneLine keeps a message of another package on one line.
func oneLine(msg string) string {
	if !strings.ContainsAny(msg, "\r\n") {
		return msg
	}
	return fmt.Sprintf("%q", msg)
}
