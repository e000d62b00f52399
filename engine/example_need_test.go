package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// The world of the package comment: what becomes of one Need in two cycles.
//
//	a-1, a-2  Configured in c1; only a-1 carries the stamp of c1's Need
//	b-1, b-2  Configured in c2, stamped for a Need of priority 10
//	d-1       Configured in c3, stamped for its Need
//	i-1       Idle
//
// Each has four cores. The Need of c1 asks for sixteen, at priority 1000.
func Example_oneNeed() {
	w := newWorld(model.ProfileSpec{Priority: 1000})
	w.cycle(1)
	w.carryOut()
	w.cycle(2)
	// Output:
	// cycle 1
	//   normalise  kind=0 domain=none head=none acquired=none
	//              claims=[]
	//              status=none
	//   rank       kind=0 domain=none head=none acquired=none
	//              claims=[]
	//              status=none
	//   phase1     kind=0 domain=none head=a-1 acquired=i-1
	//              claims=[a-1 a-2 i-1]
	//              status=IsVisited HasForeignStamp
	//   phase2     kind=0 domain=none head=a-1 acquired=i-1
	//              claims=[a-1 a-2 i-1] victims=[b-1] planned=[b-1]
	//              status=HasCandidates IsAwaiting HasPlan HasOwnPlan IsVisited HasForeignStamp
	//   action     Bootstrap i-1 for c1, part of a plan: false
	//   action     Preempt b-1 for c1, part of a plan: true
	//   stamp      a-2 for c1
	//   reserve    b-1 for c1, domain ""
	//   need       c1: satisfied false, lacks 4 cores, reason "awaiting_drain"
	//   need       c2: satisfied true, lacks 0 cores, reason ""
	//   need       c3: satisfied true, lacks 0 cores, reason ""
	//   stats      from nothing: true, clusters credited: 3 of 3
	// cycle 2
	//   normalise  kind=0 domain=none head=a-1 acquired=none
	//              claims=[a-1 a-2]
	//              status=HasForeignStamp
	//   rank       kind=0 domain=none head=a-1 acquired=none
	//              claims=[a-1 a-2] reserved=[b-1]
	//              status=HasForeignStamp
	//   phase1     kind=0 domain=none head=a-1 acquired=b-1
	//              claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
	//              status=IsSatisfied IsVisited
	//   phase2     kind=0 domain=none head=a-1 acquired=b-1
	//              claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
	//              status=IsSatisfied IsVisited
	//   action     Bootstrap b-1 for c1, part of a plan: false
	//   need       c1: satisfied true, lacks 0 cores, reason ""
	//   need       c2: satisfied false, lacks 4 cores, reason "priority_starved"
	//   need       c3: satisfied true, lacks 0 cores, reason ""
	//   stats      from nothing: false, clusters credited: 2 of 3
}

// The same Need as a gang: its machines must lie in one rack.
func Example_oneGang() {
	w := newWorld(model.ProfileSpec{Priority: 1000, Requirements: []model.Requirement{{Key: rackKey, Operator: model.Same}}})
	w.cycle(1)
	w.carryOut()
	w.cycle(2)
	// Output:
	// cycle 1
	//   normalise  kind=0 domain=none head=none acquired=none
	//              claims=[]
	//              status=IsUncoverable NeverFolds
	//   rank       kind=0 domain=none head=none acquired=none
	//              claims=[]
	//              status=IsUncoverable NeverFolds
	//   phase1     kind=0 domain=r1 head=a-1 acquired=i-1
	//              claims=[a-1 a-2 i-1]
	//              status=IsUncoverable NeverFolds IsUncredited IsVisited
	//   phase2     kind=0 domain=r1 head=a-1 acquired=i-1
	//              claims=[a-1 a-2 i-1] victims=[b-1] planned=[b-1]
	//              status=HasCandidates IsAwaiting NeverFolds IsUncredited HasPlan HasOwnPlan IsVisited
	//   action     Bootstrap i-1 for c1, part of a plan: false
	//   action     Preempt b-1 for c1, part of a plan: true
	//   stamp      a-2 for c1
	//   reserve    b-1 for c1, domain "r1"
	//   need       c1: satisfied false, lacks 4 cores, reason "awaiting_drain"
	//   need       c2: satisfied true, lacks 0 cores, reason ""
	//   need       c3: satisfied true, lacks 0 cores, reason ""
	//   stats      from nothing: true, clusters credited: 3 of 3
	// cycle 2
	//   normalise  kind=0 domain=none head=none acquired=none
	//              claims=[]
	//              status=IsUncoverable NeverFolds IsUncredited
	//   rank       kind=0 domain=none head=none acquired=none
	//              claims=[] reserved=[b-1]
	//              status=IsUncoverable NeverFolds IsUncredited
	//   phase1     kind=0 domain=r1 head=a-1 acquired=b-1
	//              claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
	//              status=IsSatisfied IsPinned NeverFolds IsUncredited IsVisited
	//   phase2     kind=0 domain=r1 head=a-1 acquired=b-1
	//              claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
	//              status=IsSatisfied IsPinned NeverFolds IsUncredited IsVisited
	//   action     Bootstrap b-1 for c1, part of a plan: false
	//   need       c1: satisfied true, lacks 0 cores, reason ""
	//   need       c2: satisfied false, lacks 4 cores, reason "priority_starved"
	//   need       c3: satisfied true, lacks 0 cores, reason ""
	//   stats      from nothing: false, clusters credited: 2 of 3
}

