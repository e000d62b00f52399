package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// Bad input is refused with what is wrong and what to do, and exit code 2.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	good := put(t, dir, "good.yaml", crashPools)
	unknown := put(t, dir, "kind.yaml", strings.Replace(crashPools, "kind: simulated", "kind: cloudy", 1))
	config := put(t, dir, "config.yaml", strings.Replace(crashPools, "create: 20ms", "creat: 20ms", 1))
	template := put(t, dir, "template.yaml", strings.Replace(crashPools, "machines: 12,", "machines: 12, template: {image: x},", 1))
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
		{[]string{"pools", "validate", "-f", config}, `unknown field "creat"`},
		{[]string{"pools", "validate", "-f", template}, "simulated machines have none"},
		{[]string{"pools", "validate", "-f", torn}, "torn.yaml:4:3: pools[0].driver: is missing"},
		{[]string{"pools", "import"}, "give either --catalogue or --types"},
		{[]string{"pools", "import", "--catalogue", good}, "--provider and --region are missing"},
		{[]string{"pools", "import", "--catalogue", good, "--provider", "a", "--region", "b", "--reserve", "cpu=x"}, "--reserve: cpu=x"},
		{[]string{"orphans", "-o", "yaml"}, "-o must be table or json"},
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
	if code != exitOK || !strings.Contains(out, "pool late: driver sim, 12 machines at most, 1 offers") {
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

func TestWriteOrphans(t *testing.T) {
	list := orphanList{Orphans: []provider.Orphan{{Driver: "d", ID: "m-1", Generation: 2, Why: "no pool has such an offer", Phase: "Idle"}}}
	for _, output := range []string{"table", "json"} {
		var b bytes.Buffer
		if err := writeOrphans(&b, list, output); err == nil || !strings.Contains(b.String(), "m-1") || !strings.Contains(b.String(), "no pool") {
			t.Errorf("%s: %q, %v", output, b.String(), err)
		}
		b.Reset()
		if err := writeOrphans(&b, orphanList{Orphans: []provider.Orphan{}}, output); err != nil {
			t.Errorf("none: %v", err)
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
	conn, err := grpc.NewClient(second.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pb.NewCapacityProviderClient(conn)
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
