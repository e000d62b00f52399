package model

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestBucketLadder: dollars go to the smallest bucket whose bound covers them.
func TestBucketLadder(t *testing.T) {
	for dollars, want := range map[float64]Bucket{
		-1: 1, 0: 1, 1e-9: 2, 0.5: 2, 0.51: 3, 1: 3, 1.01: 4, 2: 4, 4: 5, 4.5: 6, 8388608: 26, 8388608.01: 27, math.MaxFloat64: 27,
	} {
		if got := BucketForDollars(dollars); got != want {
			t.Errorf("$%v goes to bucket %d, want %d", dollars, got, want)
		}
	}
	if BucketForDollars(math.NaN()) != BucketZero || BucketForDollars(math.Inf(1)) != BucketPinned || BucketForDollars(math.Inf(-1)) != BucketZero {
		t.Error("NaN is $0, +Inf is pinned, -Inf is $0")
	}
	for b := BucketZero; b <= BucketPinned; b++ {
		if got := BucketForDollars(b.Dollars()); got != b {
			t.Errorf("the bound of bucket %d, $%v, goes to %d", b, b.Dollars(), got)
		}
		if b > BucketZero && b.Dollars() <= (b-1).Dollars() {
			t.Errorf("bucket %d is not above %d", b, b-1)
		}
	}
	if BucketUnspecified.Dollars() != 0 || !math.IsInf(BucketPinned.Dollars(), 1) || Bucket(28).Valid() || !math.IsInf(Bucket(200).Dollars(), 1) {
		t.Error("the ends of the ladder are off")
	}
	for b, want := range map[Bucket]string{0: "unspecified", 1: "0", 2: "0.5", 3: "1", 26: "8388608", 27: "pinned"} {
		if b.Label() != want {
			t.Errorf("bucket %d is labelled %q", b, b.Label())
		}
	}
}

// TestResources: the arithmetic of vectors, at its ends.
func TestResources(t *testing.T) {
	r := NewResources(Amount{"b", 2}, Amount{"a", math.MaxInt64}, Amount{"a", 1}, Amount{"c", 0}, Amount{"d", -1})
	if want := (Resources{{"a", math.MaxInt64}, {"b", 2}}); !r.Equal(want) || !r.Canonical() {
		t.Errorf("canonical vector is %v, want %v", r, want)
	}
	if got := r.Add(r); got.Get("a") != math.MaxInt64 || got.Get("b") != 4 {
		t.Errorf("sum is %v", got)
	}
	if got := r.Sub(Resources{{"a", 1}, {"b", 5}}); !got.Equal(Resources{{"a", math.MaxInt64 - 1}}) {
		t.Errorf("difference is %v", got)
	}
	if got := r.Sub(r); got != nil || !got.IsZero() {
		t.Errorf("r - r is %v", got)
	}
	if got := (Resources{{"a", 1}}).Max(Resources{{"0", 3}, {"a", 7}}); !got.Equal(Resources{{"0", 3}, {"a", 7}}) {
		t.Errorf("maximum is %v", got)
	}
	if !r.Covers(nil) || !r.Covers(r) || r.Covers(Resources{{"x", 1}}) || r.Covers(Resources{{"b", 3}}) || (Resources)(nil).Covers(r) {
		t.Error("covers is wrong")
	}
	for _, bad := range []Resources{{{"a", 0}}, {{"a", -1}}, {{"", 1}}, {{"b", 1}, {"a", 1}}, {{"a", 1}, {"a", 1}}} {
		if bad.Canonical() {
			t.Errorf("%v passes for canonical", bad)
		}
	}
}

