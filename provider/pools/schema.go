package pools

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
)

type (
	reader = document.Reader
	node   = document.Node
)

// The values of initial.
const (
	initialSpeculative = "speculative"
	initialIdle        = "idle"
)

// poolFile is a pool while it is read.
type poolFile struct {
	Pool
	initial       string
	zones         []string
	capacityTypes []model.CapacityType
	labels        map[string]string
	taints        []driver.Taint
	template      json.RawMessage
	typesFile     string
	types         []typeFile
}

// typeFile is an instance type while it is read.
type typeFile struct {
	name                   string
	zones                  []string
	resources, allocatable model.Resources
	labels                 map[string]string
	prices                 []priceFile
	template               json.RawMessage
	from                   *reader // of the types file that it is in; nil = the pools file itself
	at                     string  // its path there
}

// priceFile is a price of a type.
type priceFile struct {
	zone         string // empty = all
	capacityType model.CapacityType
	price        float64
	interruption float64
}

// lists are what a whole file says, while it is read.
type lists struct {
	drivers []Driver
	quotas  []Quota
	pools   []poolFile
}

var fileSchema = document.NewSchema(
	document.Field[lists]{Key: "drivers", Required: true, Read: func(r *reader, n *node, f *lists) {
		listOf(r, n, DriversMax, "drivers", driverSchema, &f.drivers, func() Driver {
			return Driver{LaunchesPerMinute: LaunchesDefault, LaunchBurst: BurstDefault}
		})
	}},
	document.Field[lists]{Key: "quotas", Read: func(r *reader, n *node, f *lists) {
		listOf(r, n, QuotasMax, "quotas", quotaSchema, &f.quotas, func() Quota { return Quota{} })
	}},
	document.Field[lists]{Key: "pools", Required: true, Read: func(r *reader, n *node, f *lists) {
		listOf(r, n, PoolsMax, "pools", poolSchema, &f.pools, newPool)
	}},
)

func newPool() poolFile {
	return poolFile{
		initial: initialSpeculative,
		Pool: Pool{
			FreeSlots: FreeSlotsMax, KeepFailed: KeepFailedDefault,
			Timeouts: Timeouts{Create: CreateDefault, Configure: ConfigureDefault, Drain: DrainDefault, Delete: DeleteDefault},
		},
	}
}

// listOf reads a list of objects with a schema, at most limit of them.
func listOf[T any](r *reader, n *node, limit int, what string, schema *document.Schema[T], into *[]T, fresh func() T) {
	if len(n.Items) > limit {
		r.Fault("has %d %s; at most %d are read", len(n.Items), what, limit)
		return
	}
	r.List(n, func(_ int, n *node) {
		x := fresh()
		schema.Read(r, n, &x)
		*into = append(*into, x)
	})
}

var driverSchema = document.NewSchema(
	document.Field[Driver]{Key: "name", Required: true, Read: func(r *reader, n *node, d *Driver) { r.Name(n, &d.Name) }},
	document.Field[Driver]{Key: "kind", Required: true, Read: func(r *reader, n *node, d *Driver) { r.Name(n, &d.Kind) }},
	document.Field[Driver]{Key: "launchesPerMinute", Read: func(r *reader, n *node, d *Driver) { r.Float(n, 0.01, LaunchesMax, &d.LaunchesPerMinute) }},
	document.Field[Driver]{Key: "launchBurst", Read: func(r *reader, n *node, d *Driver) { readInt(r, n, 1, LaunchesMax, &d.LaunchBurst) }},
	document.Field[Driver]{Key: "config", Read: func(r *reader, n *node, d *Driver) { readAny(r, n, &d.Config) }},
)

var quotaSchema = document.NewSchema(
	document.Field[Quota]{Key: "name", Required: true, Read: func(r *reader, n *node, q *Quota) { r.Name(n, &q.Name) }},
	document.Field[Quota]{Key: "machines", Read: func(r *reader, n *node, q *Quota) { readInt(r, n, 1, MachinesMax, &q.Machines) }},
	document.Field[Quota]{Key: "resources", Read: func(r *reader, n *node, q *Quota) { r.Resources(n, &q.Resources) }},
)

