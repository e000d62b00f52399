package kubee2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// Sizes of the picture, in its own units.
const (
	pictureWidth  = 1000
	panelHeight   = 150
	panelGap      = 45
	pictureMargin = 60
)

// sample is what was counted at one moment.
type sample struct {
	at      time.Duration
	pods    []int // by cluster
	running []int
	nodes   []int
	states  map[pb.MachineState]int
	more    []int // of further panels
}

// panelOf is a panel beside those of clusters and machines.
type panelOf struct {
	title string
	lines []line
}

// recorder counts everything twice a second, for the picture.
type recorder struct {
	f     *fleet
	begun time.Time

	file    string
	mu      sync.Mutex
	samples []sample
	marks   []mark
	panels  []panelOf
	more    func() []int // what further panels show; nil = nothing
}

type mark struct {
	at   time.Duration
	text string
}

func newRecorder(f *fleet) *recorder {
	r := &recorder{f: f, begun: time.Now(), file: picture(f.t)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				r.count()
			}
		}
	})
	// A run that failed is looked at with the same picture.
	f.t.Cleanup(func() { cancel(); running.Wait(); r.write() })
	return r
}

func (r *recorder) count() {
	s := sample{at: time.Since(r.begun), states: r.f.maker.states()}
	for _, w := range r.f.watches {
		pods, nodes := w.counts()
		s.pods, s.nodes, s.running = append(s.pods, pods), append(s.nodes, nodes), append(s.running, w.running(""))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more != nil {
		s.more = r.more()
	}
	r.samples = append(r.samples, s)
}

// show adds panels, of what more counts at each moment.
func (r *recorder) show(panels []panelOf, more func() []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.panels, r.more = panels, more
}

// nth is a figure of further panels.
func nth(i int) func(*sample) int {
	return func(s *sample) int {
		if i >= len(s.more) {
			return 0
		}
		return s.more[i]
	}
}

// mark puts a word on the picture where the run is now.
func (r *recorder) mark(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, mark{time.Since(r.begun), text})
	r.f.t.Logf("%6.1f s: %s", time.Since(r.begun).Seconds(), text)
}

// line is one curve of a panel.
type line struct {
	name, colour string
	of           func(*sample) int
}

// write draws the picture.
func (r *recorder) write() {
	if r.file == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	panels := len(r.f.clusters) + 1 + len(r.panels)
	height := panels*(panelHeight+panelGap) + pictureMargin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", pictureWidth+2*pictureMargin, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for i, c := range r.f.clusters {
		r.panel(&b, i, "cluster "+c.name, []line{
			{"pods", "#999999", func(s *sample) int { return s.pods[i] }},
			{"running", "#1b7837", func(s *sample) int { return s.running[i] }},
			{"nodes", "#2166ac", func(s *sample) int { return s.nodes[i] }},
		})
	}
	for i, p := range r.panels {
		r.panel(&b, len(r.f.clusters)+1+i, p.title, p.lines)
	}
	r.panel(&b, len(r.f.clusters), "machines of the provider", []line{
		{"Speculative", "#bbbbbb", of(pb.MachineState_MACHINE_STATE_SPECULATIVE)}, {"Creating", "#e08214", of(pb.MachineState_MACHINE_STATE_CREATING)},
		{"Idle", "#5aae61", of(pb.MachineState_MACHINE_STATE_IDLE)}, {"Configuring", "#9970ab", of(pb.MachineState_MACHINE_STATE_CONFIGURING)},
		{"Configured", "#2166ac", of(pb.MachineState_MACHINE_STATE_CONFIGURED)}, {"Draining", "#b2182b", of(pb.MachineState_MACHINE_STATE_DRAINING)},
		{"Failed", "#000000", of(pb.MachineState_MACHINE_STATE_FAILED)},
	})
	b.WriteString("</svg>\n")
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		r.f.t.Error(err)
		return
	}
	if err := os.WriteFile(r.file, []byte(b.String()), 0o644); err != nil {
		r.f.t.Error(err)
	}
}

func of(state pb.MachineState) func(*sample) int {
	return func(s *sample) int { return s.states[state] }
}

// panel draws the curves of one panel, with the marks of the run.
func (r *recorder) panel(b *strings.Builder, place int, title string, lines []line) {
	if len(r.samples) == 0 {
		return
	}
	last := r.samples[len(r.samples)-1].at.Seconds()
	top := 1
	for i := range r.samples {
		for _, l := range lines {
			top = max(top, l.of(&r.samples[i]))
		}
	}
	y0 := place*(panelHeight+panelGap) + 30
	x := func(at time.Duration) float64 { return pictureMargin + at.Seconds()/last*pictureWidth }
	y := func(n int) float64 { return float64(y0) + panelHeight*(1-float64(n)/float64(top)) }
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text><text x="5" y="%d">%d</text><text x="5" y="%d">0</text>`+"\n", pictureMargin, y0-16, title, y0+8, top, y0+panelHeight)
	fmt.Fprintf(b, `<path d="M%d %d V%d H%d" fill="none" stroke="#444"/>`+"\n", pictureMargin, y0, y0+panelHeight, pictureMargin+pictureWidth)
	for step := time.Duration(0); step.Seconds() <= last; step += 30 * time.Second {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#777">%v s</text>`+"\n", x(step), y0+panelHeight+13, step.Seconds())
	}
	for i, m := range r.marks {
		fmt.Fprintf(b, `<path d="M%.1f %d V%d" stroke="#d0d0d0" stroke-dasharray="3 3"/>`, x(m.at), y0, y0+panelHeight)
		if place == 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#555">%s</text>`, x(m.at)+2, y0+8+10*(i%6), m.text)
		}
	}
	for i, l := range lines {
		fmt.Fprintf(b, `<polyline fill="none" stroke-width="1.5" stroke="%s" points="`, l.colour)
		for j := range r.samples {
			fmt.Fprintf(b, "%.1f,%.1f ", x(r.samples[j].at), y(l.of(&r.samples[j])))
		}
		fmt.Fprintf(b, `"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n", pictureMargin+220+i*95, y0-16, l.colour, l.name)
	}
}
