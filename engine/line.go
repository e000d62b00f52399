package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
)

// unheld is the claimant of a machine that no Need claims.
const unheld int32 = -1

// noGroup is the group number of a Need whose group name no machine carries.
const noGroup = ^uint32(0) - 1

// status is a set of flags that say what is known of a Need.
type status uint32

const (
	isParked status = 1 << iota
	isFold          // stands for several rows; group is the fold's number in its cluster
	isMember        // row in a fold that another line stands for; domain is that line, group as above
	isSatisfied
	isUncoverable   // a Same-Need that no domain could cover at its turn
	isPinned        // a live reservation determines the domain
	isSkewBlocked   // hard spread forbade free candidates
	isWithheld      // the plan goes to another domain: acquisitions are revoked
	hasCandidates   // phase 2 found a machine to preempt
	isAwaiting      // what drains for it covers the rest
	neverFolds      // has Same, and no class, free or not, could hold it whole
	hasSame         // has Same, and may come to fold
	isUncredited    // credit waits for its turn, since it depends on what is free
	isStale         // must be credited again
	isHeldBack      // a drain of its plan is not acknowledged: it acquires nothing yet
	hasPlan         // a machine drains for it, or a plan of this cycle holds one for it
	hasOwnPlan      // a plan of this cycle holds machines for it
	isVisited       // had a turn after credit, which the next cycle undoes
	hasForeignStamp // was credited a machine that did not carry its stamp
	isTouched       // a machine that it claims differs from the last cycle
	isChanged       // its row changed
	isRobbed        // a Need of higher rank has claimed a machine of it in this cycle
	isResettled     // something is or was held for it, or its plan went to another domain
	countsOnDrain   // its plan of this cycle counts on a machine that drains, but not for it so far
)

// sitsOut are the reasons for which a Need acquires nothing.
const sitsOut = isParked | isHeldBack

// line is the working record of one row of the demand. A Need is identified by the number of its line.
// Rows are numbered cluster by cluster, in the order of the clusters' ids, with gaps that leave room
// for new rows; see pass.outward. A fold has the number of the first of its rows in the cluster. A line
// is 32 bytes, half a cache line, and contains no pointers.
type line struct {
	kind    uint32
	cluster int32  // index of snapshot.Clusters
	group   uint32 // number of the group's name in the supply, or noGroup; a fold's number with isFold or isMember
	status  status
	// domain is the chosen value of the Same key, 0 = none; with isMember, the line that stands for the
	// fold.
	domain uint32
	// The claims are a chain through pass.held from head to tail: credited machines first, then, from
	// acquired on, machines that were free.
	head, tail, acquired columnar.Row
}

func (n *line) is(s status) bool { return n.status&s != 0 }

// hold is the claim of one machine: the Need, and the next machine in the Need's chain.
type hold struct {
	need int32
	next columnar.Row
}

// rowSource describes the lines of one cluster.
type rowSource struct {
	block *demand.Block // nil: the cluster has no demand
	base  int32         // number of its first line
	outer int32         // number of its first row in outputs, which have no gaps
	rows  int
	had   int // rows in the last cycle
	room  int // how many lines are reserved for it, at least rows
}

// roomFor returns how many lines to reserve for a number of rows.
func roomFor(rows int) int { return rows + rows/16 + 8 }
