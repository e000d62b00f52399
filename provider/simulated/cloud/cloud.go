package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/provider/driver"
)

// object is a machine of the simulated cloud.
type object struct {
	driver.Observation
	Due    time.Time // when the change under way ends; zero = none is
	Doomed bool      // it ends in Failed
}

// Cloud is a driver. Safe for concurrent use.
type Cloud struct {
	cfg Config
	db  *bbolt.DB
	now func() time.Time

	mu      sync.Mutex
	objects map[string]*object // by name
	counts  map[driver.Key]int
	hosts   map[string]string // hosts of owned pools: name of the object
	looked  time.Time
	rng     *rand.Rand
	changed chan struct{}
}

var (
	_ driver.Driver   = (*Cloud)(nil)
	_ driver.Notifier = (*Cloud)(nil)
	_ driver.Checker  = (*Cloud)(nil)
)

var bucket = []byte("objects")

// Open opens the cloud of a file, or makes an empty one. now may be nil.
func Open(cfg Config, seed uint64, now func() time.Time) (*Cloud, error) {
	if now == nil {
		now = time.Now
	}
	// A crash of the process loses nothing that was written, and one of the system may.
	db, err := bbolt.Open(cfg.File, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return nil, fmt.Errorf("simulated cloud %s: %w", cfg.File, err)
	}
	c := &Cloud{
		cfg: cfg, db: db, now: now, objects: map[string]*object{}, counts: map[driver.Key]int{}, hosts: map[string]string{}, looked: now(),
		rng: rand.New(rand.NewPCG(seed, 0x636c6f7564)), changed: make(chan struct{}, 1),
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			o := &object{}
			if err := json.Unmarshal(v, o); err != nil {
				return fmt.Errorf("object %q: %w", k, err)
			}
			c.objects[string(k)] = o
			c.counts[o.Key]++
			c.hosts[o.HostName] = string(k)
			return nil
		})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("simulated cloud %s: %w", cfg.File, err), db.Close())
	}
	return c, nil
}

// Close closes the file.
func (c *Cloud) Close() error { return c.db.Close() }

// Changed tells of changes that were begun.
func (c *Cloud) Changed() <-chan struct{} { return c.changed }

// Check accepts every offer without a template.
func (c *Cloud) Check(o *driver.Offer, _ driver.PoolTraits) error {
	if len(o.Template) > 0 {
		return errors.New("template: simulated machines have none; leave it out")
	}
	return nil
}

