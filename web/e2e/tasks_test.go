package e2e

import (
	"regexp"
	"testing"
	"time"
)

// Questions that people have, each answered by clicking alone from the page as it opens.

func TestTaskWhichClusterIsShortestAndWhy(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Clusters")
	p.says("#clusters tbody tr:first-child", "research")
	p.click("#clusters tbody tr:first-child td.num")
	p.says("#drawer h2", "research")
	p.says("#drawer section", "3 no matching supply")
	p.shot("task-cluster.png", 900)
	p.quiet()
}

func TestTaskWhoWasPreemptedForWhom(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Changes")
	p.until("the pair", `(() => {
		const row = document.querySelector('#preempted tbody tr');
		return row && row.cells[0].textContent.startsWith('batch') && row.cells[1].textContent === 'train' && row.cells[4].textContent === '8';
	})()`)
	p.click("#preempted tbody td.num a", "1")
	p.says("#drawer .card", "Takes 8 machines in a-r2 for train/0")
	p.until("the plan drawn", `document.querySelector('#drawer img').naturalWidth > 0`)
	p.shot("task-preempted.png", 900)
	p.quiet()
}

func TestTaskWhichRackCouldHoldAGang(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Fleet")
	p.until("the map", `Array.from(tonnageFrames.get('map') ?? []).length > 0`)
	p.click("#gang-form button", "Show")
	p.says("#domains tbody tr:first-child", "c-c1")
	p.says("#domains .lead", "1 domain could hold it now, 7 of 7")
	p.says("#domains tbody tr:nth-child(2)", "by preemption, above priority 10")
	p.shot("task-gang.png", 900)
	p.click("#domains tbody tr:first-child a", "c-c1")
	p.says("#drawer .card", "Idle")
	p.quiet()
}

func TestTaskWhatALostZoneWouldDo(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Fleet")
	p.until("the keys", `document.querySelector('#map-key')?.options.length === 2`)
	p.choose("#map-key", "topology.kubernetes.io/zone")
	p.until("the three zones", `document.querySelectorAll('#domains tbody tr').length === 3`)
	p.click("#domains tbody tr:first-child a", "a")
	p.says("#drawer h2", "a")
	p.click("#drawer button", "Decide what would happen")
	p.says("#drawer .loss", "Needs satisfied")
	p.until("what it would do", `(() => {
		const card = document.querySelector('#drawer .card').textContent;
		return card.includes('Without its 48 machines') && card.includes('1 Need would change') && card.includes('train/0');
	})()`)
	p.shot("task-zone.png", 900)
	p.quiet()
}

func TestTaskWhichTenantIsAboveItsShare(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Clusters")
	p.says("#tenants tbody tr:first-child", "science")
	p.says("#tenants tbody tr:first-child", "320 % above")
	p.until("the other within", `!document.querySelector('#tenants tbody tr:nth-child(2)').textContent.includes('above')`)
	p.quiet()
}

func TestTaskWhichMachinesIdleAndWhatTheyCost(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Money")
	p.says("#sums .lead", "$12.60/h of it is for idle machines")
	p.shot("task-money.png", 900)
	p.click("#idle tbody a", "21 × m6i.4xlarge")
	p.says("#list .now", "21 machines, $12.60/h")
	p.until("idle machines alone", `(() => {
		const states = [...document.querySelectorAll('#list tbody td.kind')];
		return states.length === 21 && states.every((e) => e.textContent === 'Idle');
	})()`)
	p.quiet()
}

func TestTaskWhenTheLastSlowCycleWas(t *testing.T) {
	p, f := fleetPage(t)
	p.click(".tabs a", "Engine")
	p.says("#slow .body", "No cycle took 100 ms since")
	f.Slow(40 * time.Millisecond)
	slow := f.Now()
	f.Step()
	p.says("#slow .now", "at "+slow.UTC().Format("15:04:05"))
	p.until("one such cycle", `document.querySelectorAll('#slow tbody tr').length === 1 && document.querySelector('#slow tbody').textContent.includes('9')`)
	p.shot("task-slow.png", 900)
	p.quiet()
}

func TestTaskWhyThisMachineAndNotACheaperOne(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#search-q")
	p.typeText("a-c1-m00")
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "text": "\r"}, nil)
	p.click("#list tbody a", "a-c1-m00")
	p.says("#drawer h2", "a-c1-m00")
	p.says("#drawer section", "Why not a cheaper one")
	p.until("why the spot machines are dearer, or who has them", `(() => {
		const rows = [...document.querySelectorAll('#drawer [data-key=cheaper] tbody tr')].map((r) => r.textContent);
		return rows.some((r) => r.startsWith('16') && /interruptions make it cost|serves/.test(r));
	})()`)
	p.shot("task-cheaper.png", 900)
	p.quiet()
}

func TestTaskWhatChangedBetweenTwoCycles(t *testing.T) {
	p, f := fleetPage(t)
	before := f.Now()
	f.Report("web", nil)
	for range 4 {
		f.Step()
	}
	p.click(".tabs a", "Changes")
	p.until("cycles to choose from", `document.querySelector('#changes-from')?.options.length > 10`)
	p.choose("#changes-from", millis(before))
	p.says("#changed-actions", "Reclaim")
	p.says("#changed-machines", "Configured in web")
	var totals string
	p.until("Needs fewer", `/Needs 8 → 7/.test(document.querySelector('#compare .sums')?.textContent)`)
	if p.must(`document.querySelector('#compare .sums').textContent`, &totals); !regexp.MustCompile(`over 4 cycles`).MatchString(totals) {
		t.Errorf("the sums say %q", totals)
	}
	p.shot("task-changes.png", 900)
	p.quiet()
}

// TestTaskTheTopUnmetNeed: why, and what would help.
func TestTaskTheTopUnmetNeed(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#unmet tbody tr:first-child td.num")
	p.says("#drawer h2", "research/1")
	p.says("#drawer .funnel", "do not meet a requirement")
	p.says("#drawer [data-key=help]", "Add such machines or quota, or relax the requirements.")
	p.shot("task-need.png", 900)
	p.quiet()
}
