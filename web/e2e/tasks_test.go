package e2e

import (
	"regexp"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
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
		return row && row.cells[1].textContent.endsWith('of batch') && row.cells[1].textContent.startsWith('nightly') && row.cells[3].textContent.startsWith('llmof train') && row.cells[5].textContent.startsWith('8 machines');
	})()`)
	p.click("#preempted tbody td.num a", "1")
	p.says("#drawer h2", "Plan 1: llm takes 8 machines in a-r2")
	p.says("#drawer table", "nightly")
	p.says("#drawer .card", "Takes 8 machines in a-r2 for llm")
	p.says("#preempted .now", "8 preemptions of 8 machines")
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
	p.says("#domains .lead", "1 domain could hold it now; 7 of 7 could")
	p.says("#domains tbody tr:nth-child(2)", "by preemption, with a priority above 10")
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
		return card.includes('Without its 48 machines') && card.includes('1 Need would change') && card.includes('llm');
	})()`)
	p.shot("task-zone.png", 900)
	p.quiet()
}

// TestTaskWhatALostZoneWouldDoAsAForm: the same, asked on the view for such questions, together with machines that come.
func TestTaskWhatALostZoneWouldDoAsAForm(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "What if")
	p.until("the keys", `document.querySelector('#whatif-key')?.options.length === 4`)
	p.choose("#whatif-key", "topology.kubernetes.io/zone")
	p.until("the zones", `document.querySelector('#whatif-value').options.length === 4`)
	p.choose("#whatif-value", "a")
	p.click("#whatif-form button", "Try it")
	p.says("#outcome .lead", "Without zone a (48 machines), 1 Need would no longer be satisfied")
	p.says("#outcome tbody", "llm")
	p.says("#outcome .loss", "Needs satisfied")
	p.shot("task-zone-form.png", 900)
	p.until("the kinds", `document.querySelector('#whatif-add').options.length > 4`)
	p.choose("#whatif-add", "a3-highgpu-8g/OnDemand")
	p.click("#whatif-count")
	p.must(`document.querySelector('#whatif-count').select()`, nil)
	p.typeText("40")
	p.click("#whatif-form button", "Try it")
	p.says("#outcome .lead", "With 40 more machines like a3-highgpu-8g/OnDemand and without zone a (48 machines)")
	p.quiet()
}

// TestWhatSomebodyChoosesStays: choices that come later do not fill the form anew.
func TestWhatSomebodyChoosesStays(t *testing.T) {
	p, _ := fleetPage(t)
	p.must(`(() => {
		const ask = fetch;
		const kinds = new Promise((come) => { globalThis.kindsCome = come; });
		globalThis.fetch = async (what, ...how) => { if (String(what).includes('/kinds')) await kinds; return ask(what, ...how); };
	})()`, nil)
	p.click(".tabs a", "What if")
	p.until("the keys", `document.querySelector('#whatif-key')?.options.length === 4`)
	p.choose("#whatif-key", "topology.kubernetes.io/zone")
	p.click("#whatif-need")
	p.typeText("nightly")
	p.must(`kindsCome()`, nil)
	p.until("the kinds", `document.querySelector('#whatif-add').options.length > 4`)
	p.until("the choice to stay", `document.querySelector('#whatif-key').value === 'topology.kubernetes.io/zone' && document.querySelector('#whatif-need').value === 'nightly'`)
	p.quiet()
}

func TestTaskWhichTenantIsAboveItsShare(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Clusters")
	p.says("#tenants tbody tr:first-child", "science")
	p.says("#tenants tbody tr:first-child", "above 320 %")
	p.says("#tenants tbody tr:first-child", "GPU (nvidia.com): 384 of its 120")
	p.until("the other within", `!document.querySelector('#tenants tbody tr:nth-child(2)').textContent.includes('above')`)
	p.quiet()
}

