package report

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// The limits of a report.
const (
	IntervalDefault = 10 * time.Second
	// AcksMax is how many acknowledgements wait to be delivered; what is not
	// acknowledged comes again.
	AcksMax = 1000
)

// Shard is the shard as the client sees it.
type Shard interface {
	Summary() shard.Summary
	Shortfalls() []shard.Shortfall
	// HearTerm takes note of a term; false says that a higher one is known.
	HearTerm(term int64) bool
	AssignDomain(shard.Domain) error
	UnassignDomain(shard.Domain) error
	// Kept waits until what was said of domains is on disk.
	Kept(ctx context.Context) error
}

// Owner changes what is the shard's, one machine at a time, and keeps it; see
// the shard's methods.
type Owner interface {
	Release(ctx context.Context, move, to string, machines []string, in model.State) (shard.HandOver, error)
	DrainAway(ctx context.Context, move string, machines []string, priority int32) error
	Adopt(ctx context.Context, id string, machines []string) error
	HandOvers(ctx context.Context) ([]shard.HandOver, error)
	Settle(moves []string)
	Offers() []shard.Offer
}

// Domains are the shard's domains when they may be lost.
type Domains interface {
	// Lost says that those that are there need not be the shard's, nor all of them.
	Lost() bool
	Domains() []shard.Domain
	// Confirm notes that they are; if there are none, ever says that it may have had
	// some.
	Confirm(ever bool)
}

// Options are what a client is made with. Shard, ID and Addresses are needed.
type Options struct {
	Shard Shard
	// Owner is the shard's side of moving machines; nil = instructions that move
	// machines are refused, and nothing is offered.
	Owner Owner
	// Domains are confirmed by the coordinator when they are lost; nil = they never are.
	Domains   Domains
	ID        string
	Epoch     func() int64
	Addresses []string // of the coordinator's replicas
	// Advertise is this shard's own address, Provider its provider's.
	Advertise string
	Provider  string
	Interval  time.Duration // 0 = IntervalDefault
	Dial      []grpc.DialOption
	// Replaced is told the epoch of a newer process of this shard that the coordinator knows.
	Replaced func(epoch int64)
	Clock    func() time.Time // nil = time.Now
	Log      *slog.Logger
	// Metrics count what becomes of reports; nil = nobody does. See NewMetrics.
	Metrics *Metrics
}

// Client reports to the coordinator.
type Client struct {
	o        Options
	replicas *replicas
	cycle    int64 // of reports, from 1 in each process
	idle     int   // machines, as of the last report
	acks     []*pb.InstructAck
	done     done
	fresh    []*pb.InstructAck    // of what was done about domains, and may not be on disk
	asks     chan chan<- struct{} // for a report at once; see Ask
	failing  bool
	unheard  bool // the last offer was not taken
	dropped  bool // what was left of lost domains
}

// New returns a client; nothing is dialled yet.
func New(o Options) (*Client, error) {
	if o.Shard == nil || o.ID == "" || len(o.Addresses) == 0 {
		return nil, errors.New("reports need a shard, its id, and the address of a coordinator")
	}
	if o.Interval <= 0 {
		o.Interval = IntervalDefault
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Epoch == nil {
		o.Epoch = func() int64 { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{o: o, replicas: newReplicas(o.Addresses, o.Dial), done: newDone(), asks: make(chan chan<- struct{})}, nil
}

// Run reports at once and then every interval, until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	defer c.Close()
	tick := time.NewTicker(c.o.Interval)
	defer tick.Stop()
	var asked chan<- struct{} // who waits for the report under way; nil = nobody
	for {
		c.Exchange(ctx)
		if asked != nil {
			close(asked)
			asked = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case asked = <-c.asks:
		}
	}
}

// Ask has Run report at once, and waits until it has, or ctx ends.
func (c *Client) Ask(ctx context.Context) {
	done := make(chan struct{})
	select {
	case c.asks <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Close ends the connections. Run does so itself.
func (c *Client) Close() { c.replicas.close() }

// Exchange makes one report and carries out what the answer asks for. It is what
// Run does each interval, for callers with a rhythm of their own; not to be
// called while Run or another call of it is under way.
func (c *Client) Exchange(ctx context.Context) {
	said := len(c.acks)
	answer, err := c.replicas.report(ctx, c.report())
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.o.Metrics.reported(reportFailed)
		if !c.failing {
			c.o.Log.Warn("no coordinator takes the report; the shard goes on as it is", "error", err)
		}
		c.failing = true
		return
	}
	if c.failing {
		c.o.Log.Info("a coordinator takes reports again", "term", answer.GetCoordinatorTerm())
	}
	c.failing = false
	if !c.o.Shard.HearTerm(answer.GetCoordinatorTerm()) {
		c.o.Metrics.reported(reportStale)
		c.o.Log.Warn("the answer of a coordinator that was replaced is not listened to", "term", answer.GetCoordinatorTerm())
		return
	}
	c.o.Metrics.reported(reportTaken)
	c.acks = append(c.acks[:0], c.acks[said:]...) // they have arrived
	for _, i := range answer.GetInstructions() {
		c.take(ctx, answer.GetCoordinatorTerm(), i)
	}
	c.keep(ctx)
	if c.o.Owner != nil { // also where the report was not taken: the answer says why
		c.offer(ctx)
	}
}

// report says how the shard stands.
func (c *Client) report() *pb.ShardReport {
	c.cycle++
	sum := c.o.Shard.Summary()
	c.idle = sum.Idle
	r := &pb.ShardReport{
		ShardId: c.o.ID, Cycle: c.cycle, TimestampUnixNanos: c.o.Clock().UnixNano(), ShardEpoch: c.o.Epoch(), ShardAddress: c.o.Advertise,
		Summary: &pb.ShardSummary{
			TotalMachines: int32(sum.Total), FreeMachines: int32(sum.Idle + sum.Speculative),
			PerInstanceTypeCounts: counts(sum.ByType), PerZoneCounts: counts(sum.ByZone), ProviderAddress: c.o.Provider,
		},
		InstructionAcks: c.acks,
	}
	for _, x := range c.o.Shard.Shortfalls() {
		r.Shortfalls = append(r.Shortfalls, shortfall(&x))
	}
	return r
}

func counts(of map[string]int) map[string]int32 {
	out := make(map[string]int32, len(of))
	for name, n := range of {
		out[name] = int32(n)
	}
	return out
}

// shortfall writes one. Gt and Lt have no form on the wire.
func shortfall(x *shard.Shortfall) *pb.Shortfall {
	p := x.Profile
	out := &pb.Shortfall{
		Priority: p.Priority(), AgeCycles: int32(x.AgeCycles), InterruptionPenaltyBucket: pb.PenaltyBucket(p.Interruption()),
		Deficit: &pb.Resources{Resources: make(map[string]string, len(x.Deficit))},
	}
	for _, r := range p.Requirements() {
		if r.Operator <= model.Same {
			out.Requirements = append(out.Requirements, &pb.NodeSelectorRequirement{Key: r.Key, Operator: pb.NodeSelectorRequirement_Operator(r.Operator), Values: r.Values})
		}
	}
	for _, a := range x.Deficit {
		out.Deficit.Resources[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	return out
}
