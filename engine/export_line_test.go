package engine

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// statusNames are the names of the status bits, by bit.
var statusNames = map[state.Status]string{
	state.IsParked: "IsParked", state.IsFold: "IsFold", state.IsMember: "IsMember", state.IsSatisfied: "IsSatisfied", state.IsUncoverable: "IsUncoverable",
	state.IsPinned: "IsPinned", state.IsSkewBlocked: "IsSkewBlocked", state.IsWithheld: "IsWithheld", state.HasCandidates: "HasCandidates",
	state.IsAwaiting: "IsAwaiting", state.NeverFolds: "NeverFolds", state.HasSame: "HasSame", state.IsUncredited: "IsUncredited", state.IsStale: "IsStale",
	state.IsChanged: "IsChanged", state.IsRobbed: "IsRobbed", state.IsResettled: "IsResettled",
	state.IsHeldBack: "IsHeldBack", state.HasPlan: "HasPlan", state.HasOwnPlan: "HasOwnPlan", state.IsVisited: "IsVisited",
	state.HasForeignStamp: "HasForeignStamp", state.IsTouched: "IsTouched", state.CountsOnDrain: "CountsOnDrain",
}

func namesOf(s state.Status) string {
	if s == 0 {
		return "none"
	}
	var names []string
	for ; s != 0; s &= s - 1 {
		name, known := statusNames[1<<bits.TrailingZeros32(uint32(s))]
		if !known {
			panic("a status bit has no name in statusNames")
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// Line describes, between two stages of a cycle, the line of a row and what other
// columns say of it: i is the number of the row in outputs.
func (e *Engine) Line(i int) string {
	p := &e.at
	need := p.needAt(i)
	n := &p.Lines[need]
	id := func(r columnar.Row) string {
		if r == columnar.None {
			return "none"
		}
		return p.Snap.Supply.ID(r)
	}
	domain := "none"
	if n.Domain != 0 {
		domain = p.Snap.Supply.ValueString(n.Domain)
	}
	var claims, reserved, victims, planned []string
	for r := p.Claims.First(n); r != columnar.None; r = p.Claims.Next(r, n) {
		claims = append(claims, id(r))
	}
	for _, r := range p.Reserved.Of(need) {
		reserved = append(reserved, id(r))
	}
	for _, v := range p.Preempted.Victims {
		if v.Need == need {
			victims = append(victims, id(v.Row))
		}
	}
	for _, x := range p.Preempted.Planned {
		if x.Need == need {
			planned = append(planned, id(x.Row))
		}
	}
	text := fmt.Sprintf("kind=%d domain=%s head=%s acquired=%s\nclaims=%v", n.Kind, domain, id(p.Claims.First(n)), id(n.Acquired), claims)
	for _, x := range []struct {
		name string
		ids  []string
	}{{"reserved", reserved}, {"victims", victims}, {"planned", planned}} {
		if len(x.ids) > 0 {
			text += fmt.Sprintf(" %s=%v", x.name, x.ids)
		}
	}
	return text + "\nstatus=" + namesOf(n.Status)
}
