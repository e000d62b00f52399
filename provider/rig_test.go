package provider_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// meddler is the simulated cloud with somebody in between.
type meddler struct {
	*cloud.Cloud
	mu    sync.Mutex
	alter func(*driver.Observation) bool             // false = it is not seen
	fail  func(verb string, m *driver.Machine) error // before the verb
	blind error                                      // of Observe
	verbs []string
}

func (d *meddler) before(verb string, m *driver.Machine) error {
	d.mu.Lock()
	d.verbs = append(d.verbs, fmt.Sprintf("%s %s/%d", verb, m.ID, m.Generation))
	var err error
	if d.fail != nil {
		err = d.fail(verb, m)
	}
	d.mu.Unlock()
	if err != nil {
		<-time.After(failsAfter)
	}
	return err
}

// failsAfter is how long a verb that fails takes: what a test asks for at one time has begun before, in whatever round.
const failsAfter = time.Second

func (d *meddler) set(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// count returns how many verbs begin with a text.
func (d *meddler) count(prefix string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.verbs {
		if strings.HasPrefix(v, prefix) {
			n++
		}
	}
	return n
}

func (d *meddler) Create(ctx context.Context, m *driver.Machine, o driver.Owner) error {
	if err := d.before("Create", m); err != nil {
		return err
	}
	return d.Cloud.Create(ctx, m, o)
}

func (d *meddler) Configure(ctx context.Context, m *driver.Machine, b *driver.Binding) error {
	if err := d.before("Configure", m); err != nil {
		return err
	}
	if string(b.Blob) != "blob" {
		return fmt.Errorf("the blob is %q: %w", b.Blob, driver.ErrPermanent)
	}
	return d.Cloud.Configure(ctx, m, b)
}

func (d *meddler) Drain(ctx context.Context, m *driver.Machine, deadline time.Time) error {
	if err := d.before("Drain", m); err != nil {
		return err
	}
	return d.Cloud.Drain(ctx, m, deadline)
}

func (d *meddler) Delete(ctx context.Context, m *driver.Machine) error {
	if err := d.before("Delete", m); err != nil {
		return err
	}
	return d.Cloud.Delete(ctx, m)
}

func (d *meddler) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, some := d.blind.(*driver.Unseen) //nolint:errorlint // as the provider looks at it
	if d.blind != nil && !some {
		return d.blind
	}
	err := d.Cloud.Observe(ctx, func(o *driver.Observation) {
		x := *o
		if (!some || u.Clusters[x.Cluster] == nil) && (d.alter == nil || d.alter(&x)) {
			yield(&x)
		}
	})
	if err == nil {
		err = d.blind
	}
	return err
}

// objects returns what exists, by "id/generation", whatever meddles.
func (d *meddler) objects(t *testing.T) map[string]driver.Observation {
	t.Helper()
	out := map[string]driver.Observation{}
	if err := d.Cloud.Observe(t.Context(), func(o *driver.Observation) { out[fmt.Sprintf("%s/%d", o.ID, o.Generation)] = *o }); err != nil {
		t.Fatal(err)
	}
	return out
}

// rig is a provider over a simulated cloud, in a bubble of its own time.
type rig struct {
	t        *testing.T
	dir      string
	file     string
	provider *provider.Provider
	driver   *meddler
	end      func()
	sequence int64
	// open makes the driver; nil = a meddler with a simulated cloud.
	open func() driver.Driver
	log  *slog.Logger
	// blind is what Observe fails with from the start.
	blind error
	last  string // provider.Config.Last
}

const drivers = `drivers: [{name: sim, kind: simulated, launchesPerMinute: 6000, launchBurst: 1000}]
`

// small is a type of one offer in a zone.
const small = `types: [{name: small, resources: {cpu: 2}, labels: {disk: ssd}, prices: [{capacityType: OnDemand, pricePerHour: 0.1}]}]`

func parse(t *testing.T, dir, file string) *pools.File {
	t.Helper()
	path := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := pools.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// inBubble runs a test with a provider of the pools, whose changes take ten seconds each.
func inBubble(t *testing.T, file string, test func(*testing.T, *rig)) {
	inBubbleOf(t, file, nil, test)
}

// inBubbleOf is inBubble with another driver.
func inBubbleOf(t *testing.T, file string, open func() driver.Driver, test func(*testing.T, *rig)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: dir, file: drivers + file, open: open}
		r.start()
		defer func() { r.end() }()
		test(t, r)
	})
}

