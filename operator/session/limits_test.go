package session

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// headed is a stream with a header and nothing else.
type headed struct {
	Stream
	header metadata.MD
}

func (h headed) Header() (metadata.MD, error) { return h.header, nil }

// TestLimitsAreTold: what the shard tells in the header reaches who makes roll-ups.
func TestLimitsAreTold(t *testing.T) {
	for _, x := range []struct {
		header metadata.MD
		want   string
	}{
		{metadata.MD{}, "0 0 0 0 map[] true"},
		{metadata.Pairs(headerRows, "9", headerGangs, "x", headerSets, "-1", headerKeys, "6"), "9 0 0 6 map[] true"},
		{metadata.Pairs(headerOffered, ""), "0 0 0 0 map[] false"},
		{metadata.Pairs(headerOffered, "cpu=64\na=b=2\nodd\n=3\n"), "0 0 0 0 map[a=b:2 cpu:64] false"},
	} {
		d := &side{}
		s := newLive(Config{Demand: d, Log: slog.New(slog.DiscardHandler)}, headed{header: x.header})
		s.learn()
		if d.told != x.want {
			t.Errorf("%v is told as %q, want %q", x.header, d.told, x.want)
		}
	}
}

// TestRowsAboveTheLimitsAreNamedOnce: and again when they are others.
func TestRowsAboveTheLimitsAreNamedOnce(t *testing.T) {
	var out strings.Builder
	log, metrics := slog.New(slog.NewTextHandler(&out, nil)), telemetry.New(prometheus.NewRegistry(), "a")
	rows := []*bigfleet.CapacityNeed{{Priority: 5}, {Priority: 900, Group: "greedy"}, {InterruptionPenaltyBucket: 27}}
	var a above
	a.look(rows, metrics, log)
	a.learn(metadata.MD{}, log)
	a.look(rows, metrics, log)
	if out.Len() > 0 {
		t.Errorf("without limits the log says %s", out.String())
	}
	a.learn(metadata.Pairs(headerPriority, "100", headerInterruption, "20"), log)
	for range 3 {
		a.look(rows, metrics, log)
	}
	text := out.String()
	if strings.Count(text, "the shard lowers rows") != 1 || !strings.Contains(text, "rows=2") || !strings.Contains(text, "greedy") || !strings.Contains(text, "priority at most 100") {
		t.Errorf("the log says %s", text)
	}
	a.look(rows[:2], metrics, log)
	a.look(rows[:1], metrics, log)
	if text = out.String(); strings.Count(text, "the shard lowers rows") != 2 || strings.Count(text, "no row is lowered") != 1 {
		t.Errorf("the log says %s", text)
	}
}
