package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/web"
)

// views are the tabs, and each kind of thing that can be open.
var views = []struct{ name, address, shown string }{
	{"overview", "#/overview", `document.querySelectorAll('#unmet tbody tr').length > 0`},
	{"needs", "#/needs", `document.querySelectorAll('#needs tbody tr').length > 7`},
	{"fleet", "#/fleet?hold=16", `(globalThis.tonnageFrames?.get('map') ?? []).length > 0 && document.querySelectorAll('#domains tbody tr').length > 0`},
	{"clusters", "#/clusters", `document.querySelectorAll('#tenants tbody tr').length > 0 && document.querySelectorAll('#clusters tbody tr').length > 0`},
	{"money", "#/money", `document.querySelectorAll('#idle tbody tr').length > 0`},
	{"changes", "#/changes", `document.querySelectorAll('#compare tbody tr').length > 0 && document.querySelectorAll('#preempted tbody tr').length > 0`},
	{"whatif", "#/whatif?key=topology.kubernetes.io/zone&value=a&need=nightly&priority=6000&add=a3-highgpu-8g/OnDemand&count=3", `document.querySelectorAll('#outcome .loss tbody tr').length > 6 && document.querySelector('#whatif-value').value === 'a'`},
	{"engine", "#/engine?over=10", `document.querySelectorAll('#cycle path.area').length > 0 && document.querySelector('#slow .empty, #slow tbody')`},
	{"search", "#/search?q=r1", `document.querySelectorAll('#list tbody tr').length > 0`},
	{"need", "#/overview?open=need/volta", `document.querySelector('#drawer .funnel')`},
	{"help", "#/overview?open=need/nightly", helped},
	{"gang", "#/overview?open=need/llm", `document.querySelector('#drawer .funnel')`},
	{"machine", "#/fleet?open=machine/a-r2-m00", `document.querySelector('#drawer [data-key=why] p a')`},
	{"cluster", "#/clusters?open=cluster/research", `document.querySelector('#drawer section')`},
	{"tenant", "#/clusters?open=tenant/science", `document.querySelector('#drawer section')`},
	{"domain", "#/fleet?open=domain/topology.kubernetes.io/rack=a-r2", `document.querySelector('#drawer section')`},
	{"plan", "#/changes?open=plan/1", `document.querySelector('#drawer img')?.naturalWidth > 0`},
}

// helped opens a Need and asks what would help it, so that the answer is on the picture.
const helped = `(() => {
	const button = document.querySelector('#drawer [data-help]');
	if (button && !document.querySelector('#drawer .helps') && !button.disabled) button.click();
	return document.querySelector('#drawer .helps') !== null;
})()`

// TestEveryViewFitsEveryScreenAndTheme: nothing scrolls sideways, and the console stays silent.
func TestEveryViewFitsEveryScreenAndTheme(t *testing.T) {
	p, f := fleetPage(t)
	f.Slow(5 * time.Millisecond)
	for _, x := range []struct {
		width, height int
		scheme        string
	}{{1280, 900, "light"}, {1280, 900, "dark"}, {390, 844, "light"}, {390, 844, "dark"}} {
		p.size(x.width, x.height, x.scheme)
		for _, v := range views {
			what := fmt.Sprintf("%s, %d px, %s", v.name, x.width, x.scheme)
			p.must(`location.hash = '`+v.address+`'`, nil)
			p.until(what, v.shown)
			var over int
			if p.must(sideways, &over); over != 0 {
				t.Errorf("%s: the page scrolls sideways by %d px", what, over)
			}
			if p.must(`(() => { const d = document.querySelector('#drawer'); return d.hidden ? 0 : d.scrollWidth - d.clientWidth; })()`, &over); over != 0 {
				t.Errorf("%s: the drawer scrolls sideways by %d px", what, over)
			}
			p.shot(fmt.Sprintf("view-%s-%d-%s.png", v.name, x.width, x.scheme), x.height)
		}
	}
	p.quiet()
}

// screens are those on which the checker of accessibility looks. Colours depend on the scheme, and what is there on the width: the first two
// show both of each.
var screens = []struct {
	width  int
	scheme string
}{{1280, "light"}, {390, "dark"}, {1280, "dark"}, {390, "light"}}

