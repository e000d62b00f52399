package frames

import "google.golang.org/protobuf/encoding/protowire"

// FieldRollup is the number of the roll-up among the fields of OperatorMessage.
const FieldRollup protowire.Number = 2

// Field numbers of ClusterCapacityNeeds.
const (
	FieldClusterID protowire.Number = 1
	FieldTimestamp protowire.Number = 2
	FieldNeeds     protowire.Number = 3
)

// Field numbers of CapacityNeed.
const (
	FieldRequirements protowire.Number = 1
	FieldAggregate    protowire.Number = 2
	FieldPriority     protowire.Number = 3
	FieldSpread       protowire.Number = 5
	FieldInterruption protowire.Number = 6
	FieldReclamation  protowire.Number = 7
	FieldMinUnit      protowire.Number = 8
	FieldGroup        protowire.Number = 9
)
