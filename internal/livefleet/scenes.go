package livefleet

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// scenes are the scenarios, the one that `make run` starts first.
var scenes = []func() *scene{contended, launchDay, spotStorm, rackLoss, twoTenants}

// rackMachines is how many machines a rack of GPU machines has.
const rackMachines = 8

// gpuRack adds a rack of GPU machines that are the fleet's own.
func (s *scene) gpuRack(rack, zone string, of shape) []string {
	return s.add(fleetOf{shape: of, id: of.instanceType + "-" + rack, count: rackMachines, zone: zone, rack: rack, state: model.Idle, capacity: model.BareMetal, price: of.price / 4})
}

// stdMachines adds standard machines in two zones: reserved ones that are there, and others that
// can be bought on demand and as spot.
func (s *scene) stdMachines(reserved, onDemand, spot int) (spots [2][]string) {
	for i, zone := range []string{"zone-a", "zone-b"} {
		of := fleetOf{shape: shapeStd, zone: zone}
		of.id, of.count, of.state, of.capacity, of.price = "std-"+zone, reserved/2, model.Idle, model.Reserved, 0.48
		s.add(of)
		of.id, of.count, of.state, of.capacity, of.price = "std-od-"+zone, onDemand/2, model.Speculative, model.OnDemand, 0
		s.add(of)
		of.id, of.count, of.capacity, of.price, of.risk = "std-spot-"+zone, spot/2, model.Spot, 0.27, 0.05
		spots[i] = s.add(of)
	}
	return spots
}

// contended is a bit of everything: what is scarce is taken from what matters less, one gang
// waits, and one Need asks for what does not exist.
func contended() *scene {
	s := &scene{name: "contended", about: "everything at once: gangs, racks, spot, preemption, and not enough", period: 60}
	s.gpuRack("r1", "zone-a", shapeA100)
	s.gpuRack("r2", "zone-a", shapeA100)
	s.gpuRack("r3", "zone-b", shapeV100)
	s.gpuRack("r4", "zone-b", shapeV100)
	spots := s.stdMachines(20, 10, 12)

	s.need(plain("checkout", "web-prod", 1100, 64, 64, 0, 0))
	s.need(plain("storefront", "web-prod", 1000, 64, 160, 0, 0))
	s.need(plain("campaign", "web-prod", 950, 16, 128, 20, 45))
	s.need(plain("previews", "web-staging", 100, 1, 64, 0, 0))
	s.need(plain("reports", "batch", 60, 0, 48, 0, 0))
	s.need(plain("nightly", "batch", 50, 0, 208, 0, 0))
	s.need(plain("backfill", "batch", 10, 0, 96, 0, 0))
	s.need(gang("llama", "train-a", 900, shapeA100, 8, 7, 52))
	s.need(gang("finetune", "train-a", 500, shapeA100, 3, 0, 0))
	s.need(gang("vision", "train-a", 400, shapeV100, 5, 0, 0))
	s.need(want{name: "hopper", cluster: "train-a", priority: 600, whole: vector(96, 8), unit: vector(96, 8),
		requirements: []model.Requirement{{Key: keyProduct, Operator: model.In, Values: []string{"H100"}}}})
	s.need(gang("sweep-large", "train-b", 300, shapeA100, 5, 0, 0))
	s.need(gang("sweep-small", "train-b", 310, shapeA100, 4, 0, 0))
	s.need(gang("speech", "train-b", 410, shapeV100, 5, 0, 0))
	s.need(gang("moe", "train-b", 200, shapeV100, 8, 0, 0))

	s.moves = []move{{at: 30, machine: spots[0][:3]}, {at: 40, machine: spots[0][:3], back: true}}
	s.tenancy = engine.Tenancy{Tenants: []engine.Tenant{
		tenant("research", 192, "train-a", "train-b"), tenant("product", 64, "batch", "web-prod", "web-staging"),
	}}
	s.trials = []Trial{
		{"explain need", "hopper", "why nothing matches a need, and what is near"},
		{"explain need", "--help-me moe", "why a gang waits, and what would help"},
		{"what-if", "--remove vision", "what would be done if another cluster's gang were gone"},
	}
	return s
}

