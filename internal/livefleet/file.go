package livefleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/provider/simulated"
)

// faultLinesMax is how many faults of an edit are said.
const faultLinesMax = 10

// File is a world in a file as a source. It has one owner and is not safe for concurrent use, but
// for Name.
type File struct {
	path  string // "" = read once
	world *world.World
	names atomic.Pointer[map[identity]string]

	start    int64
	started  bool
	clusters []string         // that were ever named, sorted
	rows     map[string][]int // cluster → its Needs in the world
	sent     map[string]int64 // when each cluster reported last; absent = its demand is new

	read, seen look // when the file was read, and when it was looked at last
}

// look is what a file is known by from outside.
type look struct {
	size int64
	at   time.Time
}

// OpenFile reads a world from a file, or from in when the path is "-". The error is a *world.Faults
// when the file is at fault.
func OpenFile(path string, in io.Reader) (*File, error) {
	f := &File{sent: map[string]int64{}}
	name := "stdin"
	if path != "-" {
		f.path, name = path, path
		if l, err := lookAt(path); err == nil {
			f.read, f.seen = l, l
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cannot open the file: %w", err)
		}
		defer file.Close()
		in = file
	}
	w, err := world.Read(in)
	if faults, ok := errors.AsType[*world.Faults](err); ok {
		faults.File = name
	}
	if err != nil {
		return nil, err
	}
	f.take(w)
	return f, nil
}

func lookAt(path string) (look, error) {
	info, err := os.Stat(path)
	if err != nil {
		return look{}, err
	}
	return look{info.Size(), info.ModTime()}, nil
}

// take makes a world the one that is served.
func (f *File) take(w *world.World) {
	names := namesOf(func(yield func(string, *model.Need)) {
		for i := range w.Needs {
			yield(w.Needs[i].Name, &w.Needs[i].Need)
		}
	})
	f.world = w
	f.names.Store(&names)
	f.rows = make(map[string][]int)
	all := slices.Concat(f.clusters, w.Reported)
	for i := range w.Needs {
		all = append(all, w.Needs[i].Cluster)
		f.rows[w.Needs[i].Cluster] = append(f.rows[w.Needs[i].Cluster], i)
	}
	slices.Sort(all)
	f.clusters = slices.Compact(all)
}

// World returns the world as it was read last.
func (f *File) World() *world.World { return f.world }

// Describe says in one line what the source is.
func (f *File) Describe() string {
	what := "a world from standard input"
	if f.path != "" {
		what = "world " + f.path + ", read again when it changes"
	}
	return fmt.Sprintf("%s: %d clusters, %d machines, %d needs", what, len(f.clusters), len(f.world.Machines), len(f.world.Needs))
}

// Clusters returns the ids of the clusters, sorted.
func (f *File) Clusters() []string { return f.clusters }

// Options returns the settings of the engine in the file.
func (f *File) Options() engine.Options { return f.world.Options.Engine }

// Done reports false: clusters report for ever.
func (f *File) Done() bool { return false }

// Name returns the name in the file of a Need of a cluster, "" when it has none. It is safe for
// concurrent use.
func (f *File) Name(cluster string, n *model.Need) string {
	return (*f.names.Load())[identityOf(cluster, n)]
}

// Names returns Name as it is now, whatever the file says later.
func (f *File) Names() func(cluster string, n *model.Need) string {
	names := *f.names.Load()
	return func(cluster string, n *model.Need) string { return names[identityOf(cluster, n)] }
}

// Trials returns what is worth trying: of the first Need and the first machine of the file.
func (f *File) Trials() (out []Trial) {
	if len(f.world.Needs) > 0 {
		out = append(out, Trial{"explain need", f.world.Needs[0].Name, "why a need is satisfied or not"})
	}
	if len(f.world.Machines) > 0 {
		id := f.world.Machines[0].ID
		out = append(out, Trial{"explain machine", id, "what is done with a machine, and why"}, Trial{"what-if", "--lose " + id, "what would be done without it"})
	}
	return out
}

// shifted is a time of the file as a time of the process: as long before or after the start as it is
// before or after the file's now.
func (f *File) shifted(nanos, start int64) int64 {
	if nanos == 0 {
		return 0
	}
	return max(nanos-f.world.Now+start, 1)
}

// machine returns a machine of the file as it is at a time of the process.
func (f *File) machine(m model.Machine, start int64) model.Machine {
	if m.State == model.Idle {
		m.IdleSince = f.shifted(max(m.IdleSince, 1), start)
	}
	m.Reservation.Deadline = f.shifted(m.Reservation.Deadline, start)
	m.Reservation.Arrival = f.shifted(m.Reservation.Arrival, start)
	return m
}

// Machines yields the fleet as the file has it.
func (f *File) Machines(now int64) iter.Seq[*model.Machine] {
	return func(yield func(*model.Machine) bool) {
		for i := range f.world.Machines {
			if m := f.machine(f.world.Machines[i], now); !yield(&m) {
				return
			}
		}
	}
}

// Due returns the roll-ups that are due: of each cluster one every reportInterval, and one at once
// when its demand has changed.
func (f *File) Due(now int64) (out []workload.Rollup) {
	if !f.started {
		f.start, f.started = now, true
	}
	for _, cluster := range f.clusters {
		if at, reported := f.sent[cluster]; reported && now-at < int64(reportInterval) {
			continue
		}
		if len(out) == workload.RollupsPerCallMax {
			break
		}
		f.sent[cluster] = now
		out = append(out, workload.Rollup{Cluster: cluster, At: now, Needs: f.needs(cluster)})
	}
	return out
}

