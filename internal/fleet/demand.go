package fleet

import (
	"math"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// profile draws an identity: mostly few requirements, so that something
// matches, and every operator in the long run.
func (d *draw) profile() *model.Profile {
	spec := model.ProfileSpec{
		Priority:     pick(d, d.priorities...),
		Interruption: d.bucket(),
		Reclamation:  d.bucket(),
	}
	for range pick(d, 0, 0, 0, 1, 1, 2) {
		spec.Requirements = append(spec.Requirements, d.requirement())
	}
	if d.chance(d.same) {
		same := model.Requirement{Key: d.topologyKey(), Operator: model.Same}
		if d.chance(0.2) {
			same.Values = d.values(same.Key)
		}
		spec.Requirements = append(spec.Requirements, same)
	}
	if d.chance(d.spread) {
		for range pick(d, 1, 1, 2) {
			spec.Spread = append(spec.Spread, model.Spread{
				Key:               d.topologyKey(),
				MaxSkew:           pick(d, int32(1), 1, 2, 3),
				WhenUnsatisfiable: pick(d, model.DoNotSchedule, model.DoNotSchedule, model.DoNotSchedule, model.ScheduleAnyway),
			})
		}
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		panic("fleet: drew an invalid profile: " + err.Error())
	}
	return p
}

func (d *draw) requirement() model.Requirement {
	key := pick(d, model.KeyInstanceType, model.KeyZone, model.KeyCapacityType, keyRack, keyAccel)
	switch d.IntN(8) {
	case 0, 1, 2:
		return model.Requirement{Key: key, Operator: model.In, Values: d.values(key)}
	case 3:
		return model.Requirement{Key: key, Operator: model.NotIn, Values: d.values(key)[:1]}
	case 4:
		return model.Requirement{Key: key, Operator: model.Exists}
	case 5:
		return model.Requirement{Key: pick(d, keyAccel, keyRack), Operator: model.DoesNotExist}
	case 6:
		return model.Requirement{Key: keyGeneration, Operator: model.Gt, Values: []string{pick(d, "-1", "1", "2")}}
	}
	return model.Requirement{Key: keyGeneration, Operator: model.Lt, Values: []string{pick(d, "2", "3")}}
}

// values lists at least one value of the key.
func (d *draw) values(key string) []string {
	var all []string
	switch key {
	case model.KeyInstanceType:
		all = []string{"large", "small", "gpu"}
	case model.KeyZone:
		all = d.zones
	case model.KeyCapacityType:
		all = []string{"on-demand", "spot", "bare-metal", "reserved"}
	case keyRack:
		all = d.racks
	default:
		all = []string{"a", "b"}
	}
	some := append([]string{}, all...)
	d.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some[:1+d.IntN(len(some))]
}

// need draws a row; one in five is a twin of an earlier row, in everything or
// in all but one thing.
func (d *draw) need() model.Need {
	if len(d.w.Needs) > 0 && d.chance(0.2) {
		twin := pick(d, d.w.Needs...)
		switch d.IntN(4) {
		case 0:
			twin.Cluster = pick(d, d.clusters...)
		case 1:
			twin.Group = d.group()
		case 2:
			twin.Arrival = d.arrival()
		}
		return twin
	}
	n := model.Need{
		Cluster: pick(d, d.clusters...),
		Profile: pick(d, d.profiles...),
		Group:   d.group(),
		Arrival: d.arrival(),
		Parked:  d.chance(0.07),
	}
	unit := d.unit()
	n.Aggregate = times(unit, pick(d, int64(1), 1, 2, 2, 3, 4, 6))
	switch d.IntN(8) {
	case 0, 1:
	case 2:
		n.MinUnit = n.Aggregate
	case 3:
		n.MinUnit = times(unit, 3)
	case 4:
		n.MinUnit = model.NewResources(unit[0])
	default:
		n.MinUnit = unit
	}
	if d.chance(d.huge) {
		n.Aggregate = times(unit, pick(d, math.MaxInt64, int64(1)<<61))
	}
	if d.chance(0.02) {
		n.Aggregate = nil
	}
	if d.chance(d.elastic) {
		n.MinAggregate = d.minimum(n.Aggregate)
	}
	d.shortSince(&n)
	return n
}

// shortSince says since when the row has been short, which it need not be.
func (d *draw) shortSince(n *model.Need) {
	n.ShortSince = d.w.Now - int64(pick(d, 0, time.Second, time.Minute-1, time.Minute, time.Hour))
	if d.chance(0.2) {
		n.ShortSince = 0
	}
}

// minimum is what an elastic gang of the aggregate can live with.
func (d *draw) minimum(aggregate model.Resources) model.Resources {
	part := pick(d, int64(1), 2, 3, 4, 6)
	var amounts []model.Amount
	for _, a := range aggregate {
		amounts = append(amounts, model.Amount{Name: a.Name, Value: max(1, a.Value/part)})
	}
	return model.NewResources(amounts...)
}

func (d *draw) group() string { return pick(d, "", "", "g1", "g2") }

func (d *draw) arrival() int64 {
	return pick(d, 0, 0, d.w.Now-5e9, d.w.Now-5e9, d.w.Now-9e9)
}

// unit is what one pod of a need might ask for, in one to three dimensions.
func (d *draw) unit() model.Resources {
	cpu := func(v int64) model.Amount { return model.Amount{Name: "cpu", Value: v} }
	mem := func(v int64) model.Amount { return model.Amount{Name: "memory", Value: v << 30} }
	gpu := func(v int64) model.Amount { return model.Amount{Name: "nvidia.com/gpu", Value: v} }
	switch d.IntN(9) {
	case 0:
		return model.NewResources(cpu(1))
	case 1, 2:
		return model.NewResources(cpu(2000))
	case 3:
		return model.NewResources(cpu(4000))
	case 4:
		return model.NewResources(cpu(1000), mem(6))
	case 5:
		return model.NewResources(gpu(4))
	case 6:
		return model.NewResources(gpu(8), cpu(2000))
	case 7:
		return model.NewResources(cpu(1000), mem(4), gpu(1))
	}
	return model.NewResources(mem(8), model.Amount{Name: "example.com/unknown", Value: pick(d, int64(0), 0, 0, 1)})
}

// times multiplies, saturating.
func times(r model.Resources, k int64) model.Resources {
	var amounts []model.Amount
	for _, a := range r {
		amounts = append(amounts, model.Amount{Name: a.Name, Value: model.SatMul(a.Value, k)})
	}
	return model.NewResources(amounts...)
}
