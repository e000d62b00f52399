package acquire

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/spread"
)

// Worker is what one worker needs to acquire machines.
type Worker struct {
	order.Worker
	p         *Pass
	NextBlock int            // index of Reserved.Blocks
	used      []columnar.Row // scratch
	available []uint64       // classes of machines that reservations which have just ended make available
	Acquiring Acquiring
}

// Acquiring is the memory of acquisition.
type Acquiring struct {
	Domains      domains.Indexes
	even         evenness
	Spread       spread.Scratch
	dealt        spreadDeals
	fit          *fitter          // nil until AcquireFit chooses
	Revived      bool             // Needs that the walk skipped may acquire something now
	Shares       Division         // the kinds and classes of each worker, while they acquire concurrently
	Acquisitions [2][]Acquisition // Idle, Speculative; in rank order
	Clusters     []uint64         // whose Needs have acquired something, as a set
	byText       columnar.StringSorter
	inOrder      []keyedRow // scratch
	Surplus      surplus    // scratch
	// CreditedLate says that the Need at work was credited something after it picked machines.
	CreditedLate bool
}

// Enter prepares the worker for a pass.
func (l *Worker) Enter(p *Pass) {
	l.Worker.Enter(&p.Pass)
	l.p, l.NextBlock = p, 0
	x := &l.Acquiring
	x.Domains.Forget()
	x.Acquisitions[0], x.Acquisitions[1] = x.Acquisitions[0][:0], x.Acquisitions[1][:0]
	x.Clusters = reuse.Resize(x.Clusters, (len(p.Sources)+63)/64)
	x.Shares, x.Revived = Division{}, false
	if x.fit != nil {
		x.fit.enter()
	}
	x.dealt.ofKind = x.dealt.ofKind[:0]
}

// has reports whether a class belongs to the worker's share.
func (l *Worker) has(class uint32) bool {
	return l.Acquiring.Shares.Workers <= 1 || l.Acquiring.Shares.Class[class] == l.Number
}

// Division says which worker has each kind and each class.
type Division struct {
	Kind, Class []uint8
	Workers     int
}
