package rollup

import (
	"fmt"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// How many share the work: one more for every so many requests.
const (
	workersMax        = 8
	requestsPerWorker = 8192
)

// part is what one worker reads.
type part struct {
	indexes  []uint32 // of the requests
	requests []*api.CapacityRequest

	// For each request: its row of the part, and the amounts that it asks for.
	rowOf   []uint32
	asks    []shares
	refused []Refusal

	rows  []row
	byKey map[string]uint32 // the canonical form: index in rows
	dims  dimensions
	how   *reading
	size  sizing // of the request at hand
	key   keyWriter

	plans map[int]*plan // by request, by its place in requests

	// For each row and resource: its number in the joined roll-up.
	to    []uint32
	dimTo []uint32
}

// reading is how requests are read. It is not changed.
type reading struct {
	limits *Limits
	only   map[string]bool // the resources that are reported; nil = all
}

// readParts reads the requests of some indexes, side by side if they are many.
func readParts(requests []*api.CapacityRequest, indexes []uint32, how *reading) []part {
	if len(indexes) == 0 {
		return nil
	}
	workers := min(runtime.GOMAXPROCS(0), workersMax, len(indexes)/requestsPerWorker+1)
	size := (len(indexes) + workers - 1) / workers
	parts := make([]part, workers)
	var wg sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		p.indexes = indexes[min(i*size, len(indexes)):min((i+1)*size, len(indexes))]
		p.how, p.byKey = how, map[string]uint32{}
		p.requests = make([]*api.CapacityRequest, len(p.indexes))
		p.rowOf, p.asks = make([]uint32, len(p.indexes)), make([]shares, len(p.indexes))
		wg.Go(func() { p.readAll(requests) })
	}
	wg.Wait()
	return parts
}

// readAll puts every request into its row.
func (p *part) readAll(requests []*api.CapacityRequest) {
	for i, index := range p.indexes {
		request := requests[index]
		if rows, is := planOf(request); is {
			p.requests[i], p.rowOf[i] = request, nowhere
			if err := p.readPlan(i, request, rows); err != nil {
				p.refused = append(p.refused, Refusal{request, err})
			}
			continue
		}
		if domain, is := domainOf(request); is {
			p.requests[i], p.rowOf[i] = request, nowhere
			if err := p.readDomain(i, request, domain); err != nil {
				p.refused = append(p.refused, Refusal{request, err})
			}
			continue
		}
		at, err := p.read(request, &p.asks[i])
		if err != nil {
			at = nowhere
			p.refused = append(p.refused, Refusal{request, err})
		}
		p.requests[i] = request
		p.rowOf[i] = at
	}
}

// read puts one request into its row and returns the row's index.
func (p *part) read(request *api.CapacityRequest, asks *shares) (uint32, error) {
	if request.Spec.Unreadable != "" {
		return 0, fmt.Errorf("%w: %s", ErrUnreadable, request.Spec.Unreadable)
	}
	p.size.begin(request)
	asks.overhead = p.size.overhead != nil
	if err := p.measure(request.Spec.Resources, asks); err != nil {
		return 0, err
	}
	p.size.end()
	at, err := p.row(request)
	if err == nil {
		p.rows[at].add(asks)
	}
	return at, err
}

// row returns the index of the row of a request of the size at hand.
func (p *part) row(request *api.CapacityRequest) (uint32, error) {
	if err := p.key.write(request, &p.size); err != nil {
		return 0, err
	}
	at, known := p.byKey[string(p.key.buf)]
	if !known {
		if err := p.key.check(); err != nil {
			return 0, err
		}
		at = uint32(len(p.rows))
		key, need := string(p.key.buf), p.key.need(request)
		gang, class := len(p.key.group) > 0, p.size.class
		p.rows = append(p.rows, row{
			key: key, need: need, bytes: bytesIn(need), gang: gang, class: uint8(class), open: !gang && class == 0, setHash: p.key.setHash(),
		})
		p.byKey[key] = at
	}
	return at, nil
}

// usual are the resources of which most requests name no others. To look a few
// names up is several times faster than to go through a map.
var usual = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// measure reads amounts.
func (p *part) measure(resources corev1.ResourceList, asks *shares) error {
	if err := p.askPlace(resources, asks); err != nil {
		return err
	}
	found := 0
	for _, name := range usual {
		quantity, ok := resources[name]
		if !ok {
			continue
		}
		if err := p.ask(name, &quantity, asks); err != nil {
			return err
		}
		found++
	}
	if found == len(resources) {
		return nil
	}
	for name, quantity := range resources {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			continue
		}
		if err := p.ask(name, &quantity, asks); err != nil {
			return err
		}
	}
	return nil
}

// askPlace counts a pod's own place where machines say how many pods they take: of small
// pods, that is what fills a machine.
func (p *part) askPlace(resources corev1.ResourceList, asks *shares) error {
	if _, named := resources[corev1.ResourcePods]; named || asks.overhead || p.how.limits.Offered[string(corev1.ResourcePods)] == 0 {
		return nil
	}
	return p.ask(corev1.ResourcePods, &onePod, asks)
}

var onePod = resource.MustParse("1")

// ask notes one amount.
func (p *part) ask(what corev1.ResourceName, quantity *resource.Quantity, asks *shares) error {
	name := string(what)
	if err := model.CheckName(name); err != nil {
		return fmt.Errorf("%w: the name of a resource %w", ErrName, err)
	}
	if asks.overhead && what == corev1.ResourcePods && p.how.limits.Offered[name] == 0 {
		return nil // nodes have it, and no machine says so
	}
	n, err := units(name, quantity)
	if err != nil {
		return fmt.Errorf("resource %q: %w", name, err)
	}
	if n == 0 {
		return nil
	}
	if most := askable(name); n > most {
		return fmt.Errorf("resource %q: %w: at most %s are taken for what somebody wants; look at the unit", name, ErrQuantity, text(name, most))
	}
	if p.how.only != nil && !p.how.only[name] {
		return fmt.Errorf("%w: the cluster may name %d resources, %d of them that no machine offers, and %q is one that a namespace with many names: look at the spelling, and name fewer",
			ErrMany, DimensionsMax, UnofferedMax, name)
	}
	// In a row with others, what no machine has would be the row's smallest unit, and
	// nobody in it would be served.
	if n > p.how.limits.most(name) && p.size.overhead == nil {
		p.size.flags |= sizeApart
	}
	p.size.count(name, n)
	asks.add(share{n, p.dims.of(name)})
	return nil
}