const rackKey = "example.com/rack"

// world is a small fleet, its demand, and an engine that decides for them.
type world struct {
	machines *supply.Table
	needs    *demand.Table
	engine   *engine.Engine
	plan     *engine.Plan
}

// newWorld returns the world in which the Need of c1 has a profile.
func newWorld(spec model.ProfileSpec) *world {
	w := &world{machines: supply.New(), needs: demand.New()}
	profiles := map[string]*model.Profile{}
	for _, c := range []struct {
		id    string
		spec  model.ProfileSpec
		cores int64
	}{{"c1", spec, 16}, {"c2", model.ProfileSpec{Priority: 10}, 8}, {"c3", model.ProfileSpec{Priority: 20}, 4}} {
		p, err := model.NewProfile(c.spec)
		must(err)
		profiles[c.id] = p
		must(w.needs.Replace(c.id, []model.Need{{Profile: p, Aggregate: cores(c.cores), MinUnit: cores(4)}}))
	}
	for _, m := range []struct {
		id, cluster, rack string
		stamped           bool
	}{
		{"a-1", "c1", "r1", true}, {"a-2", "c1", "r1", false}, {"b-1", "c2", "r1", true}, {"b-2", "c2", "r2", true},
		{"d-1", "c3", "r2", true}, {"i-1", "", "r1", false},
	} {
		x := model.Machine{ID: m.id, State: model.Idle, Host: "host-" + m.id, Cluster: m.cluster, Resources: cores(4), Labels: map[string]string{rackKey: m.rack}}
		if m.cluster != "" {
			x.State = model.Configured
		}
		if m.stamped {
			p := profiles[m.cluster]
			x.Assigned = model.Assignment{Priority: p.Priority(), Fingerprint: p.Fingerprint()}
		}
		must(w.machines.Put(&x))
	}
	opts := engine.DefaultOptions()
	opts.Workers = 1 // kinds are numbered as workers meet them
	e, err := engine.New(opts)
	must(err)
	w.engine = e
	return w
}

// cycle decides, and prints what is known of the Need of c1 whenever a stage has ended,
// and the plan.
func (w *world) cycle(number int) {
	fmt.Println("cycle", number)
	in := engine.Input{Supply: w.machines, Demand: w.needs, Now: int64(number) * 1e9}
	ended := "" // the stage that ends when the next one begins
	in.Mark = func(stage model.Stage, _ int) {
		if ended != "" && ended != model.StageSnapshot.String() {
			fmt.Printf("  %-9s  %s\n", ended, strings.ReplaceAll(w.engine.Line(0), "\n", "\n             "))
		}
		ended = stage.String()
	}
	plan, err := w.engine.Cycle(in)
	must(err)
	w.plan = plan
	for _, a := range plan.Actions {
		cluster, _ := plan.Identity(int(a.Need))
		fmt.Printf("  action     %s %s for %s, part of a plan: %t\n", a.Kind, w.machines.ID(a.Machine), cluster, a.Plan != 0)
	}
	for _, a := range plan.Adopted {
		cluster, _ := plan.Identity(int(a.Need))
		fmt.Printf("  stamp      %s for %s\n", w.machines.ID(a.Machine), cluster)
	}
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		fmt.Printf("  reserve    %s for %s, domain %q\n", w.machines.ID(x.Machine), x.Reservation.Owner.Cluster, x.Reservation.Domain)
	}
	for i := range plan.Len() {
		n := plan.Need(i)
		fmt.Printf("  need       %s: satisfied %t, lacks %d cores, reason %q\n", n.Cluster, n.Satisfied, n.Deficit.Get("cpu")/1000, n.Unmet)
	}
	fmt.Printf("  stats      from nothing: %t, clusters credited: %d of %d\n", plan.Stats.Full, plan.Stats.ClustersCredited, plan.Stats.Clusters)
}

