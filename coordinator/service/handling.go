package service

import (
	"context"
	"time"

	"google.golang.org/grpc/stats"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
)

// handling times what shards say, from the head of the call to the end of the
// answer: the message's way in is a part of it, the network before it is not.
type handling struct{ metrics *Metrics }

// timed is a call that is timed, in its context.
type timed struct{}

// timedCalls are the values of the label "call".
var timedCalls = map[string]string{
	bigfleet.Coordinator_ReportShard_FullMethodName: "report",
	tonnage.Fleet_Offer_FullMethodName:              "offer",
}

// TagRPC implements stats.Handler.
func (handling) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	if name := timedCalls[i.FullMethodName]; name != "" {
		return context.WithValue(ctx, timed{}, name)
	}
	return ctx
}

// HandleRPC implements stats.Handler.
func (h handling) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok {
		return
	}
	if name, ok := ctx.Value(timed{}).(string); ok {
		h.metrics.handled(name, end.EndTime.Sub(end.BeginTime))
	}
}

// TagConn implements stats.Handler.
func (handling) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (handling) HandleConn(context.Context, stats.ConnStats) {}

// handled notes how long a report or an offer took.
func (m *Metrics) handled(call string, took time.Duration) {
	m.handling.WithLabelValues(call).Observe(took.Seconds())
}
