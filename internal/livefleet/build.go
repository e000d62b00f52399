package livefleet

import (
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// Keys of what machines of scenarios say of themselves.
const (
	keyRack    = "topology.kubernetes.io/rack"
	keyType    = "node.kubernetes.io/instance-type"
	keyProduct = "nvidia.com/gpu.product"
	gpu        = "nvidia.com/gpu"
)

// shape is a type of machine.
type shape struct {
	instanceType string
	cores, gpus  int64
	product      string
	price        float64 // dollars an hour
}

// The types that machines of scenarios are of.
var (
	shapeA100 = shape{"gpu-a100", 96, 8, "A100", 32.77}
	shapeV100 = shape{"gpu-v100", 64, 8, "V100", 12.24}
	shapeStd  = shape{"std-16", 16, 0, "", 0.77}
)

const gibPerCore = 4

// vector returns cores, GPUs and the memory that belongs to the cores.
func vector(cores, gpus int64) model.Resources {
	return model.NewResources(
		model.Amount{Name: "cpu", Value: cores * 1000},
		model.Amount{Name: "memory", Value: cores * gibPerCore << 30},
		model.Amount{Name: gpu, Value: gpus},
	)
}

// fleetOf is machines of one kind.
type fleetOf struct {
	shape
	id       string // the ids are id-01, id-02 and so on
	count    int
	zone     string
	rack     string // empty = in none
	state    model.State
	capacity model.CapacityType
	price    float64 // 0 = the shape's
	risk     float64 // probability of an interruption in an hour
}

// add appends the machines to a scene and returns their ids.
func (s *scene) add(f fleetOf) (ids []string) {
	for i := range f.count {
		m := model.Machine{
			ID: fmt.Sprintf("%s-%02d", f.id, i+1), State: f.state, InstanceType: f.instanceType, Zone: f.zone, CapacityType: f.capacity,
			Resources: vector(f.cores, f.gpus), PricePerHour: f.shape.price, InterruptionProbability: f.risk, Labels: map[string]string{},
		}
		if f.price != 0 {
			m.PricePerHour = f.price
		}
		if f.rack != "" {
			m.Labels[keyRack] = f.rack
		}
		if f.product != "" {
			m.Labels[keyProduct] = f.product
		}
		s.machines = append(s.machines, m)
		ids = append(ids, m.ID)
	}
	return ids
}

// want is a Need as scenes write it.
type want struct {
	name, cluster string
	priority      int32
	penalty       float64 // of an interruption, dollars
	requirements  []model.Requirement
	group         string
	whole, unit   model.Resources
	from, until   int
}

// need appends a Need to a scene.
func (s *scene) need(w want) {
	spec := model.ProfileSpec{Priority: w.priority, Interruption: model.BucketForDollars(w.penalty), Requirements: w.requirements}
	profile, err := model.NewProfile(spec)
	if err != nil {
		panic(fmt.Sprintf("scenario %s, need %s: %v", s.name, w.name, err)) // a test plays all of them
	}
	s.needs = append(s.needs, sceneNeed{
		name: w.name, from: w.from, until: w.until,
		Need: model.Need{Cluster: w.cluster, Profile: profile, Aggregate: w.whole, MinUnit: w.unit, Group: w.group},
	})
}

// ofType asks for machines of a type.
func ofType(s shape) model.Requirement {
	return model.Requirement{Key: keyType, Operator: model.In, Values: []string{s.instanceType}}
}

// sameRack asks for machines of one rack.
func sameRack() model.Requirement { return model.Requirement{Key: keyRack, Operator: model.Same} }

// gang is a gang of whole GPU machines in one rack.
func gang(name, cluster string, priority int32, of shape, machines int64, from, until int) want {
	return want{
		name: name, cluster: cluster, group: name, priority: priority, requirements: []model.Requirement{ofType(of), sameRack()},
		whole: vector(of.cores*machines, of.gpus*machines), unit: vector(of.cores, of.gpus), from: from, until: until,
	}
}

// plain is demand for cores of standard machines, in units of 4.
func plain(name, cluster string, priority int32, penalty float64, cores int64, from, until int) want {
	return want{
		name: name, cluster: cluster, priority: priority, penalty: penalty, requirements: []model.Requirement{ofType(shapeStd)},
		whole: vector(cores, 0), unit: vector(4, 0), from: from, until: until,
	}
}

// tenant is a tenant with a share of GPUs.
func tenant(name string, gpus int64, clusters ...string) engine.Tenant {
	return engine.Tenant{Name: name, Clusters: clusters, Share: model.NewResources(model.Amount{Name: gpu, Value: gpus})}
}
