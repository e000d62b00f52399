package buying

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// The dimensions of machines and pods here, in this order: thousandths of a core,
// MiB of memory, GPUs, pods.
const (
	dimCPU = iota
	dimMemory
	dimGPU
	dimPods
	dims
)

// Type is an instance type that can be bought.
type Type struct {
	Name     string
	Capacity [dims]int64 // what pods may use of it
	Price    float64     // dollars an hour, on demand
}

// Region is the part of the catalogue that one fleet may buy.
type Region struct {
	Provider, Name string
}

// ReadCatalogue reads the types of one region that a NodePool of ordinary pods would
// allow: amd64, neither bare metal nor burstable, with a price on demand, no
// accelerators but GPUs, and whole GPUs.
func ReadCatalogue(from io.Reader, region Region) ([]Type, error) {
	r := csv.NewReader(from)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		column[name] = i
	}
	var types []Type
	for {
		row, err := r.Read()
		if err == io.EOF {
			return types, nil
		}
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		cell := func(name string) string { return row[column[name]] }
		number := func(name string) float64 {
			x, err := strconv.ParseFloat(cell(name), 64)
			if err != nil {
				return 0
			}
			return x
		}
		if cell("provider") != region.Provider || cell("region") != region.Name || cell("arch") != "amd64" ||
			number("bare_metal") != 0 || number("burstable") != 0 || number("accel_count") != 0 || number("on_demand_usd_h") <= 0 {
			continue
		}
		gpus := number("gpu_count")
		if gpus != float64(int64(gpus)) {
			continue
		}
		t := Type{Name: cell("instance_type"), Price: number("on_demand_usd_h")}
		t.Capacity = [dims]int64{int64(number("alloc_cpu_milli")), int64(number("alloc_memory_mib")), int64(gpus), int64(number("alloc_pods"))}
		if t.Capacity[dimCPU] == 0 {
			t.Capacity = reserveOnGKE(int64(number("vcpu")), int64(number("memory_mib")), int64(gpus))
		}
		types = append(types, t)
	}
}

// reserveOnGKE returns what pods may use of a machine for which the catalogue does not
// say it, by the reservations that Google documents for its clusters: of the cores 6 % of
// the first, 1 % of the second, 0.5 % of the next two, 0.25 % of the others; of the memory
// 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 %
// of the rest, and 100 MiB.
func reserveOnGKE(cores, mib, gpus int64) [dims]int64 {
	reserved := func(n int64, steps [][2]int64, rest int64) (sum int64) {
		for _, s := range steps {
			sum += min(n, s[0]) * s[1]
			n -= min(n, s[0])
		}
		return sum + n*rest
	}
	cpu := reserved(cores, [][2]int64{{1, 6000}, {1, 1000}, {2, 500}}, 250) / 100
	memory := reserved(mib, [][2]int64{{4 << 10, 25}, {4 << 10, 20}, {8 << 10, 10}, {112 << 10, 6}}, 2) / 100
	return [dims]int64{1000*cores - cpu, mib - memory - 100, gpus, 110}
}
