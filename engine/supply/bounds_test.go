package supply

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

func profileOf(tb testing.TB, spec model.ProfileSpec) *model.Profile {
	tb.Helper()
	p, err := model.NewProfile(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func needs(tb testing.TB, key string, op model.Operator, values ...string) *model.Profile {
	return profileOf(tb, model.ProfileSpec{Requirements: []model.Requirement{{Key: key, Operator: op, Values: values}}})
}

func spreadOver(tb testing.TB, key string) *model.Profile {
	return profileOf(tb, model.ProfileSpec{Spread: []model.Spread{{Key: key, MaxSkew: 1, WhenUnsatisfiable: model.DoNotSchedule}}})
}

func machine(i int) model.Machine {
	return model.Machine{
		ID: fmt.Sprintf("m%05d", i), State: model.Idle, InstanceType: "large", PricePerHour: 1,
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4}),
		Labels:    map[string]string{"host": fmt.Sprint("h", i), "zone": fmt.Sprint("z", i%3)},
	}
}

func put(tb testing.TB, t *Table, m model.Machine) columnar.Row {
	tb.Helper()
	if err := t.Put(&m); err != nil {
		tb.Fatal(err)
	}
	r, _ := t.Lookup(m.ID)
	return r
}

func use(tb testing.TB, t *Table, profiles ...*model.Profile) {
	tb.Helper()
	if err := t.Use(profiles); err != nil {
		tb.Fatal(err)
	}
}

// TestKeysAreLetGo: demand that looks at ever new attributes never meets the
// limit, as long as it looks at few at one time.
func TestKeysAreLetGo(t *testing.T) {
	x := New()
	for i := range 20 {
		put(t, x, machine(i))
	}
	kept := needs(t, "zone", model.In, "z1")
	for i := range 3 * KeysMax {
		key := fmt.Sprint("key", i)
		use(t, x, kept, needs(t, key, model.Exists), spreadOver(t, key+"-spread"))
		if got := x.CountMatching(model.Idle, x.Matcher(kept)); got != 7 {
			t.Fatalf("after %d keys %d machines are in zone z1, want 7", i, got)
		}
	}
	if n := len(x.keyIDs); n > 3*keyIdleCycles {
		t.Errorf("%d keys are kept", n)
	}
	for range keyIdleCycles + matcherIdleCycles {
		use(t, x, kept)
	}
	if len(x.keyIDs) != 1 || len(x.matchers.ids) != 1 || len(x.matchers.byProfile) > 2+idleMatchersKept {
		t.Errorf("long after: %d keys, %d matchers, %d profiles", len(x.keyIDs), len(x.matchers.ids), len(x.matchers.byProfile))
	}
	if x.values.dict.Len() != 3 {
		t.Errorf("%d values are kept, want those of zone", x.values.dict.Len())
	}
}

// TestKeysOfOneDemandAreBounded: too many at one time is an error that names
// the key; the table goes on working.
func TestKeysOfOneDemandAreBounded(t *testing.T) {
	x := New()
	put(t, x, machine(1))
	kept := needs(t, "zone", model.Exists)
	profiles := []*model.Profile{kept}
	for i := range KeysMax {
		profiles = append(profiles, needs(t, fmt.Sprint("key", i), model.Exists))
	}
	for range 2 {
		if err := x.Use(profiles); err == nil || !strings.Contains(err.Error(), `"key1023" is one too many`) {
			t.Fatalf("error is %v", err)
		}
	}
	put(t, x, machine(2))
	use(t, x, kept)
	if got := x.CountMatching(model.Idle, x.Matcher(kept)); got != 2 {
		t.Errorf("%d machines match, want 2", got)
	}
	use(t, x, profiles[:KeysMax]...)
}

// TestSpreadKeyThatGrowsStopsSplitting: a key with few values splits classes
// for spread; when host names arrive it no longer does, at once.
func TestSpreadKeyThatGrowsStopsSplitting(t *testing.T) {
	x := New()
	for i := range spreadValuesMax {
		put(t, x, machine(i))
	}
	p := spreadOver(t, "host")
	use(t, x, p)
	if !x.Splits(x.Key("host")) || len(x.classes.ids) != spreadValuesMax {
		t.Fatalf("%d classes, splits %v", len(x.classes.ids), x.Splits(x.Key("host")))
	}
	for i := range 500 {
		put(t, x, machine(spreadValuesMax+i))
		if n := len(x.classes.ids); n != 1 {
			t.Fatalf("%d classes after %d more hosts", n, i+1)
		}
	}
	if x.Splits(x.Key("host")) {
		t.Error("the key still splits")
	}
	for i := range 500 {
		x.Remove(machine(i + spreadValuesMax).ID)
	}
	for range keyIdleCycles {
		use(t, x)
	}
	if use(t, x, p); !x.Splits(x.Key("host")) {
		t.Error("long after, the key has few values and does not split")
	}
}

// TestKeyFirstUsedForSame: whether a key splits for spread does not depend on
// what else it was used for before.
func TestKeyFirstUsedForSame(t *testing.T) {
	x := New()
	for i := range 9 {
		put(t, x, machine(i))
	}
	same, spread := needs(t, "zone", model.Same), spreadOver(t, "zone")
	if use(t, x, same); x.Splits(x.Key("zone")) {
		t.Error("a key used for Same alone splits classes")
	}
	if use(t, x, same, spread); !x.Splits(x.Key("zone")) || len(x.classes.ids) != 3 {
		t.Errorf("%d classes", len(x.classes.ids))
	}
}

