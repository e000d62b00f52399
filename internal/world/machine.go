package world

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

var inf = math.Inf(1)

// machineFile is a machine while it is read.
type machineFile struct {
	model.Machine
	book *book
	now  int64
	// What the file says only for some states.
	idleSinceRead bool
	stampedFor    *Need
	reservedRead  bool
}

type (
	reader = document.Reader
	node   = document.Node
)

var machineSchema = document.NewSchema(
	document.Field[machineFile]{Key: "id", Required: true,
		Is: document.Is(document.TypeName), About: "Each once.",
		Read: func(r *reader, n *node, m *machineFile) { r.Name(n, &m.ID) }},
	document.Field[machineFile]{Key: "state", Required: true,
		Is: document.WordOf(stateNames...), About: "Speculative ones can be bought; Idle ones are there and serve nobody; Configured ones are bound to a cluster.",
		Read: readState},
	document.Field[machineFile]{Key: "cluster",
		Is: document.Is(document.TypeText), Default: "none", About: "The cluster that the machine is bound to: required for Configured and Draining, allowed for Configuring and Failed.",
		Read: func(r *reader, n *node, m *machineFile) { readCluster(r, n, &m.Cluster) }},
	document.Field[machineFile]{Key: "instanceType",
		Is: document.Is(document.TypeText), About: "The attribute `node.kubernetes.io/instance-type`.",
		Read: func(r *reader, n *node, m *machineFile) { r.OptionalName(n, &m.InstanceType) }},
	document.Field[machineFile]{Key: "zone",
		Is: document.Is(document.TypeText), About: "The attribute `topology.kubernetes.io/zone`.",
		Read: func(r *reader, n *node, m *machineFile) { r.OptionalName(n, &m.Zone) }},
	document.Field[machineFile]{Key: "capacityType",
		Is: document.WordOf(capacityNames...), Default: "Unspecified", About: "How the machine is paid for.",
		Read: readCapacityType},
	document.Field[machineFile]{Key: "resources",
		Is: document.Is(document.TypeQuantities), Default: "none", About: "What the machine has.",
		Read: func(r *reader, n *node, m *machineFile) { r.Resources(n, &m.Resources) }},
	document.Field[machineFile]{Key: "allocatable",
		Is: document.Is(document.TypeQuantities), Default: "`resources`", About: "What it offers; replaces `resources` as a whole.",
		Read: func(r *reader, n *node, m *machineFile) {
			if r.Resources(n, &m.Allocatable) && m.Allocatable.IsZero() {
				// A list of nothing but zeros still replaces the base shape: such a
				// machine offers nothing.
				m.Resources = nil
			}
		}},
	document.Field[machineFile]{Key: "labels",
		Is: document.Is(document.TypeTexts), Default: "none", About: "Further attributes, such as `topology.kubernetes.io/rack`. `tonnage.dev/late-bound: \"true\"`: made when it is bound.",
		Read: func(r *reader, n *node, m *machineFile) { readLabels(r, n, &m.Labels) }},
	document.Field[machineFile]{Key: "pricePerHour",
		Is: document.NumberOf(0, inf), Default: "0", About: "Dollars an hour.",
		Read: func(r *reader, n *node, m *machineFile) { r.Float(n, 0, inf, &m.PricePerHour) }},
	document.Field[machineFile]{Key: "interruptionProbability",
		Is: document.NumberOf(0, 1), Default: "0", About: "Of being taken away by its provider, per hour.",
		Read: func(r *reader, n *node, m *machineFile) {
			r.Float(n, 0, 1, &m.InterruptionProbability)
		}},
	document.Field[machineFile]{Key: "idleSince",
		Is: document.Is(document.TypeTime), Default: "`now`", About: "Since when an Idle machine is; Idle only.",
		Read: func(r *reader, n *node, m *machineFile) {
			m.idleSinceRead = true
			r.Time(n, &m.IdleSince)
		}},
	document.Field[machineFile]{Key: "lastError",
		Is: document.Is(document.TypeText), About: "What failed; Failed only.",
		Read: func(r *reader, n *node, m *machineFile) { r.Text(n, &m.LastError) }},
	document.Field[machineFile]{Key: "assigned",
		Is: document.ObjectOf("assigned", func() []document.Description { return assignedSchema.Describe() }), Default: "none", About: "The [stamp](docs/explanation/contract.md#53-stamps): for what the machine was bound. On a Creating machine, `need` without `reservedFor` says for whom it is being created.",
		Read: func(r *reader, n *node, m *machineFile) { assignedSchema.Read(r, n, m) }},
	document.Field[machineFile]{Key: "reservedFor",
		Is: document.ObjectOf("reservedFor", func() []document.Description { return reservedSchema.Describe() }), Default: "none", About: "The [reservation](docs/explanation/contract.md#85-reservations) of a Creating, Idle, Configured or Draining machine: give `need`, or the owner by `cluster` and the rest.",
		Read: func(r *reader, n *node, m *machineFile) {
			m.reservedRead = true
			reservedSchema.Read(r, n, m)
			if n.Kind == document.Object && !has(n, "need") && !has(n, "cluster") {
				r.FaultKey("need", "is missing")
			}
		}},
)

