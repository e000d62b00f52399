package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

var _ Source = (*Live)(nil)

// history calls Due every step and returns what came, as text.
func history(l *Live, step, span time.Duration) []string {
	var out []string
	start := Epoch.UnixNano()
	for t := time.Duration(0); t <= span; t += step {
		for _, r := range l.Due(start + int64(t)) {
			out = append(out, fmt.Sprint(r.Cluster, time.Duration(r.At-start), len(r.Needs), total(r.Needs)))
		}
	}
	return out
}

func total(needs []model.Need) model.Resources {
	var sum model.Resources
	for i := range needs {
		sum = sum.Add(needs[i].Aggregate)
	}
	return sum
}

func TestLiveReportsEveryIntervalFromEveryCluster(t *testing.T) {
	f := Build(mustRung(t, "5k"), 1)
	l := NewLive(f, Cold)
	start := Epoch.UnixNano()
	last := map[string]int64{}
	count := map[string]int{}
	for s := range 120 {
		before := int64(0)
		for _, r := range l.Due(start + int64(s)*int64(time.Second)) {
			if r.At < before {
				t.Fatal("roll-ups are not in the order in which they fell due")
			}
			before = r.At
			if gap := time.Duration(r.At - last[r.Cluster]); count[r.Cluster] > 1 && gap != liveInterval {
				t.Errorf("%s reports after %s", r.Cluster, gap)
			}
			last[r.Cluster] = r.At
			count[r.Cluster]++
		}
		if s == 5 && len(count) != 20 {
			t.Errorf("%d of 20 clusters have reported after 5 s", len(count))
		}
	}
	for name, n := range count {
		if n < 11 || n > 13 {
			t.Errorf("%s reported %d times in 120 s", name, n)
		}
	}
}

func TestLiveFirstRollupIsTheFleetsDemand(t *testing.T) {
	f := Build(mustRung(t, "tiny"), 1)
	l := NewLive(f, Steady)
	l.Due(Epoch.UnixNano())
	for _, r := range l.Due(Epoch.UnixNano() + int64(5*time.Second)) {
		for c, name := range f.Clusters() {
			if want := f.Needs(Steady, c); name == r.Cluster && (len(r.Needs) != len(want) || !total(r.Needs).Equal(total(want))) {
				t.Errorf("%s: %d rows of %v, want %d of %v", name, len(r.Needs), total(r.Needs), len(want), total(want))
			}
		}
	}
}

func TestLiveIsDeterministic(t *testing.T) {
	r := mustRung(t, "tiny")
	a := history(NewLive(Build(r, 9), Cold), time.Second, 10*time.Minute)
	b := history(NewLive(Build(r, 9), Cold), time.Second, 10*time.Minute)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("two runs of one seed differ")
	}
	// A caller that comes by seldom sees the same demand, only less often.
	seen := map[string]bool{}
	for _, h := range a {
		seen[h] = true
	}
	for _, h := range history(NewLive(Build(r, 9), Cold), 25*time.Second, 10*time.Minute) {
		if !seen[h] {
			t.Errorf("seen only by a slow caller: %s", h)
		}
	}
	if c := history(NewLive(Build(r, 10), Cold), time.Second, 10*time.Minute); strings.Join(a, "\n") == strings.Join(c, "\n") {
		t.Error("the seed changes nothing")
	}
}

// Demand must churn and must not drift away from what the fleet was made for.
func TestLiveChurnsAroundTheFleetsDemand(t *testing.T) {
	f := Build(mustRung(t, "5k"), 4)
	l := NewLive(f, Steady)
	start := Epoch.UnixNano()
	base := map[string]int64{}
	changed, reports, surges, visitors := 0, 0, 0, 0
	before := map[string]uint64{}
	for s := range 3600 {
		for _, r := range l.Due(start + int64(s)*int64(time.Second)) {
			var cpu int64
			sum := uint64(0)
			for i := range r.Needs {
				n := &r.Needs[i]
				if !n.Aggregate.Covers(n.MinUnit) {
					t.Fatalf("%s asks for %v in units of %v", r.Cluster, n.Aggregate, n.MinUnit)
				}
				if n.Profile.Priority() < 1_000_000 {
					cpu += n.Aggregate.Get(dimCPU)
				}
				sum = (sum^n.Profile.Fingerprint()^uint64(n.Aggregate.Get(dimCPU)+n.Arrival))*0x100000001b3 + 1
			}
			if base[r.Cluster] == 0 {
				base[r.Cluster] = cpu
			}
			if ratio := float64(cpu) / float64(base[r.Cluster]); ratio < 0.7 || ratio > 1.35 {
				t.Fatalf("%s asks for %.2f times its first demand after %d s", r.Cluster, ratio, s)
			}
			if was := before[r.Cluster]; was != 0 && was != sum {
				changed++
			}
			before[r.Cluster] = sum
			reports++
		}
		for c := range l.clusters {
			if l.clusters[c].tick < l.clusters[c].surge {
				surges++
			}
			for i := range l.clusters[c].gangs {
				if l.clusters[c].gangs[i].until > 0 {
					visitors++
				}
			}
		}
	}
	if changed < reports/2 || surges == 0 || visitors == 0 {
		t.Errorf("%d of %d roll-ups changed, %d cluster-seconds of surges, %d of visiting gangs", changed, reports, surges, visitors)
	}
}

func TestLiveCallsAreBounded(t *testing.T) {
	f := Build(mustRung(t, "500k"), 1)
	l := NewLive(f, Cold)
	start := Epoch.UnixNano()
	l.Due(start)
	seen := map[string]bool{}
	for range 5 {
		due := l.Due(start + int64(time.Minute))
		if len(due) > RollupsPerCallMax {
			t.Fatalf("%d roll-ups in one call", len(due))
		}
		for _, r := range due {
			seen[r.Cluster] = true
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d of 1000 clusters reported in 5 calls", len(seen))
	}
}

// A source that was asleep for a week must answer at once.
func TestLiveSurvivesALongPause(t *testing.T) {
	l := NewLive(Build(mustRung(t, "tiny"), 1), Cold)
	start := Epoch.UnixNano()
	l.Due(start)
	due := l.Due(start + int64(7*24*time.Hour))
	if len(due) != 2 {
		t.Errorf("%d roll-ups after a week, want one of each cluster", len(due))
	}
}
