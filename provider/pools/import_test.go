package pools_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/pools"
)

const catalogue = `provider,region,instance_type,arch,vcpu,memory_mib,gpu_count,gpu_model,accel_count,alloc_cpu_milli,alloc_memory_mib,alloc_pods,on_demand_usd_h,spot_usd_h,interruption_bucket,zones
aws,east,m5.large,amd64,2,8192,0,,0,1930,7000,29,0.096,0.04,1,
aws,east,p4d,amd64,96,1179648,8,a100,0,95690,1082712,737,21.9,,,
aws,west,m5.large,amd64,2,8192,0,,0,1930,7000,29,0.1,,,
gcp,c1,n1,amd64,4,15360,0,,0,,,,0.2,0.05,,c1-a c1-b
gcp,c1,g4,amd64,4,15360,0.5,x,0,,,,0.2,0.05,,c1-a
gcp,c1,n2,amd64,4,15360,0,,0,,,,,,,c1-a
`

func TestReadCatalogue(t *testing.T) {
	types, skipped, err := pools.ReadCatalogue(strings.NewReader(catalogue), pools.Catalogue{Provider: "aws", Region: "east", Zones: []string{"a", "b"}})
	if err != nil || len(skipped) != 0 || len(types) != 2 {
		t.Fatalf("types %v, skipped %q, %v", types, skipped, err)
	}
	m5, p4 := types[0], types[1]
	if m5.Name != "m5.large" || len(m5.Zones) != 2 || m5.Resources.Get("cpu") != 2000 || m5.Allocatable.Get("pods") != 29 || m5.Allocatable.Get("memory") != 7000<<20 || m5.Labels["kubernetes.io/arch"] != "amd64" {
		t.Errorf("type %+v", m5)
	}
	hourly := 1 - math.Pow(1-0.075, 1.0/730)
	if want := []pools.Price{{CapacityType: model.OnDemand, PricePerHour: 0.096}, {CapacityType: model.Spot, PricePerHour: 0.04, InterruptionProbability: hourly}}; !reflect.DeepEqual(m5.Prices, want) {
		t.Errorf("prices %v, want %v", m5.Prices, want)
	}
	if p4.Allocatable.Get("nvidia.com/gpu") != 8 || len(p4.Prices) != 1 {
		t.Errorf("type %+v", p4)
	}
	c := pools.Catalogue{Provider: "gcp", Region: "c1"}
	if _, skipped, err := pools.ReadCatalogue(strings.NewReader(catalogue), c); err != nil || len(skipped) != 3 {
		t.Errorf("skipped %q, %v; want all three", skipped, err)
	}
	c.Reserve, c.Match = model.NewResources(model.Amount{Name: "cpu", Value: 100}), []string{"n*"}
	types, skipped, err = pools.ReadCatalogue(strings.NewReader(catalogue), c)
	if err != nil || len(types) != 1 || len(skipped) != 1 || types[0].Allocatable.Get("cpu") != 3900 || types[0].Zones[1] != "c1-b" {
		t.Errorf("types %+v, skipped %q, %v", types, skipped, err)
	}
	for text, want := range map[string]string{
		"":                  "names: EOF",
		"provider,region\n": `there is no column "instance_type"`,
		strings.Replace(catalogue, "0.096", "x", 1):            `line 2: m5.large: column "on_demand_usd_h" must be a number from 0 to 1e12, got "x"`,
		strings.Replace(catalogue, "0.04,1", "0.04,5", 1):      `column "interruption_bucket" must be a whole number from 0 to 4`,
		strings.Replace(catalogue, "aws,east", "aws,north", 2): "no type that fits",
		catalogue + "aws\n": "wrong number of fields",
	} {
		if _, _, err := pools.ReadCatalogue(strings.NewReader(text), pools.Catalogue{Provider: "aws", Region: "east", Zones: []string{"a"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A types file that was written is read as the same types, with prices of a list put over them.
func TestPricesAndTypesFile(t *testing.T) {
	types, _, err := pools.ReadCatalogue(strings.NewReader(catalogue), pools.Catalogue{Provider: "aws", Region: "east", Zones: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	csv := "instance_type,zone,capacity_type,price_per_hour,interruption_probability\nm5.large,a,spot,0.01,\np4d,,OnDemand,20,\nother,,spot,1,0.1\n"
	json := `[{"instanceType": "m5.large", "zone": "a", "capacityType": "Spot", "pricePerHour": 0.01},
	 {"instanceType": "p4d", "capacityType": "OnDemand", "pricePerHour": 20}, {"instanceType": "other", "capacityType": "Spot", "pricePerHour": 1, "interruptionProbability": 0.1}]`
	for _, text := range []string{csv, "\n " + json} {
		list, err := pools.ReadPrices(strings.NewReader(text))
		if err != nil || len(list) != 3 {
			t.Fatalf("list %v, %v", list, err)
		}
		for range 2 { // the second time changes nothing
			if unknown := pools.ApplyPrices(types, list); unknown != 1 {
				t.Errorf("%d rows name no type, want 1", unknown)
			}
		}
		if p := types[0].Prices; len(p) != 3 || p[2].Zone != "a" || p[2].PricePerHour != 0.01 || p[2].InterruptionProbability != p[1].InterruptionProbability {
			t.Errorf("prices %+v", p)
		}
		if p := types[1].Prices; len(p) != 1 || p[0].PricePerHour != 20 {
			t.Errorf("prices %+v", p)
		}
	}
	path := write(t, "types.yaml", string(pools.AppendTypes(nil, types)))
	again, err := pools.ReadTypes(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again { // six digits of a probability are written
		for k := range again[i].Prices {
			if got, want := again[i].Prices[k].InterruptionProbability, types[i].Prices[k].InterruptionProbability; math.Abs(got-want) < 1e-9 {
				again[i].Prices[k].InterruptionProbability = want
			}
		}
	}
	if !reflect.DeepEqual(again, types) {
		t.Errorf("read   %+v\nwanted %+v", again, types)
	}
	for text, want := range map[string]string{
		"  ":              "is empty",
		"[{}]":            "price list:1:2: [0].instanceType: is missing",
		"[{":              "line",
		"instance_type\n": `no column "capacity_type"`,
		"instance_type,capacity_type,price_per_hour\nx,y,1\nx,spot,\n": `line 2: column "capacity_type" must be one of`,
	} {
		if _, err := pools.ReadPrices(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// A file that changes is taken over; a bad one changes nothing and is told once; one that
// is mended to what it was is no news.
func TestWatch(t *testing.T) {
	path := write(t, "pools.yaml", example, "types.yaml", exampleTypes)
	dir := filepath.Dir(path)
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, f, err := pools.Watch(path, nil, slog.New(slog.DiscardHandler))
		if err != nil || len(f.Pools) != 2 {
			t.Fatalf("%v, %v", f, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var taken []*pools.File
		var refused []error
		ended := make(chan error, 1)
		go func() {
			ended <- w.Run(ctx, func(f *pools.File) { taken = append(taken, f) }, func(err error) { refused = append(refused, err) })
		}()
		look := func() (int, int) {
			wait := context.WithoutCancel(ctx)
			wait, stop := context.WithTimeout(wait, 3*pools.ReadEvery)
			defer stop()
			<-wait.Done()
			synctest.Wait()
			return len(taken), len(refused)
		}
		for _, step := range []struct {
			name, text     string
			taken, refused int
		}{
			{"pools.yaml", example, 0, 0},
			{"pools.yaml", "pools: [", 0, 1},
			{"pools.yaml", example, 0, 1},
			{"pools.yaml", strings.Replace(example, "machines: 100", "machines: 7", 1), 1, 1},
			{"types.yaml", "types: 7", 1, 2},
			{"types.yaml", strings.Replace(exampleTypes, "pricePerHour: 0", "pricePerHour: 2", 1), 2, 2},
		} {
			put(step.name, step.text)
			if n, bad := look(); n != step.taken || bad != step.refused {
				t.Errorf("after %.60q: %d taken over, %d refused; want %d, %d", step.text, n, bad, step.taken, step.refused)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if taken[0].Pool("general").Machines != 7 || taken[1].Pool("owned").Offers[0].PricePerHour != 2 {
			t.Error("what was taken over is not what the files say")
		}
	})
}
