package supply

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// TestFoldsDoNotCutClassesByDomain: of a fold's requirement machines differ in what it
// says of them, however many domains there are; beyond foldKeysMax requirements they
// differ in the value, and the answers are the same.
func TestFoldsDoNotCutClassesByDomain(t *testing.T) {
	x := New()
	const racks = 100
	for i := range 2 * racks {
		m := machine(i)
		m.Labels = map[string]string{"rack": fmt.Sprintf("r%02d", i%racks)}
		if i < 5 {
			m.Labels = nil
		}
		put(t, x, m)
	}
	var profiles []*model.Profile
	same := func(values ...string) *model.Profile {
		p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{{Key: "rack", Operator: model.Same, Values: values}}})
		if err != nil {
			t.Fatal(err)
		}
		profiles = append(profiles, p, p.Folded())
		return p
	}
	classes := func() (n int) {
		for c := range x.ClassMax() {
			if x.ClassInfo(uint32(c)).Count > 0 {
				n++
			}
		}
		return n
	}
	check := func() {
		t.Helper()
		for _, p := range profiles {
			for r := range x.All() {
				m := x.Get(r)
				if got := x.Matching(m.State, x.Matcher(p)).Contains(uint32(r)); got != p.Matches(&m) {
					t.Fatalf("%v takes %v: %v", p.Requirements(), m.Labels, got)
				}
			}
		}
	}
	use(t, x, profiles...)
	before := classes()
	same()
	same("r07", "r08")
	use(t, x, profiles...)
	check()
	if n := classes(); n > 3*before {
		t.Errorf("%d classes, %d before there were folds", n, before)
	}
	for i := range foldKeysMax + 3 {
		same(fmt.Sprintf("r%02d", i))
	}
	use(t, x, profiles...)
	check()
	if x.foldKeys != foldKeysMax {
		t.Errorf("%d columns of folds", x.foldKeys)
	}
	m := machine(3)
	m.Labels = map[string]string{"rack": "r08"}
	put(t, x, m)
	check()
}
