package trace

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// The part of the price list that is on sale.
const (
	offerProvider = "aws"
	offerRegion   = "us-east-1"
)

// hoursPerMonth brings monthly interruption to one hour.
const hoursPerMonth = 730

// monthlyInterruption is the midpoint of each interruption bucket; the last is
// open-ended and taken as 30 %.
var monthlyInterruption = [...]float64{0.025, 0.075, 0.125, 0.175, 0.30}

var catalogColumns = schema{
	"provider", "region", "instance_type", "family", "arch", "vcpu", "memory_mib",
	"gpu_count", "gpu_model", "gpu_memory_mib", "accel_count", "accel_model", "local_disk_gb", "bare_metal", "burstable",
	"alloc_cpu_milli", "alloc_memory_mib", "alloc_pods", "on_demand_usd_h", "on_demand_asof",
	"spot_usd_h", "spot_kind", "spot_discount_pct", "interruption_bucket", "interruption_label", "spot_asof", "zones",
}

// offered are the types on sale: two plain ones that hold the largest plain
// pods, and one of each GPU count of models that the trace does not have.
var offered = []string{"m6i.16xlarge", "r6i.16xlarge", "g6.12xlarge", "g6.48xlarge", "g6e.48xlarge"}

// equivalents joins GPU models of the price list to those of the trace, and
// says which types sell them. It is the only place where the two meet.
var equivalents = []struct{ instanceType, catalogModel, traceModel string }{
	{"g4dn.12xlarge", "t4", "T4"},
	{"g4dn.metal", "t4", "T4"},
	{"p3dn.24xlarge", "v100", "V100M32"},
}

// wanted returns the instance types of an offer and, for each, the GPU model
// of the trace that it stands for, empty when none.
func (o Offer) wanted() map[string]string {
	types := map[string]string{}
	if o == OfferNone {
		return types
	}
	for _, name := range offered {
		types[name] = ""
	}
	if o == OfferEquivalents {
		for _, e := range equivalents {
			types[e.instanceType] = e.traceModel
		}
	}
	return types
}

// readOffer reads the types on sale as Speculative machines.
func readOffer(dir string, o Offer) ([]model.Machine, error) {
	path := filepath.Join(dir, "..", "catalog", "instances.csv")
	t, err := openTable(path, catalogColumns)
	if err != nil {
		return nil, err
	}
	types := o.wanted()
	left := len(types)
	var out []model.Machine
	for t.next() {
		if t.record[t.column["provider"]] != offerProvider || t.record[t.column["region"]] != offerRegion {
			continue
		}
		if traceModel, ok := types[t.record[t.column["instance_type"]]]; ok {
			out = append(out, readType(t, traceModel)...)
			left--
		}
	}
	if err := t.close(); err != nil {
		return nil, err
	}
	if left > 0 {
		return nil, fmt.Errorf("%s: %d of the %d instance types on sale are not listed for %s %s; take the file from the data set again",
			path, left, len(types), offerProvider, offerRegion)
	}
	return out, nil
}

// readType reads the current row as slots, on demand and spot.
func readType(t *table, traceModel string) []model.Machine {
	name := t.text("instance_type")
	gpuModel := traceModel
	if gpuModel == "" {
		gpuModel = strings.ToUpper(t.text("gpu_model"))
	}
	m := model.Machine{
		State:        model.Speculative,
		CapacityType: model.OnDemand,
		InstanceType: name,
		Zone:         offerRegion,
		Resources:    resources(t.whole("vcpu", cpuMilliMax/1000)*1000, t.whole("memory_mib", memoryMax)*mib, t.whole("gpu_count", gpusMax)*1000),
		Allocatable:  resources(t.whole("alloc_cpu_milli", cpuMilliMax), t.whole("alloc_memory_mib", memoryMax)*mib, t.whole("gpu_count", gpusMax)*1000),
	}
	if gpuModel != "" {
		m.Labels = map[string]string{keyModel: gpuModel}
	}
	var priced bool
	if m.PricePerHour, priced = t.dollars("on_demand_usd_h"); !priced {
		t.fault("on_demand_usd_h", "%s has no price; give one", name)
	}
	out := slots(m, "on-demand")
	if spot, priced := t.dollars("spot_usd_h"); priced {
		m.CapacityType, m.PricePerHour = model.Spot, spot
		m.InterruptionProbability = hourly(t.whole("interruption_bucket", int64(len(monthlyInterruption)-1)))
		out = append(out, slots(m, "spot")...)
	}
	return out
}

// hourly returns the probability of interruption per hour of a bucket.
func hourly(bucket int64) float64 {
	return 1 - math.Pow(1-monthlyInterruption[bucket], 1.0/hoursPerMonth)
}

// slots returns SlotsPerType copies of a slot, each with an id of its own.
func slots(m model.Machine, kind string) []model.Machine {
	out := make([]model.Machine, SlotsPerType)
	for i := range out {
		out[i] = m
		out[i].ID = fmt.Sprintf("%s-%s-%02d", m.InstanceType, kind, i)
	}
	return out
}
