package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider"
)

// runs runs a command line and returns its exit code and what it wrote.
func runs(t *testing.T, in string, args ...string) (code int, out, err string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	code = run(ctx, args, streams{strings.NewReader(in), &o, &e})
	return code, o.String(), e.String()
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const capiPools = `drivers:
- {name: capi, kind: cluster-api, config: {kubeconfig: KUBECONFIG}}
pools:
- {name: late, driver: capi, lateBound: true, machines: 12, zones: [a], template: {infrastructure: {templateRef: {apiGroup: g, kind: XTemplate, name: x}}, bootstrap: {blob: {}}}, types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]}
`

func dialed(t *testing.T, address string) pb.CapacityProviderClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewCapacityProviderClient(conn)
}

// Bad input is refused with what is wrong and what to do, and exit code 2.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	good := put(t, dir, "good.yaml", crashPools)
	unknown := put(t, dir, "kind.yaml", strings.Replace(crashPools, "kind: simulated", "kind: cloudy", 1))
	config := put(t, dir, "config.yaml", strings.Replace(crashPools, "create: 20ms", "creat: 20ms", 1))
	template := put(t, dir, "template.yaml", strings.Replace(crashPools, "machines: 12,", "machines: 12, template: {image: x},", 1))
	kubeconfig := put(t, dir, "kubeconfig.yaml", strings.Replace(capiPools, "KUBECONFIG", filepath.Join(dir, "nowhere"), 1))
	early := put(t, dir, "early.yaml", strings.Replace(capiPools, "lateBound: true, ", "", 1))
	value := put(t, dir, "value.yaml", strings.Replace(crashPools, "create: 20ms", "failureRate: 2", 1))
	torn := put(t, dir, "torn.yaml", strings.Replace(crashPools, "driver: sim, machines", "machines", 1))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, "--pools is missing"},
		{[]string{"serve", "--pools", good, "--listen", "x"}, "--listen must be HOST:PORT"},
		{[]string{"serve", "--pools", good, "--log-level", "loud"}, "--log-level must be"},
		{[]string{"serve", "--pools", good, "--data-dir", ""}, "--data-dir is empty"},
		{[]string{"serve", "--pools", good, "--tls-cert", "x"}, "tls-key"},
		{[]string{"serve", "--pools", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"serve", "--pools", good, "--nothing"}, "unknown flag"},
		{[]string{"serve", "there"}, "unexpected argument"},
		{[]string{"pools", "validate"}, "-f is missing"},
		{[]string{"pools", "validate", "-f", unknown}, `there is no kind "cloudy"; known are`},
		{[]string{"pools", "validate", "-f", config}, `config.yaml:2:85: drivers[0].config: json: unknown field "creat"`},
		{[]string{"pools", "validate", "-f", value}, "value.yaml:2:99: drivers[0].config.failureRate: must be a probability"},
		{[]string{"serve", "--pools", value}, "value.yaml:2:99: drivers[0].config.failureRate: must be a probability"},
		{[]string{"pools", "validate", "-f", template}, "simulated machines have none"},
		{[]string{"serve", "--pools", kubeconfig, "--data-dir", filepath.Join(dir, "data")}, `kubeconfig.yaml: driver "capi": management cluster: kubeconfig ` + dir + "/nowhere: open"},
		{[]string{"pools", "validate", "-f", early}, `pool "late", type "t": lateBound: true is missing; Cluster API makes a machine for one cluster`},
		{[]string{"pools", "validate", "-f", torn}, "torn.yaml:4:3: pools[0].driver: is missing"},
		{[]string{"pools", "import"}, "give either --catalogue or --types"},
		{[]string{"pools", "import", "--catalogue", good}, "--provider and --region are missing"},
		{[]string{"pools", "import", "--catalogue", good, "--provider", "a", "--region", "b", "--reserve", "cpu=x"}, "--reserve: cpu=x"},
		{[]string{"orphans", "-o", "xml"}, "-o must be table, json or yaml"},
		{[]string{"orphans", "--addr", "127.0.0.1:8800"}, "--addr must be a URL"},
		{[]string{"orphans", "delete"}, "name the orphans"},
		{[]string{"orphans", "list", "x"}, "unexpected argument"},
		{[]string{"serve", "--pools", good, "--lease", "x"}, "--lease must be NAMESPACE/NAME"},
		{[]string{"serve", "--pools", good, "--lease", "a/b", "--standby"}, "give one of them"},
		{[]string{"serve", "--pools", good, "--lease", "a/b", "--lease-duration", "1s"}, "--lease-duration must be 3s to 5m0s"},
		{[]string{"serve", "--pools", good, "--lease-pod", "p"}, "--lease-pod needs --lease"},
		{[]string{"serve", "--pools", good, "--data-dir", dir, "--lease", "a/b"}, "there is no service account"},
		{[]string{"serve", "--pools", good, "--data-dir", dir, "--lease", "a/b", "--kubeconfig", filepath.Join(dir, "none")}, "no such file"},
	} {
		code, _, err := runs(t, "", c.args...)
		if code != exitBadInput || !strings.Contains(err, c.want) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", c.args, code, err, exitBadInput, c.want)
		}
	}
}

