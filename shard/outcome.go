package shard

// Outcome is how an action ended, as metrics and the audit log spell it.
type Outcome uint8

// The outcomes.
const (
	OutcomeSuccess    Outcome = iota
	OutcomeNoSession          // the cluster's operator is not connected
	OutcomeTransition         // the machine's state does not allow it
	OutcomeRaced              // Configure was accepted, and the machine is Idle as it was
	OutcomeBlob               // the operator did not say how to join
	OutcomeProvider           // the provider was not reached, or refused
	OutcomeFenced             // the provider knows a newer process of this shard
	OutcomeCanceled           // it took too long, or was called off
	OutcomeStale              // the machine had moved on while the call waited
	OutcomeMissing            // the machine was gone

	// NumOutcomes is the number of outcomes.
	NumOutcomes = int(OutcomeMissing) + 1
)

var outcomeNames = [NumOutcomes]string{
	"success", "no_session", "transition_error", "transition_raced_to_idle", "blob_error", "provider_error", "fenced",
	"ctx_canceled", "stale_state", "inventory_miss",
}

// String returns the outcome as metrics spell it.
func (o Outcome) String() string { return outcomeNames[o] }