var assignedSchema = document.NewSchema(
	document.Field[machineFile]{Key: "priority",
		Is: document.IntegerOf(math.MinInt32, math.MaxInt32), Default: "0", About: "The priority of the need that it was bound for.",
		Read: func(r *reader, n *node, m *machineFile) { readPriority(r, n, &m.Assigned.Priority) }},
	document.Field[machineFile]{Key: "interruptionPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "What an interruption costs that need, in dollars.",
		Read: func(r *reader, n *node, m *machineFile) { readPenalty(r, n, &m.Assigned.Interruption) }},
	document.Field[machineFile]{Key: "reclamationPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "What giving the machine back costs it, in dollars.",
		Read: func(r *reader, n *node, m *machineFile) { readPenalty(r, n, &m.Assigned.Reclamation) }},
	document.Field[machineFile]{Key: "need",
		Is: document.Is(document.TypeText), About: "A need of the file, by name: its fingerprint is the stamp.",
		Read: func(r *reader, n *node, m *machineFile) {
			if need := m.book.readNeed(r, n); need != nil && need.Profile != nil {
				m.Assigned.Fingerprint = need.Profile.Fingerprint()
				m.stampedFor = need
			}
		}},
	document.Field[machineFile]{Key: "group",
		Is: document.Is(document.TypeText), Default: "empty", About: "The group of that need.",
		Read: func(r *reader, n *node, m *machineFile) { r.Text(n, &m.Assigned.Group) }},
	document.Field[machineFile]{Key: "fingerprint",
		Is: document.Is(document.TypeHex), About: "In place of `need`: the profile of one that may not be in the demand any more, as a shard writes it.",
		Read: func(r *reader, n *node, m *machineFile) { readFingerprint(r, n, &m.Assigned.Fingerprint) }},
)

