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

// ErrNoRow says that a request has no such row: it is a member of a group, or is none, or the shard has not acknowledged it.
var ErrNoRow = errors.New("the request has no such row")

// Row names the row of a roll-up that a request counts in.
type Row struct {
	// Key is the same text for all requests of the row, and for no others.
	Key string
	// Tag is the value of api.LabelPackingOverhead by which a request with the same
	// requirements, spread, priority and penalties says what the row asks for at the least.
	Tag string
	// Family is the same text for all rows that are alike but for their sizes, Kind for those that differ in their size
	// class alone.
	Family, Kind string
}

// RowOf returns the row of a request that was acknowledged.
func RowOf(request *api.CapacityRequest) (Row, error) {
	row, err := KindOf(request)
	if err == nil && request.Status.Phase != api.RequestAcknowledged {
		return Row{}, ErrNoRow
	}
	return row, err
}

// KindOf is RowOf of a request that need not have been acknowledged: then it has no size class, so Key and Tag are those of none.
func KindOf(request *api.CapacityRequest) (Row, error) {
	if isMember(request) {
		return Row{}, ErrNoRow
	}
	return rowOf(request)
}

// GroupOf returns the row of a member of a group. It has no family and no kind, and any tag names it.
func GroupOf(request *api.CapacityRequest) (Row, error) {
	if !isMember(request) {
		return Row{}, ErrNoRow
	}
	row, err := rowOf(request)
	return Row{Key: row.Key, Tag: (&overhead{0, 1}).tag()}, err
}

// isMember tells whether a request is of a group.
func isMember(request *api.CapacityRequest) bool {
	return request.Spec.CoLocation != nil && request.Spec.CoLocation.TopologyKey != ""
}

func rowOf(request *api.CapacityRequest) (Row, error) {
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
	return Row{Key: string(p.key.buf), Tag: o.tag(), Family: string(p.key.buf[:p.key.sizeFrom]), Kind: string(p.key.buf[:len(p.key.buf)-1])}, nil
}