func (r *rig) start() {
	r.t.Helper()
	ten := cloud.Span(10 * time.Second)
	p, err := provider.Open(provider.Config{
		Dir: r.dir, Pools: parse(r.t, r.dir, r.file), Log: r.log, Last: r.last,
		Driver: func(d *pools.Driver) (driver.Driver, error) {
			if r.open != nil {
				return r.open(), nil
			}
			cfg, err := cloud.ParseConfig(d.Config)
			if err != nil {
				return nil, err
			}
			cfg.File, cfg.Create, cfg.Configure, cfg.Drain, cfg.Delete = filepath.Join(r.dir, "cloud.db"), ten, ten, ten, ten
			c, err := cloud.Open(cfg, 1, nil)
			r.driver = &meddler{Cloud: c, blind: r.blind}
			return r.driver, err
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.provider = p
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	r.end = func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
			r.t.Error(err)
		}
	}
	r.pass(5 * time.Second)
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// do makes a call of shard s.
func (r *rig) do(op shard.Op, id, cluster string) (calls.Answer, error) {
	r.sequence++
	return r.provider.Do(r.t.Context(), &calls.Call{
		Op: op, Machine: id, Cluster: cluster, Metadata: map[string]string{"k": cluster}, Blob: []byte("blob"), Grace: time.Minute,
		Shard: "s", Token: epoch.Token{Epoch: 1, Sequence: r.sequence},
	})
}

// must is do of a call that is accepted.
func (r *rig) must(op shard.Op, id, cluster string) *pb.Machine {
	r.t.Helper()
	a, err := r.do(op, id, cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &pb.Machine{}
	if err := proto.Unmarshal(a.Machine, m); err != nil {
		r.t.Fatal(err)
	}
	return m
}

// list returns all machines by id, in the order of no matter what.
func (r *rig) list() map[string]*pb.Machine {
	r.t.Helper()
	msg, _, err := r.provider.List(calls.ListFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	l := &pb.MachineList{}
	if err := proto.Unmarshal(msg, l); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]*pb.Machine{}
	var states [9]int
	for _, m := range l.GetMachines() {
		if out[m.GetId()] != nil {
			r.t.Errorf("machine %q is listed twice", m.GetId())
		}
		out[m.GetId()] = m
		states[m.GetState()]++
	}
	if counted := r.provider.States(); counted != states {
		r.t.Errorf("counted %v, listed %v", counted, states)
	}
	return out
}

// in returns the ids of machines in a state, in order.
func (r *rig) in(state pb.MachineState) (ids []string) {
	for id, m := range r.list() {
		if m.GetState() == state {
			ids = append(ids, id)
		}
	}
	return sorted(ids)
}

// want fails unless a machine is in a state.
func (r *rig) want(id string, state pb.MachineState) *pb.Machine {
	r.t.Helper()
	m := r.list()[id]
	if m.GetState() != state {
		r.t.Fatalf("machine %q is %v (%s), want %v", id, m.GetState(), m.GetLastError(), state)
	}
	return m
}

// bind binds a slot to a cluster.
func (r *rig) bind(id, cluster string) {
	r.t.Helper()
	r.must(shard.OpCreate, id, "")
	r.pass(20 * time.Second)
	r.must(shard.OpConfigure, id, cluster)
	r.pass(40 * time.Second)
	r.want(id, configured)
}

const (
	speculative = pb.MachineState_MACHINE_STATE_SPECULATIVE
	creating    = pb.MachineState_MACHINE_STATE_CREATING
	idle        = pb.MachineState_MACHINE_STATE_IDLE
	configuring = pb.MachineState_MACHINE_STATE_CONFIGURING
	configured  = pb.MachineState_MACHINE_STATE_CONFIGURED
	draining    = pb.MachineState_MACHINE_STATE_DRAINING
	deleting    = pb.MachineState_MACHINE_STATE_DELETING
	failed      = pb.MachineState_MACHINE_STATE_FAILED
)
