package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/web"
	"github.com/tonnage/tonnage/web/webtest"
)

// synthetic serves the page of a made-up fleet with some history, and returns
// its address and the function that publishes the next cycle.
func synthetic(t *testing.T, machines, clusters, cycles int) (url string, next func()) {
	t.Helper()
	started := time.Now().Add(-time.Duration(cycles) * time.Second)
	feed := web.NewFeed(web.Info{
		Version: "test", Source: "a made-up fleet", Provider: "nothing is provided",
		Started: started, CycleInterval: time.Second,
	})
	fleet := webtest.New(1, machines, clusters, started)
	next = func() { feed.Publish(fleet.Next()) }
	for range cycles {
		next()
	}
	return serve(t, feed), next
}

func serve(t *testing.T, feed *web.Feed) string {
	t.Helper()
	return serveSite(t, web.New(web.Config{Feed: feed, Metrics: prometheus.NewRegistry()}))
}

// serveSite serves a site on a free port until the test ends.
func serveSite(t *testing.T, site *web.Site) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- site.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

const drawn = `document.querySelector('#live').dataset.mood === 'ok' && document.querySelectorAll('#machines path.area').length > 0`

// sideways is how far the page can be scrolled to the side, in pixels.
const sideways = `document.documentElement.scrollWidth - document.documentElement.clientWidth`

func TestThePageOfALargeFleetFitsEveryScreenAndTheme(t *testing.T) {
	p := open(t)
	url, next := synthetic(t, 57_000, 200, 420)
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			p.size(width, 900, scheme)
			p.visit(url)
			next()
			p.until("the charts", drawn)
			var over int
			if p.must(sideways, &over); over != 0 {
				t.Errorf("%d px, %s: the page scrolls sideways by %d px", width, scheme, over)
			}
			var dark bool
			p.must(`getComputedStyle(document.body).backgroundColor !== 'rgb(243, 245, 248)'`, &dark)
			if dark != (scheme == "dark") {
				t.Errorf("%d px: the system asks for %s, dark = %v", width, scheme, dark)
			}
			p.shot(fmt.Sprintf("large-%d-%s.png", width, scheme), 0)
		}
	}
	p.quiet()
}

func TestThePageExplainsWhatIsEmpty(t *testing.T) {
	p := open(t)
	feed := web.NewFeed(web.Info{Version: "test", Started: time.Now(), CycleInterval: time.Second})
	p.size(1280, 900, "light")
	p.visit(serve(t, feed))
	p.until("the first words", `document.querySelectorAll('.empty').length >= 5`)
	p.shot("empty-1280-light.png", 0)
	feed.Publish(web.Frame{Cycle: 1, At: time.Now().UnixMilli(), Mode: web.ModePaused})
	p.until("the words of an empty fleet", `document.querySelector('#unmet .empty').textContent.includes('No cluster has reported')`)
	p.until("the badge", `document.querySelector('#mode').textContent === 'paused' && !document.querySelector('#mode').hidden`)
	p.quiet()
}

func TestThePageTellsWhenTheProcessStopsAndComesBack(t *testing.T) {
	t.Parallel()
	p := open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	stop := serveOn(t, l, 3)
	p.size(1280, 900, "light")
	p.visit("http://" + address)
	p.until("a living page", `document.querySelector('#live').textContent === 'live'`)
	stop()
	p.until("the word that it stopped", `document.querySelector('#live').dataset.mood === 'bad'`)
	p.mu.Lock()
	p.complaints = nil // a refused connection is the browser's to report
	p.mu.Unlock()
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer serveOn(t, l, 5)()
	p.until("the page to come back", `document.querySelector('#live').textContent === 'live' && document.querySelector('#tile-uptime .below').textContent === 'cycle 5'`)
}

// TestAPageThatWasLeftLetsItsStreamGo: browsers open few connections to one host; when somebody comes back, the page goes on.
func TestAPageThatWasLeftLetsItsStreamGo(t *testing.T) {
	p, f := fleetPage(t)
	p.until("a living page", `document.querySelector('#live').textContent === 'live'`)
	const below = `document.querySelector('#tile-uptime .below').textContent`
	p.until("the cycle", below+` === 'cycle 8'`)
	p.must(`dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))`, nil)
	f.Step()
	var kept string
	p.must(`fetch('/api/state').then((a) => a.json()).then((s) => (s.frame.cycle === 9 ? `+below+` : 'not yet'))`, &kept)
	if kept != "cycle 8" {
		t.Errorf("after it was left the page shows %q", kept)
	}
	p.must(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`, nil)
	p.until("the page to go on", below+` === 'cycle 9' && document.querySelector('#live').textContent === 'live'`)
	f.Step()
	p.until("the next cycle", below+` === 'cycle 10'`)
	p.quiet()
}

// serveOn serves some cycles of a small fleet and returns the function that
// stops it.
func serveOn(t *testing.T, l net.Listener, cycles int) (stop func()) {
	t.Helper()
	feed := web.NewFeed(web.Info{Version: "test", Started: time.Now(), CycleInterval: time.Second})
	fleet := webtest.New(1, 300, 2, time.Now().Add(-time.Minute))
	for range cycles {
		feed.Publish(fleet.Next())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- web.New(web.Config{Feed: feed}).Serve(ctx, l, nil) }()
	return func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}
