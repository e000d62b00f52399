package e2e

import (
	"io"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world/worldtest"
	"github.com/tonnage/tonnage/web"
)

const contended = `
machines:
- {id: v-1, state: Configured, cluster: v, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: low, group: g}}
- {id: v-2, state: Configured, cluster: v, resources: {gpu: 8}, labels: {rack: r1}, assigned: {priority: 1, need: low, group: g}}
needs:
- {name: low, cluster: v, priority: 1, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: g, requirements: [{key: rack, operator: Same}]}
- {name: top, cluster: t, priority: 1000, aggregate: {gpu: 16}, minUnit: {gpu: 8}, group: t, requirements: [{key: rack, operator: Same}]}
`

// drawing decides about a world and returns the picture of its plan.
func drawing(t *testing.T) *whatif.Drawing {
	t.Helper()
	in, plan := worldtest.Decide(t, contended)
	list := whatif.DrawingsOf(in, plan, whatif.Words{Profile: func(*model.Profile) string { return "two whole machines" }})
	if len(list) != 1 {
		t.Fatalf("%d plans, want 1", len(list))
	}
	return &list[0]
}

// TestAPreemptLeadsToThePictureOfItsPlan: the browser follows the link of the
// action, draws what it finds there, and the policy lets the picture have its
// colours.
func TestAPreemptLeadsToThePictureOfItsPlan(t *testing.T) {
	p := open(t)
	picture := drawing(t)
	feed := web.NewFeed(web.Info{Version: "test", Started: time.Now(), CycleInterval: time.Second})
	site := web.New(web.Config{Feed: feed, Plan: func(number uint64, out io.Writer) (bool, error) {
		return number == 7, picture.WriteSVG(out)
	}})
	url := serveSite(t, site)
	feed.Publish(web.Frame{Cycle: 1, At: time.Now().UnixMilli(), Did: []web.Action{
		{Kind: "Bootstrap", Machine: "b-1", Cluster: "t", Reason: "phase1.idle"},
		{Kind: "Preempt", Count: 2, Machine: "v-1", Cluster: "t", From: "v", Reason: "phase2.preempt", Plan: 7},
	}})
	p.size(1280, 900, "light")
	p.visit(url)
	p.until("one link, in the row of the Preempt", `(() => {
		const links = [...document.querySelectorAll('#recent tbody a')].filter((a) => /^plan \d+$/.test(a.textContent));
		return links.length === 1 && links[0].closest('tr').textContent.includes('Preempt') && new URL(links[0].href).hash === '#/overview?open=plan/7';
	})()`)
	p.visit(url + "/plans/7")
	p.until("the picture", `document.documentElement.tagName === 'svg' && document.documentElement.textContent.includes('two whole machines of cluster ttakes 2 machines in rack r1')`)
	p.until("the domain that was tried", `document.documentElement.textContent.includes('r1: chosen (2 machines, 1 gang)')`)
	p.until("its colours", `getComputedStyle(document.querySelector('rect.r7')).fill === 'rgb(164, 14, 38)'`)
	p.shot("plan-1280-light.png", 0)
	p.quiet()
}
