package rollup

import "errors"

// Reason is why a request is left out, as a word for metrics and conditions.
type Reason string

// The reasons, one for each of the errors that are wrapped.
const (
	ReasonOperator   Reason = "Operator"
	ReasonLarge      Reason = "TooLarge"
	ReasonMany       Reason = "TooMany"
	ReasonName       Reason = "Name"
	ReasonQuantity   Reason = "Quantity"
	ReasonUnreadable Reason = "Unreadable"
)

// Reasons are all of them.
var Reasons = []Reason{ReasonOperator, ReasonLarge, ReasonMany, ReasonName, ReasonQuantity, ReasonUnreadable}

// ReasonOf returns the reason of a Refusal's error.
func ReasonOf(err error) Reason {
	for _, x := range [...]struct {
		wrapped error
		reason  Reason
	}{{ErrOperator, ReasonOperator}, {ErrLarge, ReasonLarge}, {ErrMany, ReasonMany}, {ErrName, ReasonName}, {ErrQuantity, ReasonQuantity}} {
		if errors.Is(err, x.wrapped) {
			return x.reason
		}
	}
	return ReasonUnreadable
}
