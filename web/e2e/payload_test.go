package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// What an answer of the API may weigh on the wire, packed, by its path; others have payloadMax. They are counted by the
// browser and depend on nothing but the fleet.
const (
	payloadMax = 64 << 10
	filesMax   = 256 << 10 // the page's own files together, not packed
)

var payloads = map[string]int{"/api/v1/map": 160 << 10, "/api/v1/cells": 96 << 10, "/api/state": 256 << 10, "/api/v1/state": 256 << 10}

// largeVariable asks for tests of the page that take long: a fleet of 500,000 machines.
const largeVariable = "TONNAGE_PAGE_LARGE"

func TestPayloadsOfTwentyThousandMachines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("bytes are counted in whole runs")
	}
	weigh(t, 60, 20_000)
}

func TestPayloadsOfHalfAMillionMachines(t *testing.T) {
	if os.Getenv(largeVariable) == "" {
		t.Skipf("%s is not set: it takes minutes and gigabytes", largeVariable)
	}
	weigh(t, 1000, 500_000)
}

// framesWeighed is how many frames of a view are drawn in the long run, so that a percentile means something.
var framesWeighed = map[string]int{"overview": 20, "fleet": 20}

// weigh opens every view of a fleet and counts what comes over the wire; script times are only told.
func weigh(t *testing.T, clusters, machines int) {
	t.Helper()
	p, step := rungPage(t, clusters, machines)
	for _, tab := range []string{"fleet", "needs", "clusters", "money", "changes", "whatif", "engine", "search?state=Configured", "search?q=std", "overview"} {
		p.must(`location.hash = '#/`+tab+`'; performance.setResourceTimingBufferSize(4000)`, nil)
		frames := 3
		if os.Getenv(largeVariable) != "" {
			frames = max(frames, framesWeighed[tab])
		}
		for range frames {
			drawn := p.lastDraw()
			step()
			p.until("a frame of "+tab, `tonnageFrames.get('draw').at(-1) !== `+drawn)
		}
		p.until("answers to "+tab, `![...document.querySelectorAll('.view:not([hidden]) .empty, .view:not([hidden]) .now')].some((e) => e.textContent === 'Asking …')`)
	}
	var seen []struct {
		Path          string
		Packed, Plain int
	}
	p.must(`(() => {
		const most = new Map();
		for (const r of performance.getEntriesByType('resource')) {
			const path = new URL(r.name).pathname;
			const was = most.get(path);
			if (!was || r.encodedBodySize > was.Packed) most.set(path, { Path: path, Packed: r.encodedBodySize, Plain: r.decodedBodySize });
		}
		return [...most.values()];
	})()`, &seen)
	files := 0
	for _, x := range seen {
		if len(x.Path) < 5 || x.Path[:5] != "/api/" {
			files += x.Packed
			continue
		}
		limit, ok := payloads[x.Path]
		if !ok {
			limit = payloadMax
		}
		t.Logf("%-22s %8d bytes packed, %9d plain", x.Path, x.Packed, x.Plain)
		if x.Packed > limit {
			t.Errorf("%d machines: %s weighs %d bytes, want at most %d", machines, x.Path, x.Packed, limit)
		}
	}
	t.Logf("the page's own files: %d bytes", files)
	if files > filesMax || files == 0 {
		t.Errorf("the page's own files weigh %d bytes, want at most %d", files, filesMax)
	}
	var scripts []string
	p.must(`[...tonnageFrames].map(([name, list]) => {
		const s = [...list].sort((a, b) => a - b), at = (q) => s[Math.floor(s.length * q)].toFixed(1);
		return name + ': median ' + at(0.5) + ' ms, p95 ' + at(0.95) + ' ms of ' + s.length;
	})`, &scripts)
	for _, line := range scripts {
		t.Logf("scripts of a frame, %s", line)
	}
	p.quiet()
}

// lastDraw is how long the scripts of the last frame took, as the page notes it: every frame has another one.
func (p *page) lastDraw() string {
	p.t.Helper()
	var ms float64
	p.must(`tonnageFrames.get('draw').at(-1)`, &ms)
	return strconv.FormatFloat(ms, 'g', -1, 64)
}

