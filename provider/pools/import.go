package pools

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
)

// Type is an instance type in a types file; programs that write such files
// use it.
type Type struct {
	Name                   string
	Zones                  []string
	Resources, Allocatable model.Resources
	Labels                 map[string]string
	Prices                 []Price
}

// Price is one price of a type.
type Price struct {
	Zone                    string // empty = all zones
	CapacityType            model.CapacityType
	PricePerHour            float64 // USD
	InterruptionProbability float64 // per hour
}

// Catalogue says what to take of a catalogue.
type Catalogue struct {
	Provider, Region string   // as the columns of these names have it; both required
	Zones            []string // of types for which the catalogue names none
	Match            []string // patterns of names, as in m5.*; a type must fit one; empty = all
	// Reserve is what the node keeps for itself of types for which the catalogue
	// names nothing allocatable.
	Reserve model.Resources
}

// catalogueColumns are those that are read; there may be others.
var catalogueColumns = []string{
	"provider", "region", "instance_type", "arch", "vcpu", "memory_mib", "gpu_count", "gpu_model", "accel_count",
	"alloc_cpu_milli", "alloc_memory_mib", "alloc_pods", "on_demand_usd_h", "spot_usd_h", "interruption_bucket", "zones",
}

// hoursPerMonth brings the monthly interruption of a catalogue to one hour.
const hoursPerMonth = 730

// monthlyInterruption is the midpoint of each interruption bucket; the last is open-ended and
// taken as 30 %. unknownInterruption is taken where a catalogue publishes none.
var monthlyInterruption = [...]float64{0.025, 0.075, 0.125, 0.175, 0.30}

const unknownInterruption = 0.125

// importRowsMax is the most rows of a catalogue or a price list.
const importRowsMax = 1 << 20

