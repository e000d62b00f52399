package engine

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// statusNames are the names of the status bits, by bit.
var statusNames = map[status]string{
	isParked: "isParked", isFold: "isFold", isMember: "isMember", isSatisfied: "isSatisfied", isUncoverable: "isUncoverable",
	isPinned: "isPinned", isSkewBlocked: "isSkewBlocked", isWithheld: "isWithheld", hasCandidates: "hasCandidates",
	isAwaiting: "isAwaiting", neverFolds: "neverFolds", hasSame: "hasSame", isUncredited: "isUncredited", isStale: "isStale",
	isHeldBack: "isHeldBack", hasPlan: "hasPlan", hasOwnPlan: "hasOwnPlan", isVisited: "isVisited",
	hasForeignStamp: "hasForeignStamp", isTouched: "isTouched", countsOnDrain: "countsOnDrain",
}

func (s status) names() string {
	if s == 0 {
		return "none"
	}
	var names []string
	for ; s != 0; s &= s - 1 {
		names = append(names, statusNames[1<<bits.TrailingZeros32(uint32(s))])
	}
	return strings.Join(names, " ")
}

// Line describes, between two stages of a cycle, the line of a row and what other
// columns say of it: i is the number of the row in outputs.
func (e *Engine) Line(i int) string {
	p := &e.at
	need := p.needAt(i)
	n := &p.lines[need]
	id := func(r columnar.Row) string {
		if r == columnar.None {
			return "none"
		}
		return p.s.Supply.ID(r)
	}
	domain := "none"
	if n.domain != 0 {
		domain = p.s.Supply.ValueString(n.domain)
	}
	var held, reserved, victims, planned []string
	for r := n.head; r != columnar.None; r = p.held[r].next {
		held = append(held, id(r))
	}
	for _, r := range p.reserved.of(need) {
		reserved = append(reserved, id(r))
	}
	for _, v := range p.victims {
		if v.need == need {
			victims = append(victims, id(v.row))
		}
	}
	for _, x := range p.planned {
		if x.need == need {
			planned = append(planned, id(x.row))
		}
	}
	text := fmt.Sprintf("kind=%d domain=%s head=%s acquired=%s\nheld=%v", n.kind, domain, id(n.head), id(n.acquired), held)
	for _, x := range []struct {
		name string
		ids  []string
	}{{"reserved", reserved}, {"victims", victims}, {"planned", planned}} {
		if len(x.ids) > 0 {
			text += fmt.Sprintf(" %s=%v", x.name, x.ids)
		}
	}
	return text + "\nstatus=" + n.status.names()
}
