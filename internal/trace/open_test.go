package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// The made-up trace of testdata has the form of the real one.
const (
	podFile      = "openb/openb_pod_list_default.csv"
	nodeFile     = "openb/openb_node_list_all_node.csv"
	topologyFile = "topology/lingjun_topo.csv"
	catalogFile  = "catalog/instances.csv"
)

// changed copies testdata to a temporary folder, applies edit to one file and
// returns the folder openb of the copy. An edit that returns "-" removes it.
func changed(t *testing.T, file string, edit func(string) string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{podFile, nodeFile, topologyFile, catalogFile} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if name == file {
			if text = edit(text); text == string(data) {
				t.Fatalf("the edit of %s changes nothing", file)
			}
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if text == "-" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "openb")
}

func replace(from, to string) func(string) string {
	return func(s string) string { return strings.Replace(s, from, to, 1) }
}

func set(text string) func(string) string { return func(string) string { return text } }

// Every fault of the input is one line that names file, line and column, and
// says what to do.
func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, file string
		edit       func(string) string
		want       []string
	}{
		{"missing pod list", podFile, set("-"), []string{"openb_pod_list_default.csv", "no such file", "point to the folder openb"}},
		{"missing nodes", nodeFile, set("-"), []string{"openb_node_list_all_node.csv", "no such file"}},
		{"missing topology", topologyFile, set("-"), []string{"lingjun_topo.csv", "no such file", "siblings topology and catalog"}},
		{"missing catalog", catalogFile, set("-"), []string{"instances.csv", "no such file"}},
		{"empty file", podFile, set(""), []string{"openb_pod_list_default.csv", "is empty", "begin with the header name,cpu_milli"}},
		{"no pods", podFile, func(s string) string { return s[:strings.Index(s, "\n")+1] }, []string{"the list has no pods"}},
		{"no nodes", nodeFile, func(s string) string { return s[:strings.Index(s, "\n")+1] }, []string{"the list has no nodes"}},
		{"no hosts", topologyFile, func(s string) string { return s[:strings.Index(s, "\n")+1] }, []string{"no hosts"}},
		{"unknown column", podFile, replace("qos", "quality"), []string{"line 1", `column "qos" is missing`, "the header must be"}},
		{"extra column", nodeFile, replace("sn,", "zone,sn,"), []string{"line 1", `unknown column "zone" (number 1)`, "remove it"}},
		{"column twice", nodeFile, replace("sn,cpu_milli", "sn,sn,cpu_milli"), []string{"line 1", `"sn" occurs twice`}},
		{"missing column", nodeFile, replace(",memory_mib", ""), []string{"line 1", `column "memory_mib" is missing`}},
		{"catalog column", catalogFile, replace("zones", "areas"), []string{"instances.csv", `column "zones" is missing`}},
		{"topology column", topologyFile, replace("ASW", "TOR"), []string{"lingjun_topo.csv", `column "ASW" is missing`}},
		{"bad number", podFile, replace("pod-3,4000", "pod-3,4k"), []string{"openb_pod_list_default.csv: line 4", `column "cpu_milli"`, `"4k" is not a whole number`}},
		{"control character", podFile, replace("pod-3,", "pod-3\u009b,"), []string{"line 4", `column "name"`, "holds the control character U+009B"}},
		{"negative number", nodeFile, replace("262144", "-1"), []string{"line 2", `column "memory_mib"`, `"-1"`}},
		{"number out of range", podFile, replace("pod-1,12000", "pod-1,99999999999999999999"), []string{"line 2", `column "cpu_milli"`, "from 0 to 10000000"}},
		{"empty number", podFile, replace("9970000", ""), []string{"line 2", `column "deletion_time"`}},
		{"bad quality", podFile, replace("Pending", "x\"y"), []string{"line 4", "column"}},
		{"unknown quality", podFile, replace(",BE,", ",Gold,"), []string{"line 4", `column "qos"`, `"Gold"`, "use Guaranteed, LS, Burstable or BE"}},
		{"short line", podFile, replace("pod-3,4000,0", "pod-3,4000"), []string{"line 4", "wrong number of fields"}},
		{"GPU without model", nodeFile, replace("8,G2", "8,"), []string{"line 3", `column "model"`, "needs a model"}},
		{"model without GPU", nodeFile, replace("262144,0,", "262144,0,T4"), []string{"line 2", `column "model"`}},
		{"node twice", nodeFile, replace("node-b", "node-a"), []string{"line 3", `column "sn"`, `"node-a"`}},
		{"node without id", nodeFile, replace("node-b", ""), []string{"line 3", `column "sn"`, "is empty"}},
		{"type not listed", catalogFile, replace("m6i.16xlarge", "m6i.99xlarge"), []string{"1 of the 5 instance types", "not listed"}},
		{"bad price", catalogFile, replace("3.00", "three"), []string{"line 2", `column "on_demand_usd_h"`, `"three" is not a price`}},
		{"no price", catalogFile, replace("3.00", ""), []string{"line 2", `column "on_demand_usd_h"`, "has no price"}},
		{"bad bucket", catalogFile, replace("60,1,5-10%", "60,7,5-10%"), []string{"line 2", `column "interruption_bucket"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(changed(t, c.file, c.edit), Options{})
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	dir := filepath.Join("testdata", "openb")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{List: "gpuspec34"}, `no pod list named "gpuspec34"; use one of default, gpushare40, gpuspec33, multigpu20`},
		{Options{Speed: 100_000}, "at most 86400x"},
		{Options{Speed: -1}, "above 0x"},
		{Options{Clusters: -2}, "clusters must be 1 to 1000"},
		{Options{Interval: time.Millisecond}, "at least 1s"},
		{Options{Offer: 9}, "no such offer"},
	} {
		if _, err := Open(dir, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	for s, want := range map[string]float64{"3600x": 3600, "1": 1, "0.5x": 0.5, "86400x": 86_400, "": 0, "x": 0, "-1x": 0, "1e9": 0, "NaN": 0, "fast": 0} {
		got, err := ParseSpeed(s)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSpeed(%q) = %v, %v", s, got, err)
		}
	}
	if o, err := ParseOffer("equivalents"); err != nil || o != OfferEquivalents {
		t.Errorf("ParseOffer: %v, %v", o, err)
	}
	if _, err := ParseOffer("all"); err == nil || !strings.Contains(err.Error(), "default, none, equivalents") {
		t.Errorf("ParseOffer: %v", err)
	}
}

func openMade(t *testing.T, o Options) *Trace {
	t.Helper()
	tr, err := Open(filepath.Join("testdata", "openb"), o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestRollupsFollowTheClock(t *testing.T) {
	tr := openMade(t, Options{Speed: 1, Interval: 10 * time.Second})
	start := int64(1_800_000_000_000_000_000)
	at := func(seconds int64) []model.Need {
		t.Helper()
		due := tr.Due(start + (seconds-clockStart)*int64(time.Second))
		if len(due) != 1 || due[0].Cluster != "openb" {
			t.Fatalf("at %d: %+v", seconds, due)
		}
		return due[0].Needs
	}
	needs := at(clockStart)
	if len(needs) != 2 || needs[0].Group != "LS any GPU ×1" || needs[1].Group != "LS A10|T4 ×1" {
		t.Fatalf("at the start: %+v", needs)
	}
	if n := needs[1]; n.Aggregate.Get(dimGPU) != 460 || n.Arrival != start || len(n.Profile.Requirements()[0].Values) != 2 {
		t.Errorf("pod-2 became %+v", n)
	}
	if tr.Due(start+int64(9*time.Second)) != nil && len(tr.Due(start+int64(9*time.Second))) > 0 {
		t.Error("a roll-up before its interval")
	}
	needs = at(9_966_002)
	if len(needs) != 3 {
		t.Fatalf("in the middle: %+v", needs)
	}
	if n := needs[0]; n.Aggregate.Get(dimCPU) != 20_000 || n.Aggregate.Get(dimGPU) != 1_500 || n.MinUnit.Get(dimCPU) != 12_000 || n.MinUnit.Get(dimGPU) != 1000 {
		t.Errorf("pod-1 and pod-4 became %+v", n)
	}
	if n := needs[2]; n.Group != "BE no GPU" || n.Aggregate.Get(dimMemory) != 0 || len(n.Profile.Requirements()) != 0 {
		t.Errorf("pod-3 became %+v", n)
	}
	if tr.Done() {
		t.Error("done before the end")
	}
	if got := tr.Progress(); got != "day 0.0 of 0 of the trace" {
		t.Errorf("progress: %s", got)
	}
	if needs = at(9_980_000); len(needs) != 0 || !tr.Done() {
		t.Errorf("at the end: %+v, done %v", needs, tr.Done())
	}
	if got := tr.Progress(); got != "the trace is over" {
		t.Errorf("progress: %s", got)
	}
	if due := tr.Due(start + int64(100*time.Hour)); len(due) != 0 {
		t.Errorf("after the end: %+v", due)
	}
}

func TestArrivalsOnlyKeepsEveryPod(t *testing.T) {
	tr := openMade(t, Options{ArrivalsOnly: true, Speed: 86_400})
	var needs []model.Need
	for i := range 10 {
		for _, r := range tr.Due(1 + int64(i)*int64(time.Second)) {
			needs = r.Needs
		}
	}
	var cpu int64
	for _, n := range needs {
		cpu += n.Aggregate.Get(dimCPU)
	}
	if cpu != 30_000 || !tr.Done() {
		t.Errorf("%d milli cores at the end, want all 30000", cpu)
	}
}

func TestClustersPartThePods(t *testing.T) {
	count := func(o Options) (n [4]int) {
		o.Clusters, o.ArrivalsOnly = 4, true
		tr := openMade(t, o)
		for c, pods := range tr.list.clusters {
			n[c] = len(pods)
		}
		return
	}
	a, b := count(Options{}), count(Options{})
	if a != b || a[0]+a[1]+a[2]+a[3] != 4 {
		t.Errorf("pods by cluster %v and %v", a, b)
	}
	differs := false
	for seed := range uint64(10) {
		differs = differs || count(Options{Seed: seed + 1}) != a
	}
	if !differs {
		t.Error("the seed changes nothing")
	}
}

func TestSlotsOnSale(t *testing.T) {
	for _, c := range []struct {
		offer Offer
		slots int
		t4    bool
	}{
		{OfferNone, 0, false},
		{OfferDefault, 9 * SlotsPerType, false}, // one type has no spot price
		{OfferEquivalents, 15 * SlotsPerType, true},
	} {
		tr := openMade(t, Options{Offer: c.offer})
		slots, t4 := 0, false
		for m := range tr.Machines(5) {
			if err := m.Validate(true); err != nil {
				t.Error(err)
			}
			if m.State != model.Speculative {
				if m.IdleSince != 5 || m.Host == "" {
					t.Errorf("node %+v", m)
				}
				continue
			}
			slots++
			t4 = t4 || m.Labels[keyModel] == "T4"
			if (m.InterruptionProbability > 0) != (m.CapacityType == model.Spot) || m.PricePerHour <= 0 || m.PricePerHour == 9.99 {
				t.Errorf("slot %s: %v, %v", m.ID, m.PricePerHour, m.InterruptionProbability)
			}
			if m.InstanceType == "g6.12xlarge" && (m.Labels[keyModel] != "L4" || m.EffectiveAllocatable().Get(dimCPU) != 47_810 || m.Resources.Get(dimGPU) != 4000) {
				t.Errorf("slot %+v", m)
			}
		}
		if slots != c.slots || t4 != c.t4 {
			t.Errorf("offer %s: %d slots, T4 %v", c.offer, slots, t4)
		}
	}
	// The open-ended bucket, 30 % a month, is about 4.9 in 10,000 an hour.
	if p := hourly(4); p < 4.8e-4 || p > 5e-4 {
		t.Errorf("hourly(4) = %v", p)
	}
}

func TestDescribe(t *testing.T) {
	got := openMade(t, Options{ArrivalsOnly: true, Speed: 1}).Describe()
	want := "trace openb, list default: 4 pods on 3 nodes, 1 cluster, arrivals only; 17 min at 1x take 17 min"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