// carryOut does what the plan asks for, as a shard does: stamps and reservations first.
func (w *world) carryOut() {
	for _, a := range w.plan.Adopted {
		w.machines.Stamp(a.Machine, w.plan.Stamp(int(a.Need)))
	}
	for i := range w.plan.Reservations {
		w.machines.Reserve(w.plan.Reservations[i].Machine, w.plan.Reservations[i].Reservation)
	}
	for _, a := range w.plan.Actions {
		switch cluster, _ := w.plan.Identity(int(a.Need)); a.Kind {
		case engine.Bootstrap:
			must(w.machines.Transition(a.Machine, model.Configuring, cluster, 0))
			w.machines.Stamp(a.Machine, w.plan.Stamp(int(a.Need)))
			must(w.machines.Transition(a.Machine, model.Configured, cluster, 0))
		case engine.Preempt: // the drain takes no time here
			must(w.machines.Transition(a.Machine, model.Draining, "", 0))
			must(w.machines.Transition(a.Machine, model.Idle, "", 0))
		}
	}
}

// TestPackageCommentHolds: what the package comment shows of a Need is what Example_oneNeed
// prints, the files that it names exist, and what it says is in a file is there.
func TestPackageCommentHolds(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		for _, dir := range []string{"", "internal", "..", "../internal/world"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				return string(text)
			}
		}
		t.Errorf("the package comment names %s, which does not exist", name)
		return ""
	}
	trim := func(line string) string { return strings.TrimLeft(line, "/ \t") }
	var shown []string
	inside := false
	for line := range strings.Lines(read("doc.go")) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "//\tcycle "):
			inside = true
		case line == "//":
			inside = false
		}
		if inside {
			shown = append(shown, trim(line))
		}
	}
	_, printed, _ := strings.Cut(read("example_need_test.go"), "// Output:\n")
	printed, _, _ = strings.Cut(printed, "\n}\n")
	var want []string
	for line := range strings.Lines(printed) {
		want = append(want, trim(strings.TrimSuffix(line, "\n")))
	}
	if !slices.Equal(shown, want) {
		t.Errorf("the package comment shows\n%s\nand the example prints\n%s", strings.Join(shown, "\n"), strings.Join(want, "\n"))
	}
	table := regexp.MustCompile(`^//\t([\w.]+(?:, [\w.]+)*),?\s{2,}([\w/]*\w\.go)\b`)
	prose := regexp.MustCompile(`((?:[\w.]+(?:, | and ))*[\w.]+) (?:in |\()([\w/]*\w\.go)\b`)
	camel := regexp.MustCompile(`[a-z][A-Z]|\w\.[a-zA-Z]`)
	for _, file := range []string{"doc.go", "recipes.go"} {
		text := read(file)
		for _, name := range regexp.MustCompile(`[\w/]*\w\.go\b`).FindAllString(text, -1) {
			read(name)
		}
		has := func(names, in string, test func(string) bool) {
			t.Helper()
			code := read(in)
			for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
				last := name[strings.LastIndexByte(name, '.')+1:]
				if test(name) && last != "" && !regexp.MustCompile(`\b`+last+`\b`).MatchString(code) {
					t.Errorf("%s says that %s is in %s, where it is not", file, name, in)
				}
			}
		}
		var paragraph strings.Builder
		for line := range strings.Lines(text) {
			if m := table.FindStringSubmatch(line); m != nil {
				has(m[1], m[2], func(string) bool { return true })
			}
			paragraph.WriteString(strings.TrimSpace(strings.TrimPrefix(line, "//")) + " ")
		}
		for _, m := range prose.FindAllStringSubmatch(paragraph.String(), -1) {
			has(m[1], m[2], camel.MatchString)
		}
	}
}