// launchDay is a shop on the day of a launch: its demand grows sixfold, what can be bought is
// bought, and then batch work makes room.
func launchDay() *scene {
	s := &scene{name: "launch-day", about: "a launch multiplies one cluster's demand", period: 120}
	s.stdMachines(16, 16, 12)
	s.need(plain("checkout", "web-prod", 1100, 64, 32, 0, 0))
	s.need(plain("storefront", "web-prod", 1000, 64, 64, 0, 0))
	s.need(plain("launch", "web-prod", 1050, 64, 128, 6, 100))
	s.need(plain("launch-peak", "web-prod", 1040, 64, 288, 14, 80))
	s.need(plain("search", "web-search", 800, 32, 96, 0, 0))
	s.need(plain("previews", "web-staging", 100, 1, 64, 0, 0))
	s.need(plain("reports", "batch", 60, 0, 64, 0, 0))
	s.need(plain("nightly", "batch", 50, 0, 256, 0, 0))
	s.trials = []Trial{
		{"explain need", "nightly", "who took the machines of the batch work"},
		{"explain need", "launch-peak", "what a launch is made of"},
		{"what-if", "--remove launch-peak", "what would be done without the peak"},
	}
	return s
}

// spotStorm takes the spot machines of one zone after the other.
func spotStorm() *scene {
	s := &scene{name: "spot-storm", about: "spot machines are interrupted zone by zone", period: 60}
	spots := s.stdMachines(8, 12, 40)
	s.need(plain("api", "web-prod", 900, 64, 128, 0, 0))
	s.need(plain("encode", "media", 200, 0, 224, 0, 0))
	s.need(plain("crawl", "batch", 120, 0, 224, 0, 0))
	s.need(plain("index", "batch", 110, 0, 96, 0, 0))
	s.moves = []move{
		{at: 8, machine: spots[0][:16]}, {at: 24, machine: spots[1][:12]},
		{at: 36, machine: spots[0][:16], back: true}, {at: 48, machine: spots[1][:12], back: true},
	}
	s.trials = []Trial{
		{"explain need", "crawl", "what a storm costs the batch work"},
		{"explain machine", "std-od-zone-a-01", "what an on-demand machine serves"},
		{"what-if", "--remove encode", "what would be done without the encoder"},
	}
	return s
}

// rackLoss takes the rack of the most important gang away, and brings it back.
func rackLoss() *scene {
	s := &scene{name: "rack-loss", about: "a rack with a gang in it is lost", period: 90}
	first := s.gpuRack("r1", "zone-a", shapeA100)
	s.gpuRack("r2", "zone-a", shapeA100)
	s.gpuRack("r3", "zone-b", shapeA100)
	s.need(gang("llama", "train-a", 800, shapeA100, 7, 0, 0))
	s.need(gang("finetune", "train-a", 500, shapeA100, 4, 0, 0))
	s.need(gang("sweep", "train-b", 300, shapeA100, 6, 0, 0))
	s.need(gang("eval", "train-c", 200, shapeA100, 2, 0, 0))
	s.moves = []move{{at: 10, machine: first}, {at: 60, machine: first, back: true}}
	s.trials = []Trial{
		{"explain need", "llama", "where the gang sits, and what it takes after the loss"},
		{"explain need", "sweep", "who pays for it"},
		{"what-if", "--remove finetune", "what would be done if one gang were gone"},
	}
	return s
}

// twoTenants lets one tenant use what the other has not needed so far, until that one wants its
// share back.
func twoTenants() *scene {
	s := &scene{name: "two-tenants", about: "a tenant wants back what another has borrowed", period: 90}
	s.gpuRack("r1", "zone-a", shapeA100)
	s.gpuRack("r2", "zone-b", shapeA100)
	s.need(gang("sweep-1", "lab-a", 500, shapeA100, 4, 0, 0))
	s.need(gang("sweep-2", "lab-a", 500, shapeA100, 4, 0, 0))
	s.need(gang("sweep-3", "lab-b", 500, shapeA100, 4, 0, 0))
	s.need(gang("sweep-4", "lab-b", 500, shapeA100, 3, 0, 0))
	s.need(gang("ranking", "serving", 500, shapeA100, 4, 8, 60))
	s.need(gang("embedding", "serving", 500, shapeA100, 3, 16, 60))
	s.tenancy = engine.Tenancy{Tenants: []engine.Tenant{tenant("labs", 64, "lab-a", "lab-b"), tenant("product", 64, "serving")}}
	s.trials = []Trial{
		{"explain need", "ranking", "how a tenant gets back what is its own"},
		{"explain need", "sweep-4", "which borrower goes first"},
		{"what-if", "--remove sweep-1", "what would be done if one sweep were gone"},
	}
	return s
}