var poolSchema = document.NewSchema(
	document.Field[poolFile]{Key: "name", Required: true, Read: func(r *reader, n *node, p *poolFile) { readPoolName(r, n, &p.Name) }},
	document.Field[poolFile]{Key: "driver", Required: true, Read: func(r *reader, n *node, p *poolFile) { r.Name(n, &p.Driver) }},
	document.Field[poolFile]{Key: "initial", Read: func(r *reader, n *node, p *poolFile) {
		oneOf(r, n, []string{initialSpeculative, initialIdle}, &p.initial)
	}},
	document.Field[poolFile]{Key: "lateBound", Read: func(r *reader, n *node, p *poolFile) { r.Bool(n, &p.LateBound) }},
	document.Field[poolFile]{Key: "machines", Read: func(r *reader, n *node, p *poolFile) { readInt(r, n, 0, MachinesMax, &p.Machines) }},
	document.Field[poolFile]{Key: "hosts", Read: func(r *reader, n *node, p *poolFile) { r.Names(n, &p.Hosts) }},
	document.Field[poolFile]{Key: "quotas", Read: func(r *reader, n *node, p *poolFile) { r.Names(n, &p.Quotas) }},
	document.Field[poolFile]{Key: "freeSlots", Read: func(r *reader, n *node, p *poolFile) { readInt(r, n, 1, FreeSlotsMax, &p.FreeSlots) }},
	document.Field[poolFile]{Key: "zones", Read: func(r *reader, n *node, p *poolFile) { r.Names(n, &p.zones) }},
	document.Field[poolFile]{Key: "capacityTypes", Read: readCapacityTypes},
	document.Field[poolFile]{Key: "labels", Read: func(r *reader, n *node, p *poolFile) { readLabels(r, n, &p.labels) }},
	document.Field[poolFile]{Key: "taints", Read: func(r *reader, n *node, p *poolFile) {
		listOf(r, n, TaintsMax, "taints", taintSchema, &p.taints, func() driver.Taint { return driver.Taint{} })
	}},
	document.Field[poolFile]{Key: "template", Read: func(r *reader, n *node, p *poolFile) { readAny(r, n, &p.template) }},
	document.Field[poolFile]{Key: "timeouts", Read: func(r *reader, n *node, p *poolFile) { timeoutsSchema.Read(r, n, &p.Timeouts) }},
	document.Field[poolFile]{Key: "keepFailed", Read: func(r *reader, n *node, p *poolFile) { r.Duration(n, TimeoutMax, &p.KeepFailed) }},
	document.Field[poolFile]{Key: "typesFile", Read: func(r *reader, n *node, p *poolFile) { r.Text(n, &p.typesFile) }},
	document.Field[poolFile]{Key: "types", Read: func(r *reader, n *node, p *poolFile) { readTypes(r, n, &p.types) }},
)

var timeoutsSchema = document.NewSchema(
	document.Field[Timeouts]{Key: "create", Read: func(r *reader, n *node, t *Timeouts) { readTimeout(r, n, &t.Create) }},
	document.Field[Timeouts]{Key: "configure", Read: func(r *reader, n *node, t *Timeouts) { readTimeout(r, n, &t.Configure) }},
	document.Field[Timeouts]{Key: "drain", Read: func(r *reader, n *node, t *Timeouts) { readTimeout(r, n, &t.Drain) }},
	document.Field[Timeouts]{Key: "delete", Read: func(r *reader, n *node, t *Timeouts) { readTimeout(r, n, &t.Delete) }},
)

// typesSchema is that of a types file.
var typesSchema = document.NewSchema(
	document.Field[[]typeFile]{Key: "types", Required: true, Read: func(r *reader, n *node, t *[]typeFile) { readTypes(r, n, t) }},
)

var typeSchema = document.NewSchema(
	document.Field[typeFile]{Key: "name", Required: true, Read: func(r *reader, n *node, t *typeFile) { r.Name(n, &t.name) }},
	document.Field[typeFile]{Key: "resources", Required: true, Read: func(r *reader, n *node, t *typeFile) {
		readVector(r, n, &t.resources, "names nothing that the machine has")
	}},
	document.Field[typeFile]{Key: "allocatable", Read: func(r *reader, n *node, t *typeFile) {
		readVector(r, n, &t.allocatable, "names nothing that pods could have; leave it out to offer all of resources")
	}},
	document.Field[typeFile]{Key: "zones", Read: func(r *reader, n *node, t *typeFile) { r.Names(n, &t.zones) }},
	document.Field[typeFile]{Key: "labels", Read: func(r *reader, n *node, t *typeFile) { readLabels(r, n, &t.labels) }},
	document.Field[typeFile]{Key: "prices", Required: true, Read: func(r *reader, n *node, t *typeFile) {
		listOf(r, n, (ZonesMax+1)*model.NumCapacityTypes, "prices", priceSchema, &t.prices, func() priceFile { return priceFile{} })
	}},
	document.Field[typeFile]{Key: "template", Read: func(r *reader, n *node, t *typeFile) { readAny(r, n, &t.template) }},
)