func TestTaskWhichMachinesIdleAndWhatTheyCost(t *testing.T) {
	p, _ := fleetPage(t)
	p.click(".tabs a", "Money")
	p.says("#sums .lead", "of what you pay is for idle machines")
	p.until("sums of one moment", `(() => {
		const said = document.querySelector('#split')?.textContent ?? '';
		const [paid, ...parts] = [...said.matchAll(/([−+=:]) ?\$([\d,.]+)/g)].map((m) => Number(m[2].replaceAll(',', '')) * (m[1] === '−' ? -1 : 1));
		return /^As of .*\d\d:\d\d:\d\d: /.test(said) && parts.length > 1 && Math.abs(paid - parts.reduce((a, b) => a + b)) < 1.6;
	})()`)
	p.says("#bill .lead", "than the least that machines for these Needs could cost")
	p.says("#bill tbody", "The least that it could be: the lower limit")
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
	p.says("#drawer section", "Why this one and not a cheaper one")
	p.says("#drawer .past", "Bootstrap: an idle machine that suits it, for shop of web")
	p.says("#drawer [data-key=chosen]", "If it were free now, the next cycle would bind it")
	p.says("#drawer [data-key=chosen]", "runner-up")
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

// TestTaskEveryNeedIsFound: satisfied ones too, by the number in the first sentence, in the list, by a text, from their cluster, and
// by a search.
func TestTaskEveryNeedIsFound(t *testing.T) {
	p, _ := fleetPage(t)
	const rows = `document.querySelectorAll('#needs tbody tr').length === `
	p.click("#verdict a", "8")
	p.says("#needs .now", "8 Needs, highest priority first")
	p.until("all of them", rows+`8`)
	p.says("#needs tbody tr:first-child", "llm")
	p.says("#needs tbody tr:first-child", "satisfied")
	p.choose("#needs-state", "satisfied")
	p.says("#needs .now", "4 of 8 Needs")
	p.until("those that are satisfied", rows+`4 && location.hash === '#/needs?state=satisfied'`)
	p.click("#needs input")
	p.typeText("shop")
	p.until("one of them", rows+`1`)
	p.click("#needs tbody td.num")
	p.says("#drawer h2", "shop")
	p.says("#drawer .lead", "satisfied")
	p.click("#drawer dd a", "web")
	p.click("#drawer .more a", "Its Needs")
	p.until("those of the cluster", rows+`1 && location.hash === '#/needs?cluster=web'`)
	p.shot("task-needs.png", 900)
	p.click("#search-q")
	p.typeText("builds")
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "text": "\r"}, nil)
	p.click("#found tbody a", "builds")
	p.says("#drawer h2", "builds")
	p.quiet()
}

// TestTaskWhatARackCouldGiveAGang: whose the machines are that fit, and what is missing, of a gang that is short.
func TestTaskWhatARackCouldGiveAGang(t *testing.T) {
	p, f := fleetPage(t)
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 5, Requirements: []model.Requirement{{Key: "topology.kubernetes.io/rack", Operator: model.Same}}})
	if err != nil {
		t.Fatal(err)
	}
	gpus := func(n int64) model.Resources {
		return model.NewResources(model.Amount{Name: "nvidia.com/gpu", Value: n})
	}
	f.Report("lab", []model.Need{{Cluster: "lab", Group: "sweep", Profile: profile, Aggregate: gpus(128), MinUnit: gpus(8), Arrival: 1}})
	f.Step()
	p.click("#unmet td.id a", "lab/0")
	p.says("#drawer h4", "What each domain could give it")
	p.until("whose the machines are", `(() => {
		const [head, ...rows] = [...document.querySelectorAll('#drawer [data-key=why] table tr')].filter((r) => r.cells.length === 7);
		const row = rows.find((r) => r.cells[0].textContent === 'a-r2');
		return head?.textContent === 'DomainOwnFreeCould be takenOut of reachMissingVerdict' && row?.cells[4].textContent === '16' && row.cells[5].textContent === '128 GPUs';
	})()`)
	p.shot("task-rack.png", 1400)
	p.quiet()
}