// TestNothingPilesUp: machines that come and go with names, labels, shapes and
// dimensions of their own leave nothing behind.
func TestNothingPilesUp(t *testing.T) {
	x := New()
	use(t, x, needs(t, "zone", model.Exists), needs(t, "host", model.Same))
	for i := range 5 * DimsMax {
		m := machine(i)
		m.State, m.Host, m.Cluster = model.Configured, fmt.Sprint("host", i), fmt.Sprint("cluster", i)
		if i%2 == 0 {
			m.Host = fmt.Sprint(i%7, m.ID, ".node")
		}
		m.Zone, m.InstanceType, m.Assigned.Group = fmt.Sprint("z", i), fmt.Sprint("t", i), fmt.Sprint("g", i)
		m.Resources = model.NewResources(model.Amount{Name: fmt.Sprint("dim", i), Value: 1}, model.Amount{Name: "cpu", Value: int64(i + 1)})
		m.LastError = strings.Repeat("é", ErrorBytesMax)
		m.Reservation.Owner.Cluster = "owner"
		r := put(t, x, m)
		if got := len(x.Get(r).LastError); got > ErrorBytesMax {
			t.Fatalf("%d bytes of error", got)
		}
		if i >= 3 {
			x.Remove(machine(i - 3).ID)
		}
		x.Order()
	}
	for i := range 5 * DimsMax {
		x.Remove(machine(i).ID)
	}
	left := []int{
		x.Len(), x.ids.dict.Len(), x.names.dict.Len(), x.hosts.forms.dict.Len(), x.hosts.texts.Len(), x.values.dict.Len(), x.labels.names.dict.Len(),
		x.labels.keys.dict.Len(), x.shapes.names.dict.Len(), len(x.classes.ids), len(x.lastError), len(x.reservations), len(x.Order()),
	}
	if !reflect.DeepEqual(left, make([]int, len(left))) {
		t.Errorf("left behind: %v", left)
	}
	if x.RowMax() > 6 || len(x.classes.list) > 6 || len(x.shapes.res) > 6 || len(x.Dims()) > DimsMax {
		t.Errorf("%d rows, %d classes, %d shapes, %d dimensions", x.RowMax(), len(x.classes.list), len(x.shapes.res), len(x.Dims()))
	}
	for id, r := range x.shapes.res {
		if r != nil || x.shapes.alloc[id] != nil {
			t.Errorf("shape %d is still held", id)
		}
	}
}

// TestRefusedRecordLeavesTheLastGoodOne: whatever is wrong with it.
func TestRefusedRecordLeavesTheLastGoodOne(t *testing.T) {
	long := strings.Repeat("x", model.NameBytesMax+1)
	for name, c := range map[string]struct {
		want  error
		spoil func(*model.Machine)
	}{
		"price":       {model.ErrPrice, func(m *model.Machine) { m.PricePerHour = -1 }},
		"price NaN":   {model.ErrPrice, func(m *model.Machine) { m.PricePerHour = math.NaN() }},
		"price Inf":   {model.ErrPrice, func(m *model.Machine) { m.PricePerHour = math.Inf(1) }},
		"probability": {model.ErrProbability, func(m *model.Machine) { m.InterruptionProbability = 1.5 }},
		"prob. NaN":   {model.ErrProbability, func(m *model.Machine) { m.InterruptionProbability = math.NaN() }},
		"cluster":     {model.ErrStructural, func(m *model.Machine) { m.Cluster = "a" }},
		"no cluster":  {model.ErrStructural, func(m *model.Machine) { m.State = model.Configured }},
		"state":       {model.ErrStructural, func(m *model.Machine) { m.State = 99 }},
		"no state":    {model.ErrStructural, func(m *model.Machine) { m.State = 0 }},
		"capacity":    {model.ErrStructural, func(m *model.Machine) { m.CapacityType = 9 }},
		"bucket":      {model.ErrStructural, func(m *model.Machine) { m.Assigned.Reclamation = 28 }},
		"long zone":   {model.ErrStructural, func(m *model.Machine) { m.Zone = long }},
		"huge labels": {model.ErrStructural, func(m *model.Machine) { m.Labels = map[string]string{"a": strings.Repeat("x", 1<<17)} }},
		"vector":      {model.ErrStructural, func(m *model.Machine) { m.Resources = model.Resources{{Name: "b", Value: -4}} }},
	} {
		x := New()
		use(t, x, needs(t, "zone", model.Exists))
		r := put(t, x, machine(1))
		good, version := x.Get(r), x.Version()
		bad := machine(1)
		bad.PricePerHour = 7
		c.spoil(&bad)
		err := x.Put(&bad)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v", name, err)
		}
		if !reflect.DeepEqual(x.Get(r), good) || x.Version() != version || x.Count(model.Idle) != 1 || x.shapes.names.dict.Len() != 1 {
			t.Errorf("%s: the last good record changed to %+v", name, x.Get(r))
		}
		bad.ID = "new"
		if x.Put(&bad) == nil || x.Len() != 1 {
			t.Errorf("%s: accepted as a new machine", name)
		}
	}
}

// TestNegativeZeroIsZero: the two zeros are one price and one class.
func TestNegativeZeroIsZero(t *testing.T) {
	x := New()
	a, b := machine(1), machine(2)
	a.PricePerHour, b.PricePerHour = 0, math.Copysign(0, -1)
	ra, rb := put(t, x, a), put(t, x, b)
	if x.Class(ra) != x.Class(rb) || math.Signbit(x.Get(rb).PricePerHour) {
		t.Error("−0 is another price than 0")
	}
	if err := x.SetPrice(ra, math.Copysign(0, -1), math.Copysign(0, -1)); err != nil || x.Class(ra) != x.Class(rb) {
		t.Errorf("after SetPrice −0 is another price: %v", err)
	}
}
