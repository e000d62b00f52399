package supply

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func longRequirement(from, n int) model.Requirement {
	r := model.Requirement{Key: model.KeyInstanceType, Operator: model.In}
	for i := range n {
		r.Values = append(r.Values, fmt.Sprintf("type-%03d", from+i))
	}
	return r
}

// colliding remembers everything, under one number out of two.
type colliding map[uint64]*verdict

func (c colliding) get(key uint64) *verdict    { return c[key&1] }
func (c colliding) set(key uint64, v *verdict) { c[key&1] = v }

// TestVerdictsAreConfirmed: two requirements, or values, with one number do not
// answer for each other, however little the numbers tell apart.
func TestVerdictsAreConfirmed(t *testing.T) {
	for name, x := range map[string]*Table{"process": New(), "forgetful": New().Forgetful(), "colliding": {verdicts: colliding{}}} {
		hits := 0
		for round := range 50 {
			for _, from := range []int{0, 20, 1000} {
				r := longRequirement(from, longList)
				r.Operator = []model.Operator{model.In, model.NotIn}[round%2]
				p := x.compile(r)
				for i := range 90 {
					value := fmt.Sprintf("type-%03d", i)
					if got, want := p.matches(x, value, true), r.Matches(value, true); got != want {
						t.Fatalf("%s: %v of %d… says %v of %q", name, r.Operator, from, got, value)
					}
				}
				if q := x.compile(r); q.compiled == p.compiled {
					hits++
				}
			}
			if l, ok := x.memory().(*lasting); ok {
				l.cache.Wait()
			}
		}
		if name == "process" && hits == 0 {
			t.Error("a requirement that comes back is never found again")
		}
	}
	if short := New().compile(longRequirement(0, longList-1)); short.compiled != nil {
		t.Error("what short lists say is remembered")
	}
}

// BenchmarkChurn has profiles with long lists of instance types come and go,
// over a fleet of many classes: what a class or a profile costs that is new to
// the table, but was there before.
func BenchmarkChurn(b *testing.B) {
	const types, profiles = 240, 300
	for _, n := range []int{8, longList, 200} {
		for name, open := range map[string]func() *Table{"remembered": New, "forgetful": func() *Table { return New().Forgetful() }} {
			b.Run(fmt.Sprintf("values=%d/verdicts=%s", n, name), func(b *testing.B) {
				x := open()
				for i := range 4 * types {
					m := machine(i)
					m.InstanceType, m.PricePerHour = fmt.Sprintf("type-%03d", i%types), float64(i)
					put(b, x, m)
				}
				var list []*model.Profile
				for i := range profiles {
					list = append(list, profileOf(b, model.ProfileSpec{Requirements: []model.Requirement{longRequirement(i%40, n), {Key: "zone", Operator: model.In, Values: []string{"z1", fmt.Sprint("z", i)}}}}))
				}
				use(b, x, list...)
				price := 1e6
				for b.Loop() { // every machine gets a price, and so a class, of its own
					for r := range x.All() {
						price++
						if err := x.SetPrice(r, price, 0); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4*types*profiles), "ns/decision")
			})
		}
	}
}
