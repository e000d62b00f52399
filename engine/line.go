package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
)

// unheld is the holder of a machine that no need claims.
const unheld int32 = -1

// noGroup is the group of a need that no machine carries.
const noGroup = ^uint32(0) - 1

// status is what is known of a need, bit by bit.
type status uint32

const (
	isParked status = 1 << iota
	isFold          // stands for several rows; group is the fold's number
	isMember        // in a fold that another row stands for: domain is that row
	isSatisfied
	isUncoverable   // a Same-Need that no domain could have covered at its turn
	isPinned        // a live reservation chose the domain
	isSkewBlocked   // hard spread left free candidates alone
	isWithheld      // the plan goes to another domain: acquisitions are off
	hasCandidates   // there was something to preempt
	isAwaiting      // what drains for it covers the rest
	neverFolds      // asks for one domain, and no machine there is could hold it whole
	hasSame         // the row asks for one domain, whatever becomes of that
	isUncredited    // its turn comes while others acquire: what is free decides its credit
	isStale         // it is to be credited again
	isHeldBack      // a drain of its plan is not acknowledged: it acquires nothing yet
	hasPlan         // something is on its way to it, or will be by this cycle's plan
	hasOwnPlan      // of these the latter
	isVisited       // it has had a turn after credit, which the next cycle takes back
	hasForeignStamp // credit has given it a machine that did not carry its stamp then
	isTouched       // a machine that it claims, or that carries its stamp, is another than before
	countsOnDrain   // its plan of this cycle counts on what drains already, and not for it yet
)

// sitsOut is why a need acquires nothing.
const sitsOut = isParked | isHeldBack

// line is one row of the demand in the cycle's terms, and what becomes of it. A
// need is known by the number of its line: rows are numbered cluster by cluster
// in the order of the clusters' ids, with gaps in between; see pass.outward. A
// fold has the number of the first of its rows. Half a cache line, no pointers.
type line struct {
	kind    uint32
	cluster int32  // index of snapshot.Clusters
	group   uint32 // the group's name number in the supply; noGroup
	status  status
	domain  uint32
	// What it claims is a chain through pass.held: credited machines first,
	// those from acquired on were free.
	head, tail, acquired columnar.Row
}

func (n *line) is(s status) bool { return n.status&s != 0 }

// hold is who claims a machine, and the machine that they claimed after it.
type hold struct {
	need int32
	next columnar.Row
}

// rowSource is where a cluster's lines come from.
type rowSource struct {
	block *demand.Block // nil: the cluster wants nothing
	base  int32         // number of its first line
	outer int32         // number of its first row in outputs
	rows  int
	had   int // rows in the cycle before
	room  int // lines that are its own: some more than rows, so that rows may come
}

// roomFor returns how many lines to make for rows.
func roomFor(rows int) int { return rows + rows/16 + 8 }