// put writes objects; nil = it is gone.
func (c *Cloud) put(name string, o *object) error {
	err := c.db.Update(func(tx *bbolt.Tx) error {
		if o == nil {
			return tx.Bucket(bucket).Delete([]byte(name))
		}
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return tx.Bucket(bucket).Put([]byte(name), text)
	})
	if err != nil {
		return err
	}
	was := c.objects[name]
	switch {
	case o == nil && was != nil:
		delete(c.objects, name)
		c.counts[was.Key]--
		delete(c.hosts, was.HostName)
	case o != nil:
		if was == nil {
			c.counts[o.Key]++
			c.hosts[o.HostName] = name
		}
		c.objects[name] = o
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

// begin changes an object and says when the change ends.
func (c *Cloud) begin(name string, o object, p driver.Phase, takes Span) error {
	o.Phase = p
	o.Due = c.now().Add(time.Duration(takes))
	o.Doomed = (p == driver.Creating || p == driver.Configuring) && c.rng.Float64() < c.cfg.FailureRate
	return c.put(name, &o)
}

// make makes a new object.
func (c *Cloud) make(m *driver.Machine, o object, p driver.Phase, takes Span) error {
	for i := range c.cfg.Capacity {
		if x := &c.cfg.Capacity[i]; x.fits(m.Offer.Key) {
			if c.counts[m.Offer.Key] >= x.Machines {
				return fmt.Errorf("%d machines of %s in %s are all there are: %w", x.Machines, m.Offer.InstanceType, m.Offer.Zone, driver.ErrOutOfStock)
			}
			break
		}
	}
	if other := c.hosts[m.Host]; m.Host != "" && other != "" {
		return fmt.Errorf("host %s is still object %s", m.Host, other)
	}
	o.ID, o.Generation, o.Key, o.LateBound, o.HostName = m.ID, m.Generation, m.Offer.Key, m.LateBound, m.Host
	name := driver.ObjectName(m.ID, m.Generation)
	o.Ref = "simulated://" + name
	return c.begin(name, o, p, takes)
}

// Create makes an early-bound machine.
func (c *Cloud) Create(_ context.Context, m *driver.Machine, by driver.Owner) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[driver.ObjectName(m.ID, m.Generation)] != nil {
		return nil
	}
	return c.make(m, object{Observation: driver.Observation{Owner: by}}, driver.Creating, c.cfg.Create)
}

// Configure binds a machine, or makes it for its cluster.
func (c *Cloud) Configure(_ context.Context, m *driver.Machine, b *driver.Binding) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := driver.ObjectName(m.ID, m.Generation)
	bound := object{Observation: driver.Observation{Owner: b.Owner, Cluster: b.Cluster, Metadata: b.Metadata}}
	o := c.objects[name]
	switch {
	case o == nil && m.LateBound:
		return c.make(m, bound, driver.Configuring, c.cfg.Create+c.cfg.Configure)
	case o == nil:
		return fmt.Errorf("there is no machine %s: %w", name, driver.ErrPermanent)
	case o.Cluster == b.Cluster && (o.Phase == driver.Configuring || o.Phase == driver.Configured):
		return nil
	case o.Phase != driver.Idle:
		return fmt.Errorf("machine %s is %s", name, o.Phase)
	}
	next := *o
	next.Owner, next.Cluster, next.Metadata = b.Owner, b.Cluster, b.Metadata
	return c.begin(name, next, driver.Configuring, c.cfg.Configure)
}

// Drain takes a machine out of its cluster.
func (c *Cloud) Drain(_ context.Context, m *driver.Machine, _ time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := driver.ObjectName(m.ID, m.Generation)
	o := c.objects[name]
	if o == nil || o.Phase != driver.Configured && o.Phase != driver.Configuring {
		return nil // gone, or on its way
	}
	return c.begin(name, *o, driver.Draining, c.cfg.Drain)
}

// Delete removes a machine.
func (c *Cloud) Delete(_ context.Context, m *driver.Machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := driver.ObjectName(m.ID, m.Generation)
	o := c.objects[name]
	if o == nil || o.Phase == driver.Deleting {
		return nil
	}
	return c.begin(name, *o, driver.Deleting, c.cfg.Delete)
}

// Observe yields every object as it is now.
func (c *Cloud) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	lost := 1 - math.Pow(1-c.cfg.LossPerHour, max(now.Sub(c.looked), 0).Hours())
	c.looked = now
	for name, o := range c.objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, gone := o.at(now)
		if gone = gone || lost > 0 && c.rng.Float64() < lost; gone {
			if err := c.put(name, nil); err != nil {
				return err
			}
			continue
		}
		if next.Phase != o.Phase {
			if err := c.put(name, next); err != nil {
				return err
			}
		}
		yield(&next.Observation)
	}
	return nil
}

// at returns an object as it is at a time, and whether it is gone by then.
func (o *object) at(now time.Time) (next *object, gone bool) {
	if o.Due.IsZero() || now.Before(o.Due) {
		return o, false
	}
	x := *o
	x.Due, x.Doomed = time.Time{}, false
	switch {
	case o.Doomed:
		x.Phase, x.Reason = driver.Failed, o.Phase.String()+": failed, as was asked for"
	case o.Phase == driver.Creating:
		x.Phase = driver.Idle
	case o.Phase == driver.Configuring:
		x.Phase, x.Node = driver.Configured, driver.ObjectName(o.ID, o.Generation)
	case o.Phase == driver.Draining && !o.LateBound:
		x.Phase, x.Cluster, x.Metadata, x.Node = driver.Idle, "", nil, ""
	case o.Phase == driver.Draining, o.Phase == driver.Deleting:
		return nil, true
	}
	return &x, false
}