func TestPoolsCommands(t *testing.T) {
	dir := t.TempDir()
	code, out, err := runs(t, "", "pools", "validate", "-f", put(t, dir, "pools.yaml", crashPools))
	if code != exitOK || !strings.Contains(out, "pool late: driver sim, 12 machines at most, 1 offer\n") {
		t.Errorf("validate: %d, %q, %q", code, out, err)
	}
	code, out, _ = runs(t, "", "pools", "schema")
	if code != exitOK || !json.Valid([]byte(out)) {
		t.Errorf("schema: %d, %q", code, out)
	}
	catalogue := `provider,region,instance_type,arch,vcpu,memory_mib,gpu_count,gpu_model,accel_count,alloc_cpu_milli,alloc_memory_mib,alloc_pods,on_demand_usd_h,spot_usd_h,interruption_bucket,zones
aws,east,m5.large,amd64,2,8192,0,,0,1930,7000,29,0.096,0.04,1,
gcp,c1,n1,amd64,4,15360,0,,0,,,,0.2,0.05,,c1-a c1-b
`
	types := filepath.Join(dir, "types.yaml")
	code, _, err = runs(t, catalogue, "pools", "import", "--catalogue", "-", "--provider", "aws", "--region", "east", "--zones", "a,b", "-o", types)
	if code != exitOK || !strings.Contains(err, "1 types written") {
		t.Fatalf("import: %d, %q", code, err)
	}
	code, _, err = runs(t, "instance_type,capacity_type,price_per_hour\nm5.large,OnDemand,0.5\nx,Spot,1\n", "pools", "import", "--types", types, "--prices", "-", "-o", types)
	if code != exitOK || !strings.Contains(err, "1 of 2 prices are for types that are not there") {
		t.Fatalf("prices: %d, %q", code, err)
	}
	text, _ := os.ReadFile(types)
	if !strings.Contains(string(text), "{capacityType: OnDemand, pricePerHour: 0.5}") {
		t.Errorf("types file %s", text)
	}
	used := put(t, dir, "used.yaml", `drivers: [{name: sim, kind: simulated}]
pools: [{name: p, driver: sim, machines: 1, typesFile: types.yaml}]
`)
	if code, out, err := runs(t, "", "pools", "validate", "-f", used); code != exitOK || !strings.Contains(out, "4 offers") {
		t.Errorf("validate with a types file: %d, %q, %q", code, out, err)
	}
	code, out, err = runs(t, catalogue, "pools", "import", "--catalogue", "-", "--provider", "gcp", "--region", "c1")
	if code != exitOK || !strings.Contains(err, "n1: the catalogue does not say what is allocatable") || out != "types:\n" {
		t.Errorf("import without reserve: %d, %q, %q", code, out, err)
	}
}