const (
	// minutesVariable is for how many minutes the memory of a tab is watched; without it cyclesShort cycles are.
	minutesVariable = "TONNAGE_TAB_MINUTES"
	cyclesShort     = 95
	// A tab that is watched for minutes sees four cycles a second: an hour has four hours of a shard's cycles.
	cyclePace = 250 * time.Millisecond
	// A tab may grow by so much while it shows an hour or more of cycles; what it holds is bounded.
	heapGrowthMax = 24 << 20
	nodesGrowth   = 2 // times
	// In the second half of the minutes it has all that it keeps, and grows by so much at most.
	heapDriftMax = 3 << 20
)

// TestAPageThatStaysOpenKeepsItsSize goes from view to view while cycles run and demand changes, and measures what the tab
// holds after garbage collection.
func TestAPageThatStaysOpenKeepsItsSize(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is measured in whole runs")
	}
	p, f := fleetPage(t)
	minutes, _ := strconv.Atoi(os.Getenv(minutesVariable))
	pace := time.NewTicker(cyclePace)
	defer pace.Stop()
	began := time.Now()
	tabs := []string{"overview", "fleet?hold=16", "clusters", "money", "changes", "engine", "overview?open=need/nightly", "fleet?open=machine/a-r2-m00", "whatif", "search?q=r1"}
	var first, half, last tabSize
	cycle, told := 0, 0
	step := func() {
		drawn := p.lastDraw()
		f.Step()
		p.until("the next frame", `tonnageFrames.get('draw').at(-1) !== `+drawn)
	}
	// size is what the tab holds on one and the same view: others have longer lists.
	size := func() tabSize {
		p.must(`location.hash = '#/overview'`, nil)
		step()
		step()
		return p.tabSize()
	}
	for ; cycle < cyclesShort || time.Since(began) < time.Duration(minutes)*time.Minute; cycle++ {
		if cycle%5 == 0 {
			p.must(`location.hash = '#/`+tabs[cycle/5%len(tabs)]+`'`, nil)
		}
		if cycle%7 == 0 {
			f.Report("ci", builds(t, cycle/7))
		}
		step()
		if cycle == 5*len(tabs) { // each view was there
			first = size()
		}
		if minutes == 0 {
			continue
		}
		<-pace.C
		if now := int(time.Since(began).Minutes()); now > told {
			told, last = now, size()
			t.Logf("%d min, %d cycles: %v", told, cycle+1, last)
			if told == minutes/2 {
				half = last
			}
		}
	}
	last = size()
	t.Logf("after %v and %d cycles: %v, after the first round %v", time.Since(began).Round(time.Second), cycle, last, first)
	if last.heap-first.heap > heapGrowthMax || minutes == 0 && last.nodes > nodesGrowth*first.nodes {
		t.Errorf("the tab grew from %v to %v", first, last)
	}
	if half.heap > 0 && (last.heap-half.heap > heapDriftMax || last.nodes > nodesGrowth*half.nodes) {
		t.Errorf("the tab grew from %v to %v in the second half of the time", half, last)
	}
	p.quiet()
}

// builds is what a cluster asks for in its n-th report: one to three Needs with names that occurred in no report before.
func builds(t *testing.T, n int) []model.Need {
	t.Helper()
	rows := make([]model.Need, 1+n%3)
	for i := range rows {
		profile, err := model.NewProfile(model.ProfileSpec{Priority: int32(40 + n%20)})
		if err != nil {
			t.Fatal(err)
		}
		cores := model.NewResources(model.Amount{Name: "cpu", Value: int64(1000 * (40 + n%7*20))})
		rows[i] = model.Need{Cluster: "ci", Group: fmt.Sprintf("build-%d-%d", n, i), Profile: profile, Aggregate: cores, Arrival: int64(n + 1)}
	}
	return rows
}

// tabSize is what a tab holds.
type tabSize struct{ heap, nodes int }

func (s tabSize) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %d nodes", float64(s.heap)/(1<<20), s.nodes)
}

func (p *page) tabSize() tabSize {
	p.t.Helper()
	for range 2 { // what finalizers let go of is found by the second
		p.do("HeapProfiler.collectGarbage", nil, nil)
	}
	var heap struct{ UsedSize float64 }
	p.do("Runtime.getHeapUsage", nil, &heap)
	var dom struct{ Nodes int }
	p.do("Memory.getDOMCounters", nil, &dom)
	return tabSize{int(heap.UsedSize), dom.Nodes}
}