// TestSaturation: sums and products stop at the largest number.
func TestSaturation(t *testing.T) {
	const top = math.MaxInt64
	for _, c := range [][3]int64{{1, 2, 3}, {top, 0, top}, {top, 1, top}, {top, top, top}} {
		if got := SatAdd(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d", c[0], c[1], got)
		}
	}
	// 100,000 machines of 768 GiB are within reach, 2^63 bytes are not.
	for _, c := range [][3]int64{{0, top, 0}, {top, 0, 0}, {top, 1, top}, {top, 2, top}, {1 << 32, 1 << 31, top}, {100_000, 768 << 30, 100_000 * (768 << 30)}} {
		if got := SatMul(c[0], c[1]); got != c[2] {
			t.Errorf("%d × %d = %d", c[0], c[1], got)
		}
	}
}

// TestAttribute: the three well-known keys read the typed field, then the label.
func TestAttribute(t *testing.T) {
	labels := map[string]string{KeyZone: "label", KeyInstanceType: "label", KeyCapacityType: "label", "x": ""}
	typed := Machine{Zone: "z", InstanceType: "t", CapacityType: Spot, Labels: labels}
	bare := Machine{Labels: labels}
	for _, c := range []struct {
		m    *Machine
		key  string
		want string
		ok   bool
	}{
		{&typed, KeyZone, "z", true}, {&typed, KeyInstanceType, "t", true}, {&typed, KeyCapacityType, "spot", true}, {&typed, "x", "", true},
		{&bare, KeyZone, "label", true}, {&bare, KeyInstanceType, "label", true}, {&bare, KeyCapacityType, "label", true},
		{&Machine{}, KeyZone, "", false}, {&bare, "y", "", false},
	} {
		if v, ok := c.m.Attribute(c.key); v != c.want || ok != c.ok {
			t.Errorf("%s is %q, %v", c.key, v, ok)
		}
	}
}

// TestValidateByState: host and cluster as each state asks for.
func TestValidateByState(t *testing.T) {
	for s := Speculative; s <= Failed; s++ {
		for _, host := range []string{"", "h"} {
			for _, cluster := range []string{"", "c"} {
				m := Machine{ID: "m", State: s, Host: host, Cluster: cluster}
				hostOK := map[State]bool{Speculative: host == "", Creating: host == "", Configuring: true, Failed: true}
				clusterOK := cluster == ""
				switch s {
				case Configured, Draining:
					clusterOK = cluster != ""
				case Configuring, Failed:
					clusterOK = true
				}
				okHost, listed := hostOK[s]
				if !listed {
					okHost = host != ""
				}
				if err := m.Validate(false); (err == nil) != clusterOK || err != nil && !errors.Is(err, ErrStructural) {
					t.Errorf("%s with host %q, cluster %q: %v", s, host, cluster, err)
				}
				if err := m.Validate(true); (err == nil) != (clusterOK && okHost) {
					t.Errorf("%s with host %q, cluster %q, hosts checked: %v", s, host, cluster, err)
				}
			}
		}
	}
	if err := (&Machine{ID: strings.Repeat("x", 1<<20), State: Idle}).Validate(false); err == nil || len(err.Error()) > 2*NameBytesMax {
		t.Error("an overlong id is accepted, or quoted in full")
	}
}

// TestNames: every name parses back, and unknown numbers print.
func TestNames(t *testing.T) {
	for s := Speculative; s <= Failed; s++ {
		if got, ok := ParseState(s.String()); !ok || got != s {
			t.Errorf("%s parses to %s", s, got)
		}
	}
	for o := In; int(o) < numOperators; o++ {
		if got, ok := ParseOperator(o.String()); !ok || got != o {
			t.Errorf("%s parses to %s", o, got)
		}
	}
	for c := range CapacityType(NumCapacityTypes) {
		if got, ok := ParseCapacityType(c.String()); !ok || got != c {
			t.Errorf("%s parses to %s", c, got)
		}
	}
	for _, s := range []string{State(99).String(), Operator(99).String(), CapacityType(99).String()} {
		if !strings.Contains(s, "(99)") {
			t.Errorf("number 99 prints as %q", s)
		}
	}
	if LegalMove(99, Idle) || LegalMove(Idle, 99) || CapacityType(99).Label() != "" {
		t.Error("numbers beyond the tables mean something")
	}
}
