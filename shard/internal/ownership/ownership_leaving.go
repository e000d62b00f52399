package ownership

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// leavingPrefix begins the name under which machines are held for a move.
const leavingPrefix = "move:"

// LeavingFor is the hold of a machine that is to leave by a move.
func LeavingFor(move string, priority int32) model.Reservation {
	return model.Reservation{
		Owner: model.Owner{Cluster: leavingPrefix + move}, Priority: priority,
		Interruption: model.Bucket(model.NumBuckets - 1), Reclamation: model.Bucket(model.NumBuckets - 1),
	}
}

// Leaves tells whether a machine is held for a move.
func Leaves(machines *supply.Table, r columnar.Row, move string) bool {
	return machines.Reservation(r).Owner.Cluster == leavingPrefix+move
}
