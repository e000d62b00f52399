package model

// Stage is a part of a shard's cycle: what profiles and traces tell apart.
type Stage uint8

// The stages, in their order. Those from StageSnapshot to StagePhase3 are the
// engine's.
const (
	StageReconcile Stage = iota
	StageSnapshot
	StageNormalise
	StageRank
	StagePhase1
	StagePhase2
	StagePhase3
	StageEmit
	StageExecute

	// NumStages is the number of stages.
	NumStages = int(StageExecute) + 1
)

var stageNames = [NumStages]string{"reconcile", "snapshot", "normalise", "rank", "phase1", "phase2", "phase3", "emit", "execute"}

// String returns the stage's name, the value of the label stage.
func (s Stage) String() string { return stageNames[s] }
