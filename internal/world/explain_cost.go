package world

import (
	"fmt"
	"io"
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/terminal"
)

// CostWhy is what a machine that can be bought costs the Needs with one
// interruption penalty, where that is not its price.
type CostWhy struct {
	Penalty model.Bucket
	Need    string // the first in the order of the file
	More    int    // Needs beside it
	// Cost is the price and what interruptions cost: dollars an hour, +Inf for a
	// pinned Need.
	Cost float64
	// Asked is the penalty as the file writes it for Need, 0 when that is what it counts as.
	Asked float64
}

// costs lists what a machine costs the Needs that it could serve, by the order
// of the file; none when that is its price.
func (w *World) costs(m *model.Machine) (out []CostWhy) {
	if m.State != model.Speculative && !m.IsLateBound() || m.InterruptionProbability == 0 {
		return nil
	}
	at := map[model.Bucket]int{}
	for i := range w.Needs {
		n := &w.Needs[i]
		penalty := n.Profile.Interruption()
		if penalty.Dollars() == 0 || !n.Profile.Matches(m) || !m.EffectiveAllocatable().Covers(n.MinUnit) {
			continue
		}
		if k, known := at[penalty]; known {
			out[k].More++
			continue
		}
		at[penalty] = len(out)
		out = append(out, CostWhy{Penalty: penalty, Need: n.Name, Cost: m.PricePerHour + m.InterruptionProbability*penalty.Dollars(), Asked: w.asked[n.Name]})
	}
	return out
}

// tell says what the machine costs.
func (c *CostWhy) tell(w io.Writer, of *model.Machine) {
	whom := "need " + cell(c.Need)
	if c.More > 0 {
		whom += fmt.Sprintf(" and %d more", c.More)
	}
	if math.IsInf(c.Cost, 1) {
		fmt.Fprintf(w, "  for %s, which must not be interrupted, it comes after every safe one: it is interrupted with probability %g an hour\n", whom, of.InterruptionProbability)
		return
	}
	rounded := ""
	if c.Asked != 0 {
		rounded = fmt.Sprintf(" ($%s, rounded up to a power of two)", terminal.Amount(c.Asked))
	}
	fmt.Fprintf(w, "  for %s it costs $%s an hour: an interruption costs $%s%s and comes with probability %g an hour\n",
		whom, terminal.Price(c.Cost), terminal.Amount(c.Penalty.Dollars()), rounded, of.InterruptionProbability)
}

func writeCosts(j *jsonWriter, costs []CostWhy) {
	if len(costs) == 0 {
		return
	}
	j.key("effectiveCosts")
	j.open('[')
	for i := range costs {
		c := &costs[i]
		j.open('{')
		j.word("need", c.Need)
		j.key("needs")
		j.int(int64(1 + c.More))
		j.number("interruptionPenalty", c.Penalty.Dollars())
		j.number("effectiveCost", c.Cost)
		j.close('}')
	}
	j.close(']')
}