// needs returns the demand of a cluster.
func (f *File) needs(cluster string) (out []model.Need) {
	for _, i := range f.rows[cluster] {
		n := f.world.Needs[i].Need
		n.Arrival, n.ShortSince = f.shifted(n.Arrival, f.start), f.shifted(n.ShortSince, f.start)
		out = append(out, n)
	}
	return out
}

// Move reads the file again when it has changed, and does to the fleet what differs. It says what
// it did, or why it did nothing.
func (f *File) Move(now int64, fleet Fleet) (said []string) {
	if f.path == "" {
		return nil
	}
	l, err := lookAt(f.path)
	switch {
	case err != nil: // an editor may be about to put the new one in its place
		return nil
	case l == f.read:
		return nil
	case l != f.seen: // it may be half written
		f.seen = l
		return nil
	}
	f.read = l
	w, err := readFile(f.path)
	if err != nil {
		return refused(err)
	}
	old := f.world
	if said = append(said, f.demandDiffers(w)...); !sameOptions(&old.Options, &w.Options) {
		said = append(said, f.path+": options have changed; they are read at the start only: start again to use them")
	}
	f.take(w)
	return append(said, f.moveMachines(old, now, fleet)...)
}

func readFile(path string) (*world.World, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w, err := world.Read(file)
	if faults, ok := errors.AsType[*world.Faults](err); ok {
		faults.File = path
	}
	return w, err
}

// refused says why an edit does nothing.
func refused(err error) []string {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is on its way; it will look otherwise then
	}
	lines := strings.Split(err.Error(), "\n")
	if more := len(lines) - faultLinesMax; more > 0 {
		lines = append(lines[:faultLinesMax], fmt.Sprintf("... and %d more", more))
	}
	return append(lines, "the edit has faults, so nothing is changed")
}

func sameOptions(a, b *world.Options) bool { return reflect.DeepEqual(a, b) }

// demandDiffers notes which clusters have other demand in w, so that they report at once.
func (f *File) demandDiffers(w *world.World) []string {
	before, after := byCluster(f.world), byCluster(w)
	changed := 0
	clusters := maps.Clone(before)
	maps.Copy(clusters, after)
	for cluster := range clusters {
		if !slices.EqualFunc(before[cluster], after[cluster], sameNeed) {
			delete(f.sent, cluster)
			changed++
		}
	}
	if changed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: clusters with other demand: %d", f.path, changed)}
}

func byCluster(w *world.World) map[string][]*world.Need {
	out := map[string][]*world.Need{}
	for i := range w.Needs {
		n := &w.Needs[i]
		out[n.Cluster] = append(out[n.Cluster], n)
	}
	return out
}

// sameNeed tells whether two Needs ask for the same, by the same name.
func sameNeed(a, b *world.Need) bool {
	return a.Name == b.Name && a.Group == b.Group && a.Arrival == b.Arrival && a.ShortSince == b.ShortSince && a.Parked == b.Parked &&
		a.Profile.Equal(b.Profile) && a.Aggregate.Equal(b.Aggregate) && a.MinUnit.Equal(b.MinUnit) && a.MinAggregate.Equal(b.MinAggregate)
}

// moveMachines does to the fleet what makes machines of the old world those of the new one.
func (f *File) moveMachines(old *world.World, now int64, fleet Fleet) []string {
	before := make(map[string]*model.Machine, len(old.Machines))
	for i := range old.Machines {
		before[old.Machines[i].ID] = &old.Machines[i]
	}
	var added, changed, lost int
	var faults []string
	note := func(err error) {
		if err != nil && len(faults) < faultLinesMax {
			faults = append(faults, f.path+": "+err.Error())
		}
	}
	for i := range f.world.Machines {
		m := &f.world.Machines[i]
		was, known := before[m.ID]
		delete(before, m.ID)
		switch {
		case !known:
			added++
			note(fleet.Add(f.machine(*m, now)))
		case reflect.DeepEqual(was, m):
		case sayable(was, m):
			changed++
			note(fleet.Change(m.ID, changeOf(m)))
		default: // another machine by the same name
			changed++
			fleet.Lose(m.ID)
			note(fleet.Add(f.machine(*m, now)))
		}
	}
	for id := range before {
		lost += fleet.Lose(id)
	}
	if added+changed+lost > 0 {
		faults = append(faults, fmt.Sprintf("%s: machines: %d new, %d changed, %d gone", f.path, added, changed, lost))
	}
	return faults
}

// sayable tells whether two records differ only in what a provider can say of a machine that it
// has.
func sayable(a, b *model.Machine) bool {
	x, y := *a, *b
	x.PricePerHour, x.InterruptionProbability, x.Labels, x.Allocatable = y.PricePerHour, y.InterruptionProbability, y.Labels, y.Allocatable
	return reflect.DeepEqual(&x, &y)
}

func changeOf(m *model.Machine) simulated.Change {
	labels := m.Labels
	if labels == nil {
		labels = map[string]string{} // nil would leave them as they are
	}
	return simulated.Change{PricePerHour: &m.PricePerHour, InterruptionProbability: &m.InterruptionProbability, Labels: labels, Allocatable: &m.Allocatable}
}