// reservedSchema names a Need of the file, or, as WriteInput does, the owner as
// the machine's record has it, who need not exist any more.
var reservedSchema = document.NewSchema(
	document.Field[machineFile]{Key: "need",
		Is: document.Is(document.TypeText), About: "A need of the file, by name.",
		Read: func(r *reader, n *node, m *machineFile) {
			if need := m.book.readNeed(r, n); need != nil && need.Profile != nil {
				m.Reservation = reservationFor(need)
			}
		}},
	document.Field[machineFile]{Key: "cluster",
		Is: document.Is(document.TypeName), About: "In place of `need`: the owner's cluster, as a shard writes it.",
		Read: func(r *reader, n *node, m *machineFile) { r.Name(n, &m.Reservation.Owner.Cluster) }},
	document.Field[machineFile]{Key: "fingerprint",
		Is: document.Is(document.TypeHex), About: "The owner's profile.",
		Read: func(r *reader, n *node, m *machineFile) { readFingerprint(r, n, &m.Reservation.Owner.Fingerprint) }},
	document.Field[machineFile]{Key: "group",
		Is: document.Is(document.TypeText), Default: "empty", About: "The owner's group.",
		Read: func(r *reader, n *node, m *machineFile) { r.Text(n, &m.Reservation.Owner.Group) }},
	document.Field[machineFile]{Key: "priority",
		Is: document.IntegerOf(math.MinInt32, math.MaxInt32), Default: "0", About: "The owner's priority.",
		Read: func(r *reader, n *node, m *machineFile) { readPriority(r, n, &m.Reservation.Priority) }},
	document.Field[machineFile]{Key: "interruptionPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "The owner's.",
		Read: func(r *reader, n *node, m *machineFile) { readPenalty(r, n, &m.Reservation.Interruption) }},
	document.Field[machineFile]{Key: "reclamationPenalty",
		Is: document.NumberOf(0, inf, "pinned"), Default: "unspecified", About: "The owner's.",
		Read: func(r *reader, n *node, m *machineFile) { readPenalty(r, n, &m.Reservation.Reclamation) }},
	document.Field[machineFile]{Key: "arrival",
		Is: document.Is(document.TypeTime), Default: "unset", About: "When the owner was demanded first.",
		Read: func(r *reader, n *node, m *machineFile) { r.Time(n, &m.Reservation.Arrival) }},
	document.Field[machineFile]{Key: "plan",
		Is: document.Is(document.TypeHex), About: "The plan of preemption that freed the machine.",
		Read: func(r *reader, n *node, m *machineFile) { readHex(r, n, "a plan's id", &m.Reservation.Plan) }},
	document.Field[machineFile]{Key: "domain",
		Is: document.Is(document.TypeText), About: "The domain of that plan.",
		Read: func(r *reader, n *node, m *machineFile) { r.Plain(n, &m.Reservation.Domain) }},
	document.Field[machineFile]{Key: "until",
		Is: document.Is(document.TypeTime), Default: "no deadline", About: "When the reservation ends.",
		Read: func(r *reader, n *node, m *machineFile) { r.Time(n, &m.Reservation.Deadline) }},
)

// has tells whether an object says anything of a key.
func has(n *node, key string) bool {
	return slices.ContainsFunc(n.Items, func(it node) bool { return it.Key == key && it.Kind != document.Null })
}

func readFingerprint(r *reader, n *node, into *uint64) {
	readHex(r, n, "a profile's fingerprint", into) // a need of the file goes by name
}

// readHex reads what WriteInput writes: 16 hexadecimal digits.
func readHex(r *reader, n *node, what string, into *uint64) {
	var text string
	if r.Text(n, &text); n.Kind != document.Text {
		return
	}
	v, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 || v == 0 {
		r.Fault("must be %s of 16 hexadecimal digits, got %s", what, document.Quote(text))
		return
	}
	*into = v
}

