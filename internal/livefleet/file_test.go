package livefleet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
)

const before = `now: 2026-06-01T00:00:00Z
machines:
- {id: m-1, state: Idle, idleSince: 2026-05-31T23:59:00Z, resources: {cpu: 4}, pricePerHour: 1}
- {id: m-2, state: Idle, resources: {cpu: 4}, labels: {a: b}}
- {id: m-3, state: Idle, resources: {cpu: 4}}
needs:
- {name: first, cluster: c1, aggregate: {cpu: 4}, arrival: 2026-05-31T23:00:00Z}
- {name: second, cluster: c2, aggregate: {cpu: 8}}
`

// live is a file, its source and a provider with its machines.
type live struct {
	t     *testing.T
	path  string
	file  *File
	fleet *simulated.Fleet
	now   int64
}

func newLive(t *testing.T, text string) *live {
	t.Helper()
	l := &live{t: t, path: filepath.Join(t.TempDir(), "world.yaml"), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	l.write(text)
	var err error
	if l.file, err = OpenFile(l.path, nil); err != nil {
		t.Fatal(err)
	}
	cfg := simulated.Config{Now: l.now}
	for m := range l.file.Machines(l.now) {
		cfg.Machines = append(cfg.Machines, *m)
	}
	if l.fleet, err = simulated.New(cfg); err != nil {
		t.Fatal(err)
	}
	return l
}

// write replaces the file; its time is that of the process, so that no two versions look alike.
func (l *live) write(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.now += int64(time.Second)
	if err := os.Chtimes(l.path, time.Time{}, time.Unix(0, l.now)); err != nil {
		l.t.Fatal(err)
	}
}

// edit changes the text and returns what is said of it.
func (l *live) edit(old, other string) []string {
	l.t.Helper()
	text, err := os.ReadFile(l.path)
	if err != nil || !strings.Contains(string(text), old) {
		l.t.Fatalf("%v: no %q in\n%s", err, old, text)
	}
	l.write(strings.Replace(string(text), old, other, 1))
	if said := l.file.Move(l.now, l.fleet); said != nil {
		l.t.Errorf("it does not wait for the file to be at rest: %v", said)
	}
	return l.file.Move(l.now, l.fleet)
}

// due returns the clusters that report, with what they ask for.
func (l *live) due() (out []string) {
	for _, r := range l.file.Due(l.now) {
		line := r.Cluster
		for i := range r.Needs {
			line += " " + l.file.Name(r.Cluster, &r.Needs[i]) + "=" + strconv.FormatInt(r.Needs[i].Aggregate.Get("cpu"), 10)
		}
		out = append(out, line)
	}
	return out
}

func TestAnEditIsWhatHappens(t *testing.T) {
	l := newLive(t, before)
	first := l.due()
	if len(first) != 2 || !strings.HasPrefix(first[0], "c1 first=") || !strings.HasPrefix(first[1], "c2 second=") {
		t.Errorf("at the start report %q", first)
	}
	if said := l.edit("pricePerHour: 1}", "pricePerHour: 3}"); !slices.Equal(said, []string{l.path + ": machines: 0 new, 1 changed, 0 gone"}) {
		t.Errorf("a price: %q", said)
	}
	if r, _ := l.fleet.Get("m-1"); r.Machine.PricePerHour != 3 || r.Machine.State != model.Idle {
		t.Errorf("m-1 is %+v", r.Machine)
	}
	if now := l.due(); now != nil {
		t.Errorf("after a change of machines report %q", now)
	}
	said := l.edit("- {id: m-3, state: Idle, resources: {cpu: 4}}\n", "- {id: m-4, state: Idle, resources: {cpu: 9}}\n")
	if _, there := l.fleet.Get("m-3"); there || len(said) != 1 || !strings.HasSuffix(said[0], "1 new, 0 changed, 1 gone") {
		t.Errorf("m-3 is there: %v; %q", there, said)
	}
	if r, there := l.fleet.Get("m-4"); !there || r.Machine.State != model.Idle {
		t.Errorf("m-4 is not there")
	}
	if said = l.edit("labels: {a: b}", "labels: {}"); len(said) != 1 {
		t.Errorf("labels: %q", said)
	}
	if r, _ := l.fleet.Get("m-2"); len(r.Machine.Labels) != 0 {
		t.Errorf("m-2 has %v", r.Machine.Labels)
	}
	if said = l.edit("aggregate: {cpu: 8}", "aggregate: {cpu: 12}"); !slices.Equal(said, []string{l.path + ": clusters with other demand: 1"}) {
		t.Errorf("demand: %q", said)
	}
	if now := l.due(); len(now) != 1 || !strings.HasPrefix(now[0], "c2 second=") {
		t.Errorf("after a change of demand report %q", now)
	}
	l.edit("- {name: first, cluster: c1, aggregate: {cpu: 4}, arrival: 2026-05-31T23:00:00Z}\n", "")
	if now := l.due(); !slices.Equal(now, []string{"c1"}) {
		t.Errorf("a cluster that asks for nothing any more reports %q", now)
	}
	l.now += int64(reportInterval)
	if now := l.due(); len(now) != 2 {
		t.Errorf("after an interval report %q", now)
	}
}

func TestABadEditChangesNothing(t *testing.T) {
	l := newLive(t, before)
	l.due()
	said := l.edit("- {id: m-3, state: Idle,", "- {id: m-9, state: Idl,")
	want := []string{l.path + `:5:20: machines[2].state: unknown state "Idl"; did you mean Idle? Use one of ` +
		"Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed", "the edit has faults, so nothing is changed"}
	if !slices.Equal(said, want) {
		t.Errorf("it says\n%q, want\n%q", said, want)
	}
	if _, there := l.fleet.Get("m-3"); !there || l.fleet.Len() != 3 || l.due() != nil || len(l.file.World().Machines) != 3 {
		t.Error("something has changed")
	}
	if said := l.file.Move(l.now, l.fleet); said != nil {
		t.Errorf("it says so twice: %q", said)
	}
	if said := l.edit("- {id: m-9, state: Idl,", "- {id: m-9, state: Idle,"); len(said) != 1 || !strings.HasSuffix(said[0], "1 new, 0 changed, 1 gone") {
		t.Errorf("mended: %q", said)
	}
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if said := l.file.Move(l.now, l.fleet); said != nil || l.fleet.Len() != 3 {
		t.Errorf("without the file: %q", said)
	}
}

// TestAMachineThatDidNotChangeKeepsItsState: only what the edit is about is touched.
func TestAMachineThatDidNotChangeKeepsItsState(t *testing.T) {
	l := newLive(t, before)
	l.fleet.Lose("m-2") // as if it had gone since
	l.edit("pricePerHour: 1}", "pricePerHour: 2}")
	if _, there := l.fleet.Get("m-2"); there {
		t.Error("m-2 has come back")
	}
	said := l.edit("- {id: m-1, state: Idle, idleSince: 2026-05-31T23:59:00Z, resources: {cpu: 4}", "- {id: m-1, state: Failed, resources: {cpu: 4}")
	if r, _ := l.fleet.Get("m-1"); r.Machine.State != model.Failed || len(said) != 1 {
		t.Errorf("m-1 is %s; %q", r.Machine.State, said)
	}
	if said := l.edit("machines:\n", "options: {reclaimCapFraction: 0.5}\nmachines:\n"); len(said) != 1 || !strings.Contains(said[0], "start again") {
		t.Errorf("options: %q", said)
	}
}

// TestTimesOfTheFileAreRelativeToItsNow: what was idle for a minute is idle for a minute.
func TestTimesOfTheFileAreRelativeToItsNow(t *testing.T) {
	l := newLive(t, before)
	r, _ := l.fleet.Get("m-1")
	if idle := time.Duration(l.now - r.Machine.IdleSince); idle < time.Minute-time.Second || idle > time.Minute+time.Second {
		t.Errorf("m-1 is idle for %v", idle)
	}
	needs := l.file.Due(l.now)[0].Needs
	if ago := time.Duration(l.now - needs[0].Arrival); ago != time.Hour {
		t.Errorf("the need arrived %v ago", ago)
	}
}

// TestNamesStay: Names gives the names of the moment at which it is called, and Name those of the file as it is.
func TestNamesStay(t *testing.T) {
	l := newLive(t, before)
	due := l.file.Due(l.now)
	cluster, need := due[0].Cluster, &due[0].Needs[0]
	names := l.file.Names()
	l.edit("name: first", "name: renamed")
	if was, is := names(cluster, need), l.file.Name(cluster, need); was != "first" || is != "renamed" {
		t.Errorf("was %q, is %q", was, is)
	}
}