// TestTaskTheTopUnmetNeed: why, and what would help.
func TestTaskTheTopUnmetNeed(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#unmet tbody tr:first-child td.num")
	p.says("#drawer h2", "volta")
	p.says("#drawer .says", "No machine meets its requirements: gpu-model in V100 leaves none.")
	p.says("#drawer .funnel .nearest", "no machine has this label")
	p.says("#drawer [data-key=help]", "Add machines or quota with gpu-model in V100, or relax this requirement.")
	p.click("#drawer [data-key=help] button", "Find what would help")
	p.says("#drawer .helps", "Without gpu-model in V100")
	p.says("#drawer [data-key=do]", "or of the Need in the file of tonnage demand apply")
	p.says("#drawer .card > .small code", "--help-me volta")
	p.says("#drawer .helps .losers", "nightly of batch, priority 10, loses 2 of its 20 machines")
	p.shot("task-need.png", 900)
	p.quiet()
}

// TestTaskWhatWouldSatisfyANeed: more machines with their price, a higher priority with who pays for it; and what would happen
// then, which is decided about.
func TestTaskWhatWouldSatisfyANeed(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#unmet td.id a", "nightly")
	p.says("#drawer .funnel", "of them serve llm of train, priority 5,000: out of reach")
	p.click("#drawer [data-key=help] button", "Find what would help")
	p.says("#drawer .helps", "more machines of a3-highgpu-8g, on demand")
	p.until("a price, a priority and who would lose", `(() => {
		const text = document.querySelector('#drawer .helps').textContent;
		return /\$\d+\.\d\d\/h more|\$\d+\/h more/.test(text) && /Priority \d+/.test(text) && /loses \d+ of its \d+ machines|is no longer satisfied/.test(text);
	})()`)
	p.shot("task-help.png", 1400)
	p.click("#drawer .helps .act", "What would happen")
	p.says("#outcome .lead", "1 Need would be satisfied")
	p.says("#outcome tbody", "nightly")
	p.shot("task-help-whatif.png", 900)
	p.quiet()
}

// TestTheFormOfANeedAsksWhatIf: its priority, as somebody types it.
func TestTheFormOfANeedAsksWhatIf(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#unmet td.id a", "nightly")
	p.says("#drawer .funnel", "of them are its own")
	p.click("#drawer form input[name=priority]")
	p.typeText("6000")
	p.click("#drawer form button", "Try it")
	p.says("#outcome .lead", "With priority 6,000 for nightly")
	p.until("the question in the address", `decodeURIComponent(location.hash) === '#/whatif?need=nightly&priority=6000'`)
	p.says("#outcome .lead", "1 Need would be satisfied as soon as machines have drained for it")
	p.says("#outcome .lead", "would lose machines")
	p.says("#outcome [data-key=losers] .small", "In the end 4 of 8 Needs are satisfied")
	p.until("only what differs", `document.querySelectorAll('#outcome .loss thead th').length === 3 && !document.querySelector('#outcome .loss').textContent.includes('Machines to buy')`)
	p.says("#outcome [data-key=losers] tbody", "of its 12 machines")
	p.until("the fields", `document.querySelector('#whatif-need').value === 'nightly' && document.querySelector('#whatif-priority').value === '6000'`)
	p.loads(func() { p.must(`setTimeout(() => location.reload())`, nil) })
	p.says("#outcome .lead", "With priority 6,000 for nightly")
	p.quiet()
}

// TestARequirementLessIsAsked: what would help by one has a link to the decision about it.
func TestARequirementLessIsAsked(t *testing.T) {
	p, _ := fleetPage(t)
	p.click("#unmet td.id a", "volta-3")
	p.says("#drawer .funnel", "gpu-model in V100")
	p.click("#drawer button", "Find what would help")
	p.says("#drawer [data-key^=leave]", "gpu-model in V100")
	p.click("#drawer [data-key^=leave] a", "What would happen")
	p.says("#outcome .lead", "Without the requirement of volta-3 on gpu-model, 1 Need would be satisfied")
	p.until("the fields", `document.querySelector('#whatif-need').value === 'volta-3' && document.querySelector('#whatif-relax').value === 'gpu-model'`)
	p.quiet()
}
