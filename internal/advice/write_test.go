package advice

import (
	"strings"
	"testing"
)

// TestTellSaysWhatIsCounted: machines of others that have to drain first are not in the costs, which is said.
func TestTellSaysWhatIsCounted(t *testing.T) {
	for _, c := range []struct {
		effect Effect
		want   string
	}{
		{Effect{DollarsPerHour: 24.48}, "    its machines then cost $24.48 an hour\n"},
		{Effect{DollarsPerHour: 9.18, Losers: []Loser{{Need: "vision", Cluster: "train-a", Priority: 400, Machines: 5, Of: 5}}},
			"    need vision of cluster train-a, priority 400, loses 5 of its 5 machines\n    what it has before their machines have drained costs $9.18 an hour\n"},
	} {
		var out strings.Builder
		if c.effect.tell(&out); out.String() != c.want {
			t.Errorf("got %q, want %q", out.String(), c.want)
		}
	}
}
