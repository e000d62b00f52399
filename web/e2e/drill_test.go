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
	p.says("#verdict", "4 Needs of 8 are short, mostly V100; 3 are unlike any machine.")
	p.says("#unmet tbody", "research/1")
	p.until("verdict and names above the fold", `document.querySelector('#verdict').getBoundingClientRect().bottom < document.querySelector('#unmet').getBoundingClientRect().top
		&& [...document.querySelectorAll('#unmet tbody tr')].filter((r) => r.getBoundingClientRect().bottom < innerHeight).length === 4`)
	p.shot("contended-1280-light.png", 900)
	p.quiet()
}
