package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/freeport"
)

// The rhythm of the shards, much faster than it is in use.
const (
	cycleEvery     = 200 * time.Millisecond
	heartbeatEvery = 200 * time.Millisecond
	patience       = 60 * time.Second
)

// machineCPU is what one machine has, and what each Need asks for.
const machineCPU = 16

// zone is the machines of one shard: idle ones, and slots that can be bought.
type zone struct {
	name        string
	idle, slots int
}

// regionMachines are the machines of three shards.
var regionMachines = []zone{{"a", 24, 0}, {"b", 10, 12}, {"c", 8, 0}}

// region is some shards over one provider, whose machines are divided by zone,
// and an operator of one cluster at each.
type region struct {
	t        testing.TB
	g        *group
	zones    []zone
	provider *node
	shards   []*node
	clusters []*operator
	store    bigfleet.CapacityProviderClient
	all      map[string]bool   // every machine
	last     []map[string]bool // whose each was when its shard was last asked
}

func regionFleet(t testing.TB, zones []zone) string {
	t.Helper()
	var ms []string
	for _, z := range zones {
		for i := range z.idle + z.slots {
			state, kind := "Idle", "BareMetal"
			if i >= z.idle {
				state, kind = "Speculative", "OnDemand"
			}
			ms = append(ms, fmt.Sprintf(`{"id":"%s-%03d","state":%q,"instanceType":"std","capacityType":%q,"zone":%q,"pricePerHour":1,"resources":{"cpu":"%d"}}`,
				z.name, i, state, kind, z.name, machineCPU))
		}
	}
	path := filepath.Join(t.TempDir(), "world.json")
	if err := os.WriteFile(path, []byte(`{"machines":[`+strings.Join(ms, ",")+`],"needs":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// newRegion starts provider and shards; they have certificates where the group has.
func newRegion(t testing.TB, g *group, zones []zone) *region {
	t.Helper()
	dir, ports := t.TempDir(), freeport.TakeN(t, 1+2*len(zones))
	r := &region{t: t, g: g, zones: zones, all: map[string]bool{}, last: make([]map[string]bool, len(zones))}
	secret, _ := g.as("provider/region")
	r.provider = &node{id: "provider", listen: ports[0]}
	r.provider.launch(t, append([]string{binary, "provider", "--listen=" + r.provider.listen, "--metrics-addr=0", "--data-dir=" + filepath.Join(dir, "provider"),
		"--latency=10ms-50ms", "--seed-file=" + regionFleet(t, zones)}, secret...)...)
	t.Cleanup(func() { r.provider.end(t) })
	for i := range zones {
		n := &node{id: fmt.Sprint("shard-", i), listen: ports[1+2*i], metrics: ports[2+2*i]}
		secret, _ := g.as("shard/" + n.id)
		if secret != nil {
			secret = append(secret, "--provider-identity=bigfleet://provider/region")
		}
		n.launch(t, append([]string{binary, "shard", "--id=" + n.id, "--provider-addr=" + r.provider.listen, "--listen=" + n.listen, "--metrics-addr=" + n.metrics,
			"--data-dir=" + filepath.Join(dir, n.id), "--cycle-interval=" + cycleEvery.String(), "--incremental-reconcile",
			"--coordinator-addr=" + g.join, "--coordinator-heartbeat-interval=" + heartbeatEvery.String(),
			"--breaker-share=0"}, secret...)...) // demand that swings reclaims many machines, and a shard would pause itself
		t.Cleanup(func() { n.end(t) })
		r.shards = append(r.shards, n)
	}
	_, dial := g.as("readonly")
	conn, err := grpc.NewClient(r.provider.listen, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.store = bigfleet.NewCapacityProviderClient(conn)
	r.assign()
	for i, n := range r.shards {
		cluster := fmt.Sprint("cluster-", i)
		_, dial := g.as("cluster/" + cluster)
		r.clusters = append(r.clusters, connect(t, n.listen, cluster, dial...))
	}
	return r
}

// assign gives each shard its zone, and waits until it has that alone.
func (r *region) assign() {
	r.t.Helper()
	c := r.g.client()
	for i, z := range r.zones {
		eventually(r.t, patience, r.shards[i].id+" is registered and has its zone", func(ctx context.Context) bool {
			return c.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := bigfleet.NewCoordinatorClient(conn).AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: model.KeyZone, TopologyValue: z.name, ShardId: r.shards[i].id})
				return err
			}) == nil
		})
	}
	eventually(r.t, patience, "each shard has its own machines and no other", func(context.Context) bool {
		for id := range r.machines() {
			r.all[id] = true
		}
		for i, z := range r.zones {
			own := r.owns(i)
			for id := range r.all {
				if own[id] != strings.HasPrefix(id, z.name+"-") {
					return false
				}
			}
		}
		return len(r.all) > 0
	})
}

// machines is what the provider has; nil when it does not answer.
func (r *region) machines() map[string]*bigfleet.Machine {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err := r.store.List(ctx, &bigfleet.ListFilter{})
	if err != nil {
		return nil
	}
	out := map[string]*bigfleet.Machine{}
	for _, m := range got.GetMachines() {
		out[m.GetId()] = m
	}
	return out
}

// bound is how many machines serve each cluster.
func (r *region) bound() []int { return r.count(r.machines()) }

func (r *region) count(ms map[string]*bigfleet.Machine) []int {
	out := make([]int, len(r.clusters))
	for _, m := range ms {
		if m.GetState() == bigfleet.MachineState_MACHINE_STATE_CONFIGURED {
			for i, c := range r.clusters {
				if c.cluster == m.GetCluster() {
					out[i]++
				}
			}
		}
	}
	return out
}

// owns asks a shard which machines it has; nil when it does not answer.
func (r *region) owns(i int) map[string]bool {
	var w struct{ Machines []struct{ ID string } }
	if text := r.shards[i].get("/api/world"); text == "" || json.Unmarshal([]byte(text), &w) != nil {
		return nil
	}
	out := map[string]bool{}
	for _, m := range w.Machines {
		out[m.ID] = true
	}
	return out
}

// watch tells whether every machine has its one owner, and ends the test when one
// has two.
func (r *region) watch() bool {
	r.t.Helper()
	one, err := r.look()
	if err != nil {
		r.t.Fatal(err)
	}
	return one
}

// look asks all shards, one after the other, and tells whether every machine
// has its one owner. Who had a machine before and after another was asked had it
// in between.
func (r *region) look() (bool, error) {
	owners := map[string]int{}
	for i := range r.shards {
		now := r.owns(i)
		for id := range now {
			owners[id]++
			for j := range r.shards {
				if j != i && r.last[i][id] && r.last[j][id] {
					return false, fmt.Errorf("machine %s is had by %s and %s", id, r.shards[i].id, r.shards[j].id)
				}
			}
		}
		r.last[i] = now
	}
	for id := range r.all {
		if owners[id] != 1 {
			return false, nil
		}
	}
	return true, nil
}

// get reads a page of the node's metrics address, "" when it does not answer.
func (n *node) get(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.metrics+path, nil)
	if err != nil {
		return ""
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// metric is the sum of the series of a name, by a page of metrics.
func metric(page, name string) (sum float64) {
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{[^}]*\})? (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(page, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		sum += v
	}
	return sum
}