// ReadCatalogue reads instance types out of a catalogue in CSV, sorted by name. Skipped names those that fit
// Match and cannot be machines of a pool, with the reason.
func ReadCatalogue(in io.Reader, c Catalogue) (types []Type, skipped []string, err error) {
	t, err := openTable(in, catalogueColumns)
	if err != nil {
		return nil, nil, err
	}
	var faults []error
	for t.next() {
		name := t.text("instance_type")
		if t.text("provider") != c.Provider || t.text("region") != c.Region || !c.matches(name) {
			continue
		}
		x, skip, err := c.read(t)
		switch {
		case err != nil:
			if faults = append(faults, fmt.Errorf("line %d: %s: %w", t.line, name, err)); len(faults) >= document.FaultsMax {
				return nil, nil, errors.Join(faults...)
			}
		case skip != "":
			skipped = append(skipped, name+": "+skip)
		default:
			types = append(types, x)
		}
	}
	if err := errors.Join(append(faults, t.err)...); err != nil {
		return nil, nil, err
	}
	if len(types) == 0 && len(skipped) == 0 {
		return nil, nil, fmt.Errorf("the catalogue has no type that fits for provider %q in region %q", c.Provider, c.Region)
	}
	slices.SortFunc(types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	return types, skipped, nil
}

func (c *Catalogue) matches(name string) bool {
	return len(c.Match) == 0 || slices.ContainsFunc(c.Match, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// read reads the current row.
func (c *Catalogue) read(t *table) (x Type, skip string, err error) {
	x = Type{Name: t.text("instance_type"), Zones: strings.Fields(t.text("zones")), Labels: map[string]string{"kubernetes.io/arch": t.text("arch")}}
	if len(x.Zones) == 0 {
		x.Zones = c.Zones
	}
	gpus, fraction := math.Modf(t.number("gpu_count"))
	if fraction > 0 {
		return x, "has a part of a GPU", nil
	}
	var devices []model.Amount
	if gpus > 0 {
		x.Labels["tonnage.dev/gpu-model"] = t.text("gpu_model")
		devices = append(devices, model.Amount{Name: gpuResource(t.text("gpu_model")), Value: int64(gpus)})
	}
	if n := t.number("accel_count"); n > 0 {
		devices = append(devices, model.Amount{Name: "aws.amazon.com/neuron", Value: int64(n)})
	}
	x.Resources = vector(devices, t.number("vcpu")*1000, t.number("memory_mib"), 0)
	switch {
	case t.text("alloc_cpu_milli") != "":
		x.Allocatable = vector(devices, t.number("alloc_cpu_milli"), t.number("alloc_memory_mib"), t.number("alloc_pods"))
	case !c.Reserve.IsZero():
		x.Allocatable = x.Resources.Sub(c.Reserve)
	default:
		return x, "the catalogue does not say what is allocatable; say what a node keeps for itself", nil
	}
	if t.text("on_demand_usd_h") != "" {
		x.Prices = append(x.Prices, Price{CapacityType: model.OnDemand, PricePerHour: t.number("on_demand_usd_h")})
	}
	if t.text("spot_usd_h") != "" {
		x.Prices = append(x.Prices, Price{CapacityType: model.Spot, PricePerHour: t.number("spot_usd_h"), InterruptionProbability: t.interruption()})
	}
	switch {
	case len(x.Prices) == 0:
		skip = "has no price"
	case len(x.Zones) == 0:
		skip = "the catalogue names no zone; name some"
	}
	return x, skip, t.fault()
}

func gpuResource(gpuModel string) string {
	if strings.HasPrefix(gpuModel, "radeon") {
		return "amd.com/gpu"
	}
	return "nvidia.com/gpu"
}

// vector returns resources from CPUs in thousandths, MiB of memory and a number of pods.
func vector(devices []model.Amount, cpu, mib, pods float64) model.Resources {
	return model.NewResources(append(slices.Clone(devices),
		model.Amount{Name: "cpu", Value: int64(cpu)}, model.Amount{Name: "memory", Value: int64(mib) << 20}, model.Amount{Name: "pods", Value: int64(pods)})...)
}

// interruption returns the probability per hour of the row's bucket.
func (t *table) interruption() float64 {
	monthly := unknownInterruption
	if t.text("interruption_bucket") != "" {
		i := t.number("interruption_bucket")
		if i != math.Trunc(i) || int(i) >= len(monthlyInterruption) {
			t.wrong("interruption_bucket", fmt.Sprintf("must be a whole number from 0 to %d", len(monthlyInterruption)-1))
			return 0
		}
		monthly = monthlyInterruption[int(i)]
	}
	return 1 - math.Pow(1-monthly, 1.0/hoursPerMonth)
}

// table reads a CSV by the names of its columns.
type table struct {
	csv    *csv.Reader
	column map[string]int
	record []string
	line   int
	rows   int
	err    error
	faults []error // of the current row
}

// openTable reads the line of the columns' names; all of required must be there.
func openTable(in io.Reader, required []string) (*table, error) {
	t := &table{csv: csv.NewReader(in), column: map[string]int{}}
	t.csv.ReuseRecord = true
	head, err := t.csv.Read()
	if err != nil {
		return nil, fmt.Errorf("the line of the columns' names: %w", err)
	}
	for i, name := range head {
		t.column[strings.TrimPrefix(name, "\ufeff")] = i
	}
	for _, name := range required {
		if _, ok := t.column[name]; !ok {
			return nil, fmt.Errorf("line 1: there is no column %q; columns needed are %s", name, strings.Join(required, ", "))
		}
	}
	return t, nil
}

func (t *table) next() bool {
	if t.record, t.err = t.csv.Read(); t.err != nil {
		if errors.Is(t.err, io.EOF) {
			t.err = nil
		}
		return false
	}
	if t.rows++; t.rows > importRowsMax {
		t.err = fmt.Errorf("more than %d rows", importRowsMax)
		return false
	}
	t.line, _ = t.csv.FieldPos(0)
	t.faults = t.faults[:0]
	return true
}

// text returns a field, empty where there is no such column.
func (t *table) text(column string) string {
	if i, ok := t.column[column]; ok {
		return strings.Clone(t.record[i])
	}
	return ""
}

// number returns a field that is a number of at least 0; empty is 0.
func (t *table) number(column string) float64 {
	text := t.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1e12) {
		t.wrong(column, "must be a number from 0 to 1e12")
		return 0
	}
	return v
}

func (t *table) wrong(column, must string) {
	t.faults = append(t.faults, fmt.Errorf("column %q %s, got %s", column, must, document.Quote(t.text(column))))
}

// fault returns what is wrong with the current row.
func (t *table) fault() error { return errors.Join(t.faults...) }
