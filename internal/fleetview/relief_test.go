package fleetview

import (
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/advice"
)

// TestAFleetThatIsTooLargeHasNoRelief: the page asks for it of every fleet, and a refusal would be a fault in the browser's console.
func TestAFleetThatIsTooLargeHasNoRelief(t *testing.T) {
	x := newTables(t, AskMachinesMax)
	r := NewRecorder(Config{})
	r.unmet.total = 3
	answer, err := NewView(nil, Part{Recorder: r, Inspect: x.Inspect}).relief(t.Context(), nil)
	if got, ok := answer.(*advice.Relief); err != nil || !ok || got.Short != 3 || !got.Exhausted || got.Capacity != nil {
		t.Errorf("%+v, %v", answer, err)
	}
}

// TestAParkedNeedThatIsTriedAgainStaysParked: for one cycle it is short for another reason. What lasts, and what helps, is shown.
func TestAParkedNeedThatIsTriedAgainStaysParked(t *testing.T) {
	p := NewRecorder(Config{})
	key := needKey{cluster: "c", fingerprint: 1}
	p.ages = map[needKey]*needAge{key: {since: 1, name: "moe"}}
	const starved, parked, drains = engine.UnmetPriorityStarved, engine.UnmetParked, engine.UnmetAwaitingDrain
	for i, c := range []struct{ found, shown engine.Unmet }{
		{starved, starved}, {parked, parked}, {starved, parked}, {parked, parked}, {starved, parked}, {starved, starved}, {parked, parked}, {drains, drains},
	} {
		p.cycle++
		x := unmetRow{key: key, reason: c.found}
		if p.age(engine.Input{Now: int64(p.cycle)}, &x); x.reason != c.shown {
			t.Errorf("cycle %d: %v is shown as %v, want %v", i, c.found, x.reason, c.shown)
		}
	}
}

// TestReliefIsOfTheNeedsThatAreShort: an answer is used again while the same Needs are short; of others it says nothing until it is time for
// another search.
func TestReliefIsOfTheNeedsThatAreShort(t *testing.T) {
	x := newTables(t, 1)
	r := NewRecorder(Config{})
	rows := []unmetRow{{called: "a", deficit: -1}, {called: "b", number: 1, deficit: -1}, {called: "c", number: 2, deficit: -1}}
	r.unmet.total, r.unmet.rows = 2, rows[:2]
	v := NewView(nil, Part{Recorder: r, Inspect: x.Inspect})
	found := &advice.Relief{Short: 2, Satisfies: 1}
	v.relieved.answer, v.relieved.short, v.relieved.found, v.relieved.took = found, r.unmet.shortSet(), time.Now(), time.Hour
	coming := rows[0]
	coming.reason = engine.UnmetAwaitingDrain
	for _, c := range []struct {
		rows []unmetRow
		want *advice.Relief
	}{
		{[]unmetRow{rows[1], rows[0]}, found}, // the order is that of age and rank
		{[]unmetRow{coming, rows[1]}, nil},    // as many, but one of them only waits for machines that drain
		{rows[1:], nil},
	} {
		r.unmet.rows = c.rows
		answer, err := v.relief(t.Context(), nil)
		if got, ok := answer.(*advice.Relief); err != nil || !ok || (got == found) != (c.want == found) || got.Short != 2 || x.looks > 0 {
			t.Errorf("%v: %+v, %v, after %d looks at the shard", c.rows, answer, err, x.looks)
		}
	}
}
