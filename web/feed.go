package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ClientsMax is how many pages may watch at the same time.
const ClientsMax = 64

// Feed holds what the page shows: the newest frame, the history and the last
// actions. Its methods may be called from any goroutine.
type Feed struct {
	info Info

	mu      sync.Mutex
	queries bool // the page may ask about single objects
	frame   Frame
	tiers   []*tier
	window  window
	recent  []Action // newest first
	names   []string // resources in the history, by slot
	event   []byte   // the frame's event, encoded when first asked for
	clients map[*client]struct{}
	closed  chan struct{}
}

// client is one watcher: its bell has one slot, so ringing never waits.
type client struct{ bell chan struct{} }

// NewFeed returns an empty feed.
func NewFeed(info Info) *Feed {
	info.Version, info.Provider = cut(info.Version, NameBytesMax), cut(info.Provider, TextBytesMax)
	info.Source = cut(info.Source, TextBytesMax)
	return &Feed{info: info, tiers: newTiers(), clients: map[*client]struct{}{}, closed: make(chan struct{})}
}

// answers notes that the page may ask about single objects.
func (f *Feed) answers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = true
}

// Publish makes a frame the newest one and wakes the clients. It never waits
// for any of them.
func (f *Feed) Publish(frame Frame) {
	frame.bound()
	if frame.At == 0 {
		frame.At = time.Now().UnixMilli()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	slots := f.slots(frame.Resources)
	for _, t := range f.tiers {
		t.add(&frame, slots, max(f.info.CycleInterval.Milliseconds(), 1))
	}
	f.window.add(&frame)
	f.remember(frame.Did, frame.At, frame.Cycle)
	frame.Did = nil
	f.frame, f.event = frame, nil
	for c := range f.clients {
		select {
		case c.bell <- struct{}{}:
		default: // it has not looked since the last ring: it will find this frame
		}
	}
}

// Quantiles returns the times of the last cycles.
func (f *Feed) Quantiles() Quantiles {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.window.quantiles()
}

// slots maps the frame's resources to their columns in the history, -1 when
// there is no column left. A name keeps its column for good.
func (f *Feed) slots(resources []Resource) []int {
	out := make([]int, len(resources))
	for i, r := range resources {
		out[i] = slices.Index(f.names, r.Name)
		if out[i] < 0 && len(f.names) < MaxResources {
			out[i] = len(f.names)
			f.names = append(f.names, r.Name)
		}
	}
	return out
}

// remember puts the cycle's actions before the older ones.
func (f *Feed) remember(did []Action, at int64, cycle uint64) {
	if len(did) == 0 {
		return
	}
	recent := make([]Action, 0, MaxRecent)
	for _, a := range slices.Backward(did) {
		if a.At == 0 {
			a.At = at
		}
		a.Cycle, a.Count = cycle, max(a.Count, 1)
		recent = append(recent, a)
	}
	f.recent = append(recent, f.recent[:min(len(f.recent), MaxRecent-len(recent))]...)
}

// event is the payload of one server-sent event.
type event struct {
	Frame  *Frame    `json:"frame"`
	Window Quantiles `json:"window"`
	Recent []Action  `json:"recent"`
	Names  []string  `json:"names"` // columns of the rows' d, x and b
	Point  row       `json:"point"` // replaces the page's last row when t is equal
}

// newest returns the newest frame's event and its cycle, nil before the first
// frame. All clients share the bytes.
func (f *Feed) newest() ([]byte, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frame.Cycle == 0 {
		return nil, 0
	}
	if f.event == nil {
		f.event = encode(event{
			Frame: &f.frame, Window: f.window.quantiles(), Recent: f.recent,
			Names: f.names, Point: f.tiers[0].last().row(len(f.names)),
		})
	}
	return f.event, f.frame.Cycle
}

// state is the answer of /api/state.
type state struct {
	Info    infoJSON  `json:"info"`
	Frame   *Frame    `json:"frame"` // null before the first cycle
	Window  Quantiles `json:"window"`
	Recent  []Action  `json:"recent"`
	Names   []string  `json:"names"`
	History []row     `json:"history"` // oldest first, thinner the older
}

type infoJSON struct {
	Version       string   `json:"version"`
	Source        string   `json:"source"`
	Provider      string   `json:"provider"`
	Started       int64    `json:"started"` // Unix milliseconds; also tells one process from the next
	Now           int64    `json:"now"`     // this host's clock, to correct the page's by
	CycleInterval int64    `json:"cycleInterval"`
	Queries       bool     `json:"queries"` // there is an answer below QueryPath
	States        []string `json:"states"`
	Kinds         []string `json:"kinds"`
	Phases        []string `json:"phases"`
	CapacityTypes []string `json:"capacityTypes"`
}

// Answers returns empty answers of /api/v1/state and of an event of /api/v1/events, for those who describe
// them.
func Answers() (ofState, ofEvent any) { return state{}, event{} }

// snapshot returns everything that a page needs to begin.
func (f *Feed) snapshot() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	points := collect(f.tiers)
	s := state{
		Info: infoJSON{
			Version: f.info.Version, Source: f.info.Source, Provider: f.info.Provider,
			Started: f.info.Started.UnixMilli(), Now: time.Now().UnixMilli(),
			CycleInterval: f.info.CycleInterval.Milliseconds(), Queries: f.queries,
			States: States[:], Kinds: Kinds[:], Phases: Phases[:], CapacityTypes: CapacityTypes[:],
		},
		Window: f.window.quantiles(), Recent: f.recent, Names: f.names,
		History: make([]row, len(points)),
	}
	if f.frame.Cycle != 0 {
		s.Frame = &f.frame
	}
	for i, p := range points {
		s.History[i] = p.row(len(f.names))
	}
	return encode(s)
}

// subscribe adds a client. The error says that there are too many, or that
// the feed is closed.
func (f *Feed) subscribe() (*client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.closed:
		return nil, fmt.Errorf("the process is stopping")
	default:
	}
	if len(f.clients) >= ClientsMax {
		return nil, fmt.Errorf("%d pages are watching already; close one", ClientsMax)
	}
	c := &client{bell: make(chan struct{}, 1)}
	c.bell <- struct{}{} // the newest frame at once
	f.clients[c] = struct{}{}
	return c, nil
}

func (f *Feed) unsubscribe(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
}

// Close ends every stream; frames published later only reach the history.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.closed:
	default:
		close(f.closed)
	}
}

// encode writes JSON on one line. The page is no place for HTML in JSON, so
// nothing is escaped for it.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Only NaN and infinities can get here, from a broken producer; the
		// page says so instead of standing still.
		b.Reset()
		fmt.Fprintf(&b, "{\"error\":%q}\n", err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
