package advice

import (
	"strings"
	"testing"
)

// TestTellSaysWhatIsCounted: what the machines of the Need cost, with those that others have yet; that they have to drain is said.
func TestTellSaysWhatIsCounted(t *testing.T) {
	vision := Loser{Need: "vision", Cluster: "train-a", Priority: 400, Machines: 5, Of: 5}
	for _, c := range []struct {
		effect Effect
		want   string
	}{
		{Effect{DollarsPerHour: 24.48}, "    its machines then cost $24.48 an hour\n"},
		{Effect{DollarsPerHour: 9.18, DrainingPerHour: 15.3, Losers: []Loser{vision}},
			"    need vision of cluster train-a, priority 400, loses 5 of its 5 machines\n    its machines then cost $24.48 an hour, when those of others have drained\n"},
		{Effect{DollarsPerHour: 9.18, Losers: []Loser{vision, {Need: "tail", Cluster: "train-b"}}},
			"    need vision of cluster train-a, priority 400, loses 5 of its 5 machines\n    need tail of cluster train-b, priority 0, is no longer satisfied\n" +
				"    who loses machines to it may take others in turn\n    its machines then cost $9.18 an hour\n"},
	} {
		var out strings.Builder
		if c.effect.tell(&out); out.String() != c.want {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
	}
}

// TestWriteTableSaysWhereToDoIt: if something helps, and only then.
func TestWriteTableSaysWhereToDoIt(t *testing.T) {
	const says = "\nto do it: machines at the provider; "
	for _, c := range []struct {
		advice Advice
		want   bool
	}{
		{Advice{Need: "n"}, false},
		{Advice{Need: "n", Waiting: true}, false},
		{Advice{Need: "n", Priority: &Priority{Priority: 7}}, true},
		{Advice{Need: "n", Capacity: []Capacity{{Count: 1}}}, true},
		{Advice{Need: "n", Relax: []Relaxation{{Leave: "minUnit"}}}, true},
	} {
		var out strings.Builder
		if err := c.advice.WriteTable(&out, "-f world.yaml"); err != nil || strings.Contains(out.String(), says) != c.want {
			t.Errorf("%v, %q; want a place to do it: %v", err, out.String(), c.want)
		}
	}
}
