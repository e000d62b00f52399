package e2e

import (
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
)

// fleetPage opens the page of a fleet in contention.
func fleetPage(t *testing.T) (*page, *viewtest.Fleet) {
	t.Helper()
	p := open(t)
	f := viewtest.Contended(t, time.Now().Add(-time.Minute))
	p.size(1280, 900, "light")
	p.visit(serveSite(t, f.Site()))
	p.until("the charts", drawn)
	return p, f
}

func TestTheVerdictIsTheFirstSentence(t *testing.T) {
	p, _ := fleetPage(t)
	p.says("#verdict", "4 Needs of 8 are short, mostly V100; no machine fits 3 of them.4 more machines like a-r1-m00 (a3-highgpu-8g, on demand, $48.00/h for all 4) would satisfy nightly.")
	p.says("#unmet tbody", "volta")
	p.until("verdict and names above the fold", `document.querySelector('#verdict').getBoundingClientRect().bottom < document.querySelector('#unmet').getBoundingClientRect().top
		&& [...document.querySelectorAll('#unmet tbody tr')].filter((r) => r.getBoundingClientRect().bottom < innerHeight).length === 4`)
	p.shot("contended-1280-light.png", 900)
	p.quiet()
}

// TestEverythingHasAnAddress: what is open and filtered stands in the address; a reload and the browser's
// buttons bring it back.
func TestEverythingHasAnAddress(t *testing.T) {
	p, f := fleetPage(t)
	const hash = `decodeURIComponent(location.hash)`
	p.click("#unmet td.id a", "volta")
	p.says("#drawer h2", "volta")
	p.says("#drawer .funnel", "gpu-model in V100")
	p.until("its address", hash+`.startsWith('#/overview?open=need/volta~')`)
	p.click("#drawer dd a", "research")
	p.says("#drawer h2", "research")
	p.says("#drawer .kind", "Cluster")
	p.must(`history.back()`, nil)
	p.says("#drawer h2", "volta")
	p.loads(func() { p.must(`setTimeout(() => location.reload())`, nil) })
	p.says("#drawer h2", "volta")
	p.must(`history.back()`, nil)
	p.until("the drawer to close", `document.querySelector('#drawer').hidden`)
	p.must(`history.forward()`, nil)
	p.says("#drawer h2", "volta")
	p.click("#drawer .close")
	p.until("the drawer to close", `document.querySelector('#drawer').hidden && `+hash+` === '#/overview'`)

	p.click("#unmet input")
	p.typeText("batch")
	p.until("the filter", `document.querySelectorAll('#unmet tbody tr').length === 1 && `+hash+` === '#/overview?q=batch'`)
	p.loads(func() { p.must(`setTimeout(() => location.reload())`, nil) })
	p.until("the filter after a reload", `document.querySelectorAll('#unmet tbody tr').length === 1 && document.querySelector('#unmet input').value === 'batch'`)

	for address, says := range map[string]string{
		"#/machine/a-r2-m00": "serves llm", "#/cluster/web": "all satisfied", "#/tenant/science": "320 % of its share",
		"#/domain/topology.kubernetes.io/rack=a-r2": "16 machines", "#/plan/1": "Takes 8 machines in a-r2", "#/need/train/0": "by 16 machines",
	} {
		p.must(`location.hash = '`+address+`'`, nil)
		p.says("#drawer .card", says)
	}
	p.quiet()
	p.must(`location.hash = '#/machine/none'`, nil)
	p.says("#drawer .refused", `there is no machine "none"`)
	f.Step()
	p.forget() // a 404 is the browser's to report
}

// TestASelectionSurvivesAFrame: rows are kept from frame to frame, so that a text that is selected, a focus
// and a click that has begun stay where they are.
func TestASelectionSurvivesAFrame(t *testing.T) {
	p, f := fleetPage(t)
	p.says("#unmet tbody", "volta-2")
	p.must(`(() => {
		window.row = [...document.querySelectorAll('#unmet tbody tr')].find((r) => r.textContent.includes('volta-2'));
		row.querySelector('a').focus();
		getSelection().selectAllChildren(row.querySelector('td.wide'));
	})()`, nil)
	var before string
	p.must(`document.querySelector('#tile-uptime .below').textContent`, &before)
	for range 3 {
		f.Step()
	}
	p.until("other figures", `document.querySelector('#tile-uptime .below').textContent !== '`+before+`' && !row.textContent.includes('7s')`)
	p.until("the same row, selection and focus", `row.isConnected && String(getSelection()).includes('V100') && document.activeElement === row.querySelector('a')`)
	var at struct{ X, Y float64 }
	p.must(`(() => { getSelection().removeAllRanges(); const b = row.querySelector('td.num').getBoundingClientRect(); return { X: b.left + 5, Y: b.top + 5 }; })()`, &at)
	p.do("Input.dispatchMouseEvent", map[string]any{"type": "mousePressed", "x": at.X, "y": at.Y, "button": "left", "buttons": 1, "clickCount": 1}, nil)
	f.Step()
	p.until("the frame in between", `document.querySelector('#tile-uptime .below').textContent === 'cycle 12'`)
	p.do("Input.dispatchMouseEvent", map[string]any{"type": "mouseReleased", "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	p.says("#drawer h2", "volta-2")
	p.quiet()
}

// TestThePastOfANeedThatGoesBackAndForth: changes between two reasons, three or more, are one line; others stay apart.
func TestThePastOfANeedThatGoesBackAndForth(t *testing.T) {
	p, _ := fleetPage(t)
	for steps, want := range map[string]string{
		"pq qp pq qp xp x": "pq+qp+pq+qp xp",
		"pq qp x":          "pq qp",
		"pq rp qr pq":      "pq rp qr pq",
		"sp ps sp bs":      "sp+ps+sp bs",
	} {
		var got string
		p.must(`import('/needcard.js').then((m) => m.runs('`+steps+`'.split(' ').filter((s) => s.length === 2).map((s) => ({ from: s[0], to: s[1] })))
			.map((run) => run.map((e) => e.from + e.to).join('+')).join(' '))`, &got)
		if got != want {
			t.Errorf("%s: %s, want %s", steps, got, want)
		}
	}
	p.quiet()
}
