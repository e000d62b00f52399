package web

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func newFeed() *Feed {
	return NewFeed(Info{Version: "v", Source: "s", Provider: "p", Started: time.UnixMilli(1000), CycleInterval: time.Second})
}

// fullest returns a frame whose every list and string is beyond its limit.
func fullest(cycle uint64) Frame {
	long := strings.Repeat("\"é\x01", 100)
	f := Frame{
		Cycle: cycle, At: 1_700_000_000_000, Mode: ModeDryRun, Progress: long,
		Clusters: 1e6, Rows: 1e6, Needs: 1e6, Satisfied: 1e6, ActionsTotal: math.MaxInt64, InFlight: 1e6, Faults: math.MaxInt64,
		CycleMillis: 12345.678901234,
	}
	for i := range f.Machines {
		f.Machines[i] = 500_000
	}
	for i := range f.PhaseMillis {
		f.PhaseMillis[i] = 1234.5678901234
	}
	for i := range f.Actions {
		f.Actions[i] = 500_000
	}
	for i := range f.Spend {
		f.Spend[i] = 1234567.8901234
	}
	for range 100 {
		f.Resources = append(f.Resources, Resource{Name: long, Demand: math.MaxInt64, Deficit: math.MaxInt64, Bound: math.MaxInt64, Idle: math.MaxInt64})
		f.Reasons = append(f.Reasons, ReasonCount{Reason: long, Count: 1e6})
		u := UnmetNeed{Cluster: long, Profile: long, Priority: math.MinInt32, Missing: 1.0 / 3, Reason: long, AgeSeconds: 123456.789}
		for range 20 {
			u.Deficit = append(u.Deficit, Amount{Name: long, Value: math.MaxInt64})
		}
		f.Unmet = append(f.Unmet, u)
		f.Did = append(f.Did, Action{Kind: long, Count: 1e6, Machine: long, Type: long, Cluster: long, From: long, Need: long, Reason: long})
	}
	return f
}

func TestAnEventStaysBelowItsLimitWithEveryListFull(t *testing.T) {
	f := newFeed()
	f.Publish(fullest(1))
	data, cycle := f.newest()
	if cycle != 1 || !json.Valid(data) {
		t.Fatalf("cycle %d, valid JSON: %v", cycle, json.Valid(data))
	}
	// Names of nothing but quotes double in JSON; no cluster is called so.
	if limit := 2 * EventBytesMax; len(data) > limit {
		t.Errorf("the event has %d bytes, the limit for names of nothing but quotes is %d", len(data), limit)
	}
	if strings.ContainsAny(string(data), "\n\r") {
		t.Error("the event has a line break, which would end it early")
	}
}

func TestAnEventOfOrdinaryNamesStaysBelowTheLimit(t *testing.T) {
	frame := fullest(1)
	name := strings.Repeat("cluster-", 20)
	for i := range frame.Unmet {
		u := &frame.Unmet[i]
		u.Cluster, u.Profile, u.Reason = name[:24], name[:90], "preemption_exhausted"
		for j := range u.Deficit {
			u.Deficit[j] = Amount{Name: "nvidia.com/gpu", Value: 1 << 50}
		}
		frame.Did[i] = Action{Kind: "Bootstrap", Count: 12345, Machine: name[:40], Type: "a3-highgpu-8g", Cluster: name[:24], Need: name[:60], Reason: "phase1.speculative"}
		frame.Resources[i].Name = "nvidia.com/gpu"
		frame.Reasons[i].Reason = "preemption_exhausted"
	}
	f := newFeed()
	f.Publish(frame)
	if data, _ := f.newest(); len(data) > EventBytesMax {
		t.Errorf("the event has %d bytes, more than %d", len(data), EventBytesMax)
	}
}

func TestPublishLeavesTheProducersSlicesAlone(t *testing.T) {
	frame := fullest(1)
	name := frame.Unmet[0].Deficit[0].Name
	newFeed().Publish(frame)
	if frame.Unmet[0].Deficit[0].Name != name || len(frame.Unmet) != 100 || frame.Did[99].Cycle != 0 {
		t.Error("the producer's slices were changed")
	}
}

func TestASlowClientFindsTheNewestFrameAndNoOther(t *testing.T) {
	f := newFeed()
	c, err := f.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer f.unsubscribe(c)
	for i := range uint64(1000) {
		f.Publish(Frame{Cycle: i + 1, At: int64(i+1) * 1000})
	}
	<-c.bell
	if _, cycle := f.newest(); cycle != 1000 {
		t.Errorf("found cycle %d, want the newest, 1000", cycle)
	}
	select {
	case <-c.bell:
		t.Error("the bell rang twice for one look")
	default:
	}
}

func TestClientsAreBounded(t *testing.T) {
	f := newFeed()
	for range ClientsMax {
		if _, err := f.subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.subscribe(); err == nil {
		t.Error("one client more than the limit was let in")
	}
	f.Close()
	f.Close() // twice is as good as once
}

func TestTheLastActionsComeNewestFirst(t *testing.T) {
	f := newFeed()
	f.Publish(Frame{Cycle: 1, At: 1000, Did: []Action{{Machine: "a"}, {Machine: "b", Count: 3}}})
	f.Publish(Frame{Cycle: 2, At: 2000})
	f.Publish(Frame{Cycle: 3, At: 3000, Did: []Action{{Machine: "c"}}})
	var got []string
	for _, a := range f.recent {
		got = append(got, a.Machine)
	}
	if strings.Join(got, " ") != "c b a" {
		t.Errorf("got %v, want c b a", got)
	}
	if r := f.recent[1]; r.At != 1000 || r.Cycle != 1 || r.Count != 3 {
		t.Errorf("the action is %+v, want cycle 1 at 1000, 3 times", r)
	}
	for i := range uint64(100) {
		f.Publish(Frame{Cycle: 4 + i, At: 4000, Did: make([]Action, 30)})
	}
	if len(f.recent) != MaxRecent {
		t.Errorf("%d actions are kept, want %d", len(f.recent), MaxRecent)
	}
}

func TestStateBeforeTheFirstCycleHasNoFrame(t *testing.T) {
	var s struct {
		Frame   *Frame
		History []row
		Info    struct{ Started int64 }
	}
	if err := json.Unmarshal(newFeed().snapshot(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Frame != nil || s.History == nil || len(s.History) != 0 || s.Info.Started != 1000 {
		t.Errorf("got %+v", s)
	}
}

func TestCutKeepsRunesWholeAndRemovesControls(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"exactly ten", 11, "exactly ten"},
		{"a longer name", 10, "a longe…"},
		{"ééééé", 8, "éé…"},
		{"a\nb\x00c\xff", 10, "a b c "},
		{"a\u009bb\x7fc\u202ed", 10, "a b c d"},
	} {
		if got := cut(c.in, c.n); got != c.want || len(got) > c.n {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestABrokenNumberIsSaidAndNotHidden(t *testing.T) {
	f := newFeed()
	f.Publish(Frame{Cycle: 1, At: 1000, CycleMillis: math.NaN()})
	data, _ := f.newest()
	if !json.Valid(data) || !strings.Contains(string(data), "error") {
		t.Errorf("got %s", data)
	}
}
