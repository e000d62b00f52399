package rollup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// overhead says in which row a request counts that is no pod's.
type overhead struct {
	kind, class uint64
}

// tag writes it as the value of a label.
func (o *overhead) tag() string { return fmt.Sprintf("%016x-%d", o.kind, o.class) }

// readTag reads the value of a label. What is none names a row that has no other requests,
// and such a row is not reported.
func readTag(tag string) *overhead {
	kind, class, _ := strings.Cut(tag, "-")
	k, err := strconv.ParseUint(kind, 16, 64)
	c, errClass := strconv.ParseUint(class, 10, 8)
	if err != nil || errClass != nil || c < 1 || c > ClassesMax {
		return &overhead{math.MaxUint64, 1}
	}
	return &overhead{k, c}
}

// ErrNoRow says that a request has no row that overhead could be added to: it is a member of a
// group, or the shard has not acknowledged it.
var ErrNoRow = errors.New("the request's row has no packing overhead")

// Row names the row of a roll-up that a request counts in.
type Row struct {
	// Key is the same text for all requests of the row, and for no others.
	Key string
	// Tag is the value of api.LabelPackingOverhead by which a request with the same
	// requirements, spread, priority and penalties is added to the row's sum.
	Tag string
}

// RowOf returns the row of a request that was acknowledged.
func RowOf(request *api.CapacityRequest) (Row, error) {
	if request.Status.Phase != api.RequestAcknowledged || request.Spec.CoLocation != nil && request.Spec.CoLocation.TopologyKey != "" {
		return Row{}, ErrNoRow
	}
	p := part{how: &reading{limits: &Limits{}}}
	p.size.begin(request)
	var asks shares
	if err := p.measure(request.Spec.Resources, &asks); err != nil {
		return Row{}, err
	}
	p.size.end()
	if err := p.key.write(request, &p.size); err != nil {
		return Row{}, err
	}
	o := overhead{p.size.kind(), p.size.class}
	return Row{Key: string(p.key.buf), Tag: o.tag()}, nil
}
