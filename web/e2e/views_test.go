package e2e

import (
	"fmt"
	"testing"
	"time"
)

// views are the tabs, and each kind of thing that can be open.
var views = []struct{ name, address, shown string }{
	{"overview", "#/overview", `document.querySelectorAll('#unmet tbody tr').length > 0`},
	{"fleet", "#/fleet?hold=16", `(globalThis.tonnageFrames?.get('map') ?? []).length > 0 && document.querySelectorAll('#domains tbody tr').length > 0`},
	{"clusters", "#/clusters", `document.querySelectorAll('#tenants tbody tr').length > 0 && document.querySelectorAll('#clusters tbody tr').length > 0`},
	{"money", "#/money", `document.querySelectorAll('#idle tbody tr').length > 0`},
	{"changes", "#/changes", `document.querySelectorAll('#compare tbody tr').length > 0 && document.querySelectorAll('#preempted tbody tr').length > 0`},
	{"engine", "#/engine?over=10", `document.querySelectorAll('#cycle path.area').length > 0 && document.querySelector('#slow .empty, #slow tbody')`},
	{"search", "#/search?q=r1", `document.querySelectorAll('#list tbody tr').length > 0`},
	{"need", "#/overview?open=need/research/1", `document.querySelector('#drawer .funnel')`},
	{"gang", "#/overview?open=need/train/0", `document.querySelector('#drawer .funnel')`},
	{"machine", "#/fleet?open=machine/a-r2-m00", `document.querySelector('#drawer [data-key=why] p a')`},
	{"cluster", "#/clusters?open=cluster/research", `document.querySelector('#drawer section')`},
	{"tenant", "#/clusters?open=tenant/science", `document.querySelector('#drawer section')`},
	{"domain", "#/fleet?open=domain/topology.kubernetes.io/rack=a-r2", `document.querySelector('#drawer section')`},
	{"plan", "#/changes?open=plan/1", `document.querySelector('#drawer img')?.naturalWidth > 0`},
}

// TestEveryViewFitsEveryScreenAndTheme: nothing scrolls sideways, the console stays silent, and the checker of
// accessibility finds nothing.
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

func TestEveryViewIsAccessible(t *testing.T) {
	findChromium(t)
	script := axe(t)
	p, f := fleetPage(t)
	f.Slow(5 * time.Millisecond)
	// Colours depend on the scheme and what is there on the width: two passes see both of each.
	for _, x := range []struct {
		width  int
		scheme string
	}{{1280, "light"}, {390, "dark"}} {
		p.size(x.width, 900, x.scheme)
		for _, v := range views {
			p.must(`location.hash = '`+v.address+`'`, nil)
			p.until(v.name, v.shown)
			p.accessible(fmt.Sprintf("%s, %d px, %s", v.name, x.width, x.scheme), script)
		}
	}
	p.quiet()
}