// An orphan is listed with the reason, and deleted only when it is named and --yes is given.
func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "pools.yaml", crashPools)
	c := spawn(t, dir, "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
	client := dialed(t, c.address)
	id := earlyOf(slotsOf(t, client, 24))
	if _, err := client.Create(t.Context(), &pb.CreateRequest{MachineId: id}); err != nil {
		t.Fatal(err)
	}
	w := walker{t: t, client: client}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if m := w.settled(ctx, id); m.GetState() != pb.MachineState_MACHINE_STATE_IDLE {
		t.Fatalf("machine %v", m)
	}
	c.kill()
	// With neither its record nor its pool, the machine is an orphan.
	if err := os.Remove(filepath.Join(dir, provider.FileName)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "pools.yaml", strings.Replace(crashPools, "name: t,", "name: u,", 2))
	c = spawn(t, dir, "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")
	defer func() { c.kill() }()
	url := "http://" + c.metrics
	list := func(output string) (int, string) {
		code, out, _ := runs(t, "", "orphans", "list", "--addr", url, "-o", output)
		return code, out
	}
	for code := exitOK; code == exitOK && ctx.Err() == nil; code, _ = list("table") {
		pause(ctx, 50*time.Millisecond)
	}
	for _, output := range []string{"table", "json", "yaml"} {
		if code, out := list(output); code != exitInternal || !strings.Contains(out, id) || !strings.Contains(out, "no pool has such an offer") {
			t.Errorf("list -o %s: %d, %q", output, code, out)
		}
	}
	for _, x := range []struct {
		args      []string
		code      int
		out, says string
	}{
		{[]string{id}, exitBadInput, id, "nothing is deleted; give --yes to delete the 1 orphans listed"},
		{[]string{"--yes", "other"}, exitInternal, "", `"other" names no orphan`},
		{[]string{"--yes", "--driver", "x", id}, exitInternal, "", "names no orphan of driver x"},
		{[]string{"--yes", id + "/7"}, exitInternal, "", "names no orphan"},
		{[]string{"--yes", "-o", "json", id + "/1"}, exitOK, id, "1 orphans are being deleted"},
	} {
		code, out, says := runs(t, "", append([]string{"orphans", "delete", "--addr", url}, x.args...)...)
		if code != x.code || !strings.Contains(out, x.out) || !strings.Contains(says, x.says) {
			t.Errorf("delete %v: %d, %q, %q; want %d, %q, %q", x.args, code, out, says, x.code, x.out, x.says)
		}
	}
	for code := exitInternal; code != exitOK && ctx.Err() == nil; code, _ = list("table") {
		pause(ctx, 50*time.Millisecond)
	}
	if code, out := list("table"); code != exitOK {
		t.Errorf("after the deletion: %d, %q", code, out)
	}
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for _, want := range []string{`tonnage_provider_orphans_deleted_total{driver="sim"} 1`, `tonnage_provider_orphans{driver="sim"} 0`, "tonnage_provider_leads 1"} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// A second process is refused the folder, or stands by and takes over when the first is killed; a pools file that
// changes is taken over by it.
func TestStandbyAndReload(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "pools.yaml", crashPools)
	first := spawn(t, dir, "127.0.0.1:0")
	code, _, said := runs(t, "", "serve", "--pools", filepath.Join(dir, "pools.yaml"), "--data-dir", dir, "--listen", "127.0.0.1:0", "--metrics-addr", "0")
	if code != exitBadInput || !strings.Contains(said, "in use by another tonnage-provider") {
		t.Errorf("a second process: %d, %q", code, said)
	}
	taken := make(chan *child, 1)
	go func() { taken <- spawn(t, dir, "127.0.0.1:0", "--standby") }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	log := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return string(text)
	}
	for !strings.Contains(log(), "stands by") && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
	}
	first.kill()
	second := <-taken
	defer second.kill()
	client := dialed(t, second.address)
	slotsOf(t, client, 24)
	put(t, dir, "pools.yaml", "pools: [")
	for !strings.Contains(log(), "pools are not taken over") && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
	}
	put(t, dir, "pools.yaml", strings.Replace(crashPools, "pricePerHour: 1}", "pricePerHour: 7}", 2))
	for {
		l, err := client.List(ctx, &pb.ListFilter{})
		if err != nil {
			t.Fatalf("%v\n%s", err, log())
		}
		if m := l.GetMachines(); len(m) == 24 && m[0].GetPricePerHour() == 7 {
			break
		}
		pause(ctx, 20*time.Millisecond)
	}
	if !strings.Contains(log(), fmt.Sprintf("%s/pools.yaml: ", dir)) && !strings.Contains(log(), "pools.yaml") {
		t.Errorf("the log does not name the file:\n%s", log())
	}
}
