package document

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
)

// Resources reads a vector of quantities. present tells whether the file
// lists any dimension, also one of zero.
func (r *Reader) Resources(n *Node, into *model.Resources) (present bool) {
	var few [8]model.Amount
	amounts := few[:0]
	if n.Kind != Object {
		r.Fault("must be quantities by name, such as {cpu: 4, memory: 16Gi}, got %s", Describe(n))
		return false
	}
	r.Map(n, func(dimension string, q *Node) {
		present = true
		if q.Kind != Text && q.Kind != Number {
			r.Fault("must be a quantity such as 4, 500m or 16Gi, got %s", Describe(q))
			return
		}
		v, err := model.ParseQuantity(dimension, q.Text)
		if err != nil {
			r.Fault("%s %v", Quote(q.Text), err)
			return
		}
		// What does not fit comes as the most that does, which only WriteInput
		// means: of a file it would be another amount than it says.
		if most := model.FormatQuantity(dimension, math.MaxInt64); v == math.MaxInt64 && q.Text != most {
			r.Fault("%s is more than can be counted; must be at most %s", Quote(q.Text), most)
			return
		}
		amounts = append(amounts, model.Amount{Name: dimension, Value: v})
	})
	*into = model.NewResources(amounts...)
	return present
}
