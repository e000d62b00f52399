package world

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// tellAcquired says why a Need acquired the machine: what it costs, what it covers, and what would have been
// taken in its place.
func (m *MachineWhy) tellAcquired(w io.Writer) {
	x := m.Why.Acquired
	if x == nil {
		return
	}
	var parts []string
	for _, p := range x.Covers {
		parts = append(parts, fmt.Sprintf("%s %% of %s", percentText(p.Part), cell(p.Name)))
	}
	fmt.Fprintf(w, "  by %s: it costs the need $%s an hour and covers %s\n", x.Rule, dollarText(m.Why.EffectiveCost), strings.Join(parts, ", "))
	if m.RunnerUp == "" {
		fmt.Fprintln(w, "  runner-up: none; no free machine of another price or size covers the need in its place")
		return
	}
	fmt.Fprintf(w, "  runner-up: %s for $%s an hour\n", cell(m.RunnerUp), dollarText(x.RunnerUpCost))
}

// writeAcquired is tellAcquired in JSON.
func (m *MachineWhy) writeAcquired(j *jsonWriter) {
	x := m.Why.Acquired
	if x == nil {
		return
	}
	j.word("acquire", x.Rule.String())
	j.key("covers")
	j.open('{')
	for _, p := range x.Covers {
		j.number(p.Name, p.Part)
	}
	j.close('}')
	if m.RunnerUp != "" {
		j.word("runnerUp", m.RunnerUp)
		j.number("runnerUpCost", x.RunnerUpCost)
	}
}

// dollarText is an amount with at most six digits after the point.
func dollarText(v float64) string {
	if math.IsInf(v, 1) {
		return "∞"
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

func percentText(part float64) string {
	return strconv.FormatFloat(math.Round(part*1000)/10, 'f', -1, 64)
}
