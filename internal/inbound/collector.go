package inbound

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

// When garbage is collected. Go lets the heap grow to twice what is alive, so
// that messages that arrive would take twice their budget.
const (
	// slackBytes is how much is allocated between two collections while much
	// arrives.
	slackBytes = 24 << 20
	// pressureBytes and pressureConnections are how much that is: what messages
	// hold, and connections that are not proven. More connections than half of
	// those that an address may have are much, too.
	pressureBytes       = 8 << 20
	pressureConnections = 128
	gcPercentDefault    = 100
	gcPercentMin        = 10
)

// collector keeps the garbage of a process small while much arrives. It looks
// after each collection: it is garbage itself, and its finalizer makes it
// garbage anew.
type collector struct {
	gate    *Gate
	percent int
}

// LimitGarbage has garbage collected more often while much arrives at the gate,
// and otherwise as GOGC or percent says: percent returns the value of
// debug.SetGCPercent by how many bytes were alive after the last collection, and
// nil is GOGC's default. With GOGC=off nothing is changed. A process calls it
// once; it holds until the process ends.
func (g *Gate) LimitGarbage(percent func(live uint64) int) {
	set := gcPercentDefault
	if text := os.Getenv("GOGC"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			return
		}
		set, percent = n, nil
	}
	if percent == nil {
		percent = func(uint64) int { return set }
	}
	g.mu.Lock()
	g.gcPercent = percent
	g.mu.Unlock()
	runtime.SetFinalizer(&collector{gate: g}, (*collector).ended)
}

// ended is called when a collection is over.
func (c *collector) ended() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	if p := c.gate.percentFor(sample[0].Value.Uint64(), sample[1].Value.Uint64()); p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	runtime.SetFinalizer(c, (*collector).ended)
}

// percentFor returns how much may be allocated until the next collection, in
// percent of what is alive and of stacks.
func (g *Gate) percentFor(live, stacks uint64) int {
	g.mu.Lock()
	pressed := g.held[small]+g.held[large] > pressureBytes || g.unproven.Len() > pressureConnections || g.connections > g.perAddress/2
	usual := g.gcPercent(live)
	g.mu.Unlock()
	if !pressed {
		return usual
	}
	scanned := max(1, min(live+stacks, math.MaxInt64/2))
	return min(usual, max(gcPercentMin, int(100*slackBytes/scanned)))
}
