package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	// openTimeout is how long the management cluster may take to answer at the start.
	openTimeout = 10 * time.Second
	// firstListTimeout is how long Observe waits for the first listing of something.
	firstListTimeout = 10 * time.Second
	// templatesMax is how many parsed templates are kept.
	templatesMax = 4096
	// mendersMax is how many nodes are written to at the same time.
	mendersMax = 8
)

// Driver makes machines through Cluster API; see the package's essay. Safe for concurrent use.
type Driver struct {
	settings   *Settings
	scope      string
	log        *slog.Logger
	management *kube.Endpoint
	machines   map[string]*kube.Table[*machine] // by namespace
	changed    chan struct{}
	menders    chan struct{} // taken by each write to a node

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	kinds     map[schema.GroupKind]kind
	templates map[string]*template
	infra     map[infraKey]*kube.Table[infraRow]
	fleets    map[fleetKey]*fleet
	mending   map[string]time.Time // nodes that are written to, or were a moment ago
	missing   map[string]time.Time // machines whose node is not there, since when
}

// infraKey names a table of infrastructure objects.
type infraKey struct {
	group, kind, namespace string
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Checker  = (*Driver)(nil)
	_ driver.Notifier = (*Driver)(nil)
)

// Open starts a driver. name is its name in the pools file. It fails when the credentials cannot be read or the management cluster
// has no Cluster API that it can use (ErrVersion); one that cannot be reached now may be later. ctx ends the wait for it, and nothing else.
func Open(ctx context.Context, s *Settings, name string, log *slog.Logger) (*Driver, error) {
	e := kube.InCluster()
	if s.Kubeconfig != "" {
		e = kube.File(s.Kubeconfig, s.Context)
	}
	return OpenAt(ctx, s, name, log, e)
}

// OpenAt is Open with a connection to the management cluster that is there already.
func OpenAt(ctx context.Context, s *Settings, name string, log *slog.Logger, e *kube.Endpoint) (*Driver, error) {
	scope := s.Scope
	if scope == "" {
		scope = name
	}
	if faults := validation.IsValidLabelValue(scope); len(faults) > 0 {
		return nil, fmt.Errorf("the driver's name %q cannot mark its objects (%s); set scope in its config", name, faults[0])
	}
	first, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c, err := e.Clients(first)
	if err != nil {
		return nil, fmt.Errorf("management cluster: %w", err)
	}
	if err := checkVersion(first, e, c); errors.Is(err, ErrVersion) || ctx.Err() != nil {
		return nil, fmt.Errorf("management cluster: %w", errors.Join(err, ctx.Err()))
	} else if err != nil {
		log.Warn("the management cluster does not answer yet", "error", err)
	}
	d := &Driver{
		settings: s, scope: scope, log: log, management: e, machines: map[string]*kube.Table[*machine]{},
		changed: make(chan struct{}, 1), menders: make(chan struct{}, mendersMax),
		kinds: map[schema.GroupKind]kind{}, templates: map[string]*template{}, infra: map[infraKey]*kube.Table[infraRow]{},
		fleets: map[fleetKey]*fleet{}, mending: map[string]time.Time{}, missing: map[string]time.Time{},
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.running.Go(func() { e.Run(d.ctx) })
	for _, namespace := range s.namespaces() {
		t := kube.NewTable(e, kube.Scope{Resource: machines, Namespace: namespace, Selector: kube.LabelScope + "=" + scope}, readMachine, d.notify)
		d.machines[namespace] = t
		d.running.Go(func() { t.Run(d.ctx) })
	}
	return d, nil
}

// Close ends all watches.
func (d *Driver) Close() error {
	d.stop()
	d.running.Wait()
	return nil
}

// notify has the provider observe soon.
func (d *Driver) notify() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Changed implements driver.Notifier.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

// Check refuses templates that say nothing sensible, and pools that are not late-bound. It needs nothing of the driver,
// which may be nil.
func (d *Driver) Check(o *driver.Offer, p driver.PoolTraits) error {
	if !p.LateBound {
		return errors.New("lateBound: true is missing; Cluster API makes a machine for one cluster")
	}
	t, err := parseTemplate(o.Template)
	if err != nil {
		return err
	}
	_, err = t.render(o)
	return err
}

// Create refuses: a machine of Cluster API is made when its cluster is known.
func (d *Driver) Create(context.Context, *driver.Machine, driver.Owner) error {
	return fmt.Errorf("%w: Cluster API makes a machine for one cluster; the pool must be lateBound", driver.ErrPermanent)
}

// template returns the parsed template of an offer.
func (d *Driver) template(o *driver.Offer) (*template, error) {
	text := string(o.Template)
	d.mu.Lock()
	t := d.templates[text]
	d.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := parseTemplate(o.Template)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.templates) >= templatesMax {
		clear(d.templates)
	}
	d.templates[text] = t
	return t, nil
}

// infraTable returns the table of a kind of infrastructure, and begins it.
func (d *Driver) infraTable(ctx context.Context, group, kind, namespace string) (*kube.Table[infraRow], error) {
	key := infraKey{group, kind, namespace}
	d.mu.Lock()
	t := d.infra[key]
	d.mu.Unlock()
	if t != nil {
		return t, nil
	}
	k, err := d.kindOf(ctx, group, kind)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.infra[key]; t != nil {
		return t, nil
	}
	if d.ctx.Err() != nil {
		return nil, d.ctx.Err()
	}
	t = kube.NewTable(d.management, kube.Scope{Resource: k.resource, Namespace: namespace, Selector: kube.LabelScope + "=" + d.scope, MetadataOnly: true}, readInfra, d.notify)
	d.infra[key] = t
	d.running.Go(func() { t.Run(d.ctx) })
	return t, nil
}

// find returns the Machine of a making, nil = there is none.
func (d *Driver) find(ctx context.Context, m *driver.Machine) (*machine, error) {
	name := driver.ObjectName(m.ID, m.Generation)
	for namespace, t := range d.machines {
		if err := t.Await(ctx, ""); err != nil {
			return nil, err
		}
		if row, ok := t.Get(kube.Key(namespace, name)); ok {
			if row.fault == nil && (row.said.ID != m.ID || row.said.Generation != m.Generation) {
				return nil, fmt.Errorf("%w: Machine %s/%s is of machine %q", driver.ErrPermanent, namespace, name, row.said.ID)
			}
			return row, nil
		}
	}
	// One that somebody has made by hand may have any name; Observe calls one that says nothing by its own.
	var out *machine
	for _, t := range d.machines {
		t.Each(func(key string, row *machine) {
			if row.fault == nil && row.said.ID == m.ID && row.said.Generation == m.Generation || row.fault != nil && key == m.ID && m.Generation == 0 {
				out = row
			}
		})
	}
	return out, nil
}