var priceSchema = document.NewSchema(
	document.Field[priceFile]{Key: "capacityType", Required: true, Read: func(r *reader, n *node, p *priceFile) { readCapacityType(r, n, &p.capacityType) }},
	document.Field[priceFile]{Key: "zone", Read: func(r *reader, n *node, p *priceFile) { r.Name(n, &p.zone) }},
	document.Field[priceFile]{Key: "pricePerHour", Required: true, Read: func(r *reader, n *node, p *priceFile) { r.Float(n, 0, priceMax, &p.price) }},
	document.Field[priceFile]{Key: "interruptionProbability", Read: func(r *reader, n *node, p *priceFile) { r.Float(n, 0, 1, &p.interruption) }},
)

var taintSchema = document.NewSchema(
	document.Field[driver.Taint]{Key: "key", Required: true, Read: func(r *reader, n *node, t *driver.Taint) { r.Name(n, &t.Key) }},
	document.Field[driver.Taint]{Key: "value", Read: func(r *reader, n *node, t *driver.Taint) { r.Plain(n, &t.Value) }},
	document.Field[driver.Taint]{Key: "effect", Required: true, Read: func(r *reader, n *node, t *driver.Taint) {
		oneOf(r, n, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, &t.Effect)
	}},
)

// priceMax is the highest price of a machine, in dollars an hour.
const priceMax = 1e6

func oneOf(r *reader, n *node, words []string, into *string) {
	if r.Text(n, into); n.Kind == document.Text && !slices.Contains(words, *into) {
		r.Fault("must be one of %s, got %s", strings.Join(words, ", "), document.Quote(*into))
	}
}

func readInt(r *reader, n *node, low, high int64, into *int) {
	v := int64(*into)
	r.Int(n, low, high, &v)
	*into = int(v)
}

// readVector reads resources, which must not be empty.
func readVector(r *reader, n *node, into *model.Resources, empty string) {
	before := r.Count()
	if r.Resources(n, into); into.IsZero() && r.Count() == before {
		r.Fault("%s", empty)
	}
}

func readAny(r *reader, n *node, into *json.RawMessage) {
	r.Any(n)
	*into = document.AppendJSON(nil, n)
}

func readTimeout(r *reader, n *node, into *time.Duration) {
	if r.Duration(n, TimeoutMax, into); *into == 0 {
		r.Fault("must be above 0")
	}
}

// readPoolName reads the name of a pool, which begins the ids of its machines.
func readPoolName(r *reader, n *node, into *string) {
	r.Name(n, into)
	if len(*into) > poolNameBytesMax {
		r.Fault("has %d bytes; at most %d are accepted", len(*into), poolNameBytesMax)
	}
}

// poolNameBytesMax leaves room for the rest of an id.
const poolNameBytesMax = 128

// readTypes reads instance types.
func readTypes(r *reader, n *node, into *[]typeFile) {
	listOf(r, n, TypesMax, "types", typeSchema, into, func() typeFile { return typeFile{} })
}

func readCapacityTypes(r *reader, n *node, p *poolFile) {
	r.List(n, func(_ int, n *node) {
		var c model.CapacityType
		readCapacityType(r, n, &c)
		if slices.Contains(p.capacityTypes, c) && c != model.CapacityUnspecified {
			r.Fault("is listed twice")
		}
		p.capacityTypes = append(p.capacityTypes, c)
	})
}

// readCapacityType reads a capacity type by its name in files, or as the label has it.
func readCapacityType(r *reader, n *node, into *model.CapacityType) {
	var name string
	if r.Text(n, &name); n.Kind != document.Text {
		return
	}
	c, ok := parseCapacityType(name)
	if !ok {
		r.Fault("must be one of BareMetal, Reserved, OnDemand, Spot, got %s", document.Quote(name))
	}
	*into = c
}

func parseCapacityType(name string) (model.CapacityType, bool) {
	for c := model.BareMetal; int(c) < model.NumCapacityTypes; c++ {
		if name == c.String() || name == c.Label() {
			return c, true
		}
	}
	return model.CapacityUnspecified, false
}

// ownedLabels are those that the provider sets itself, with what to do instead.
var ownedLabels = map[string]string{
	"node.kubernetes.io/instance-type": "it comes from the type's name",
	"topology.kubernetes.io/zone":      "it comes from zones",
	"kubernetes.io/hostname":           "it is the name of the node",
	LabelLateBound:                     "write lateBound: true",
	LabelPool:                          "it is the pool's name",
	LabelHost:                          "it comes from hosts",
}

func readLabels(r *reader, n *node, into *map[string]string) {
	*into = map[string]string{}
	r.Map(n, func(key string, n *node) {
		if remedy, owned := ownedLabels[key]; owned {
			r.Fault("must not be set here; %s", remedy)
			return
		}
		var value string
		r.Plain(n, &value)
		(*into)[key] = value
	})
}