// states are what views can come to besides what their address shows.
var states = []struct{ name, address, do, shown string }{
	{"tables of charts", "#/engine", `document.querySelectorAll('.twin').forEach((e) => { e.open = true; })`, `document.querySelectorAll('#cycle .twin tbody tr').length > 0`},
	{"a filter that finds nothing", "#/overview?q=nothing", ``, `document.querySelector('#unmet .body .empty')`},
	{"Needs that are satisfied", "#/needs?state=satisfied&cluster=web", ``, `document.querySelectorAll('#needs tbody tr').length === 1`},
	{"a reason alone", "#/overview?reason=priority_starved", ``, `document.querySelectorAll('#unmet tbody tr').length === 1`},
	{"a lost domain", "#/fleet?open=domain/topology.kubernetes.io/zone=a", `if (!document.querySelector('#drawer .loss')) document.querySelector('#drawer [data-ask]')?.click()`, `document.querySelectorAll('#drawer .loss tbody tr').length > 3`},
	{"labels", "#/fleet?open=machine/a-r2-m00", `document.querySelector('#drawer details')?.setAttribute('open', '')`, `document.querySelector('#drawer details[open] li')`},
	{"a spot machine", "#/fleet?open=machine/c-c2-m00", ``, `document.querySelector('#drawer [data-key=why]')`},
	{"the squares of one cluster", "#/fleet?owner=web", ``, `document.querySelector('#map .chip[aria-current]')`},
	{"an empty question", "#/whatif", ``, `document.querySelector('#outcome .empty')`},
	{"cycles that were not slow", "#/engine?over=1000", ``, `document.querySelector('#slow .empty')`},
	{"nothing found", "#/search?q=nothing", ``, `document.querySelector('#list .empty')`},
	{"what is not there", "#/overview?open=need/none", ``, `document.querySelector('#drawer .refused')`},
	{"a question that is refused", "#/whatif?key=none&value=a", ``, `document.querySelector('#outcome .refused')`},
	{"held", "#/overview", `document.querySelector('#hold').getAttribute('aria-pressed') === 'true' || document.querySelector('#hold').click()`, `document.querySelector('#hold').textContent === 'Resume'`},
}

func TestEveryViewIsAccessible(t *testing.T) {
	findChromium(t)
	script := axe(t)
	p, f := fleetPage(t)
	f.Slow(5 * time.Millisecond)
	looked, all := screens[:2], os.Getenv(largeVariable) != ""
	if all {
		looked = screens
	}
	for _, x := range looked {
		p.size(x.width, 900, x.scheme)
		for _, v := range views {
			p.must(`location.hash = '`+v.address+`'`, nil)
			p.until(v.name, v.shown)
			p.accessible(fmt.Sprintf("%s, %d px, %s", v.name, x.width, x.scheme), script)
		}
	}
	p.quiet()
	for k, x := range looked {
		p.size(x.width, 900, x.scheme)
		for i, v := range states {
			if !all && i%len(looked) != k {
				continue // each on one screen
			}
			p.must(`location.hash = '`+v.address+`'`, nil)
			p.until(v.name, `(() => { `+v.do+`; return `+v.shown+`; })()`)
			p.accessible(fmt.Sprintf("%s, %d px, %s", v.name, x.width, x.scheme), script)
			p.shot(fmt.Sprintf("state-%s-%d-%s.png", strings.ReplaceAll(v.name, " ", "-"), x.width, x.scheme), 900)
		}
		p.must(`document.querySelector('#hold').getAttribute('aria-pressed') === 'true' && document.querySelector('#hold').click()`, nil)
	}
	p.forget() // what is refused is the browser's to report
}

// TestAPageWithoutDataIsAccessible: before the first cycle, and of a process that answers no questions.
func TestAPageWithoutDataIsAccessible(t *testing.T) {
	findChromium(t)
	script := axe(t)
	p := open(t)
	feed := web.NewFeed(web.Info{Version: "test", Started: time.Now(), CycleInterval: time.Second})
	url := serve(t, feed)
	for _, x := range screens[:2] {
		p.size(x.width, 900, x.scheme)
		p.visit(url)
		p.until("the first words", `document.querySelectorAll('.empty').length >= 5`)
		for _, tab := range []string{"overview", "needs", "fleet", "clusters", "money", "changes", "whatif", "engine", "search?q=x"} {
			p.must(`location.hash = '#/`+tab+`'`, nil)
			p.until(tab, `!document.querySelector('[data-view='+'`+strings.TrimSuffix(tab, "?q=x")+`'+']').hidden`)
			p.accessible(fmt.Sprintf("%s without data, %d px, %s", tab, x.width, x.scheme), script)
			p.shot(fmt.Sprintf("bare-%s-%d-%s.png", strings.TrimSuffix(tab, "?q=x"), x.width, x.scheme), 900)
		}
	}
}