// reservationFor returns an endless reservation for a Need.
func reservationFor(need *Need) model.Reservation {
	p := need.Profile
	return model.Reservation{Owner: need.Owner(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(), Arrival: need.Arrival}
}

var stateNames, capacityNames = func() (states, types []string) {
	for s := model.Speculative; int(s) < model.NumStates; s++ {
		states = append(states, s.String())
	}
	for c := model.CapacityUnspecified; int(c) < model.NumCapacityTypes; c++ {
		types = append(types, c.String())
	}
	return states, types
}()

// readChoice reads one of several words.
func readChoice(r *reader, n *node, what string, names []string, parse func(string) bool) {
	var text string
	switch r.Text(n, &text); {
	case n.Kind != document.Text || parse(text):
		return
	case document.Nearest(text, names) != "":
		r.Fault("unknown %s %s; did you mean %s? Use one of %s", what, document.Quote(text), document.Nearest(text, names), strings.Join(names, ", "))
	default:
		r.Fault("unknown %s %s; use one of %s", what, document.Quote(text), strings.Join(names, ", "))
	}
}

func readState(r *reader, n *node, m *machineFile) {
	readChoice(r, n, "state", stateNames, func(text string) (ok bool) {
		m.State, ok = model.ParseState(text)
		return ok
	})
}

func readCapacityType(r *reader, n *node, m *machineFile) {
	readChoice(r, n, "capacity type", capacityNames, func(text string) (ok bool) {
		m.CapacityType, ok = model.ParseCapacityType(text)
		return ok
	})
}

// readCluster reads the id of a cluster; an empty text is none.
func readCluster(r *reader, n *node, into *string) {
	if n.Kind == document.Text && n.Text == "" {
		return
	}
	r.Name(n, into)
}

func readPriority(r *reader, n *node, into *int32) {
	v := int64(*into)
	r.Int(n, math.MinInt32, math.MaxInt32, &v)
	*into = int32(v)
}

// readMachines reads the list of machines and enters them in the book.
func (b *book) readMachines(r *reader, n *node, now int64) []model.Machine {
	if n.Kind != document.List {
		r.Fault("must be a list of machines, got %s", document.Describe(n))
		return nil
	}
	out := make([]model.Machine, 0, len(n.Items))
	b.machines = make(map[string]int, len(n.Items))
	r.List(n, func(i int, n *node) {
		m := machineFile{book: b, now: now}
		machineSchema.Read(r, n, &m)
		m.finish(r)
		if first, ok := b.machines[m.ID]; ok && m.ID != "" {
			r.FaultKey("id", "%s is used twice; first by machines[%d]", document.Quote(m.ID), first)
		} else if m.ID != "" {
			b.machines[m.ID] = i
			b.ids = append(b.ids, m.ID)
		}
		out = append(out, m.Machine)
	})
	return out
}

// reservable are the states that can carry a reservation.
var reservable = []model.State{model.Creating, model.Idle, model.Configured, model.Draining}

// finish checks the fields against the state, and fills in what follows from
// it.
func (m *machineFile) finish(r *reader) {
	if m.State == model.StateUnspecified {
		return // a fault already
	}
	switch m.State {
	case model.Configured, model.Draining:
		if m.Cluster == "" {
			r.FaultKey("cluster", "must be set for a machine in state %s", m.State)
		}
	case model.Configuring, model.Failed:
	default:
		if m.Cluster != "" {
			r.FaultKey("cluster", "must be empty for a machine in state %s, got %s", m.State, document.Quote(m.Cluster))
		}
	}
	if m.State != model.Idle && m.idleSinceRead {
		r.FaultKey("idleSince", "is for Idle machines only; this one is %s", m.State)
	}
	if m.State == model.Idle && !m.idleSinceRead {
		m.IdleSince = m.now
	}
	if m.State != model.Failed && m.LastError != "" {
		r.FaultKey("lastError", "is for Failed machines only; this one is %s", m.State)
	}
	if m.reservedRead && !slices.Contains(reservable, m.State) {
		r.FaultKey("reservedFor", "a machine in state %s cannot be reserved; only Creating, Idle, Configured and Draining ones", m.State)
	}
	if m.State == model.Creating && m.stampedFor != nil && !m.reservedRead {
		// A machine on its way has no cluster yet: the stamp's cluster travels
		// as the owner of an endless reservation.
		m.Reservation = reservationFor(m.stampedFor)
		m.Reservation.Owner.Group = m.Assigned.Group
	}
	if r.Failed() {
		return
	}
	if err := m.Validate(false); err != nil {
		r.Fault("%v", err) // no file gets here unless the rules above lag behind the model's
	}
}
