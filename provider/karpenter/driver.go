package karpenter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	// openTimeout is how long a cluster may take to answer at the start before that is logged.
	openTimeout = 5 * time.Second
	// whyTimeout is how long it may take to find out why a call has failed.
	whyTimeout = 2 * time.Second
	// firstListTimeout is how long Observe waits for the first listing of a cluster.
	firstListTimeout = 10 * time.Second
	// templatesMax is how many parsed templates are kept.
	templatesMax = 4096
	// servedFor is how long a cluster is believed to have Karpenter.
	servedFor = time.Minute
)

var nodeClaims = schema.GroupVersionResource{Group: group, Version: version, Resource: "nodeclaims"}

// ErrVersion is wrapped by errors that say that a cluster does not have the Karpenter that this driver speaks.
var ErrVersion = errors.New("Karpenter 1.0 or later is needed (karpenter.sh/v1)") //nolint:staticcheck // a name

// Driver makes machines through Karpenter; see the package's essay. Safe for concurrent use.
type Driver struct {
	scope    string
	log      *slog.Logger
	clusters map[string]*cluster
	changed  chan struct{}

	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	templates map[string]*template
}

// cluster is the connection to one fleet cluster.
type cluster struct {
	id       string
	endpoint *kube.Endpoint
	claims   *kube.Table[*claim]
	nodes    *kube.Table[*kube.Node]
	waited   bool // Observe has waited for the first listing: one that cannot be reached holds up the others once

	mu      sync.Mutex
	checked time.Time           // when it was found to have Karpenter
	unborn  map[string]*fate    // by name of the claim: those that were not seen launched
	missing map[string]*absence // by name of the claim: those whose node is not there
	lacks   map[driver.Key]lack // by offer: the last that an Event told, for unbornFor
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Checker  = (*Driver)(nil)
	_ driver.Notifier = (*Driver)(nil)
)

// Open starts a driver. name is its name in the pools file. It fails when no credentials can be read; a cluster that
// cannot be reached now may be later.
func Open(s *Settings, name string, log *slog.Logger) (*Driver, error) {
	endpoints := map[string]*kube.Endpoint{}
	for id, c := range s.Clusters {
		endpoints[id] = c.endpoint()
	}
	return OpenAt(s, name, log, endpoints)
}

// OpenAt is Open with connections to the clusters that are there already.
func OpenAt(s *Settings, name string, log *slog.Logger, endpoints map[string]*kube.Endpoint) (*Driver, error) {
	d := &Driver{scope: s.Scope, log: log, clusters: map[string]*cluster{}, changed: make(chan struct{}, 1), templates: map[string]*template{}}
	if d.scope == "" {
		d.scope = name
	}
	if faults := validation.IsValidLabelValue(d.scope); len(faults) > 0 {
		return nil, fmt.Errorf("the driver's name %q cannot mark its objects (%s); set scope in its config", d.scope, faults[0])
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	for _, id := range slices.Sorted(maps.Keys(endpoints)) {
		c := &cluster{id: id, endpoint: endpoints[id], unborn: map[string]*fate{}, missing: map[string]*absence{}, lacks: map[driver.Key]lack{}}
		c.claims = kube.NewTable(c.endpoint, kube.Scope{Resource: nodeClaims, Selector: kube.LabelScope + "=" + d.scope}, readClaim, d.notify)
		c.nodes = kube.NewTable(c.endpoint, kube.Scope{Resource: kube.Nodes, Selector: kube.LabelScope + "=" + d.scope}, kube.ReadNode, d.notify)
		for _, run := range []func(context.Context){func(ctx context.Context) { c.try(ctx, log) }, c.endpoint.Run, c.claims.Run, c.nodes.Run} {
			d.running.Go(func() { run(ctx) })
		}
		d.clusters[id] = c
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

// Check refuses templates that say nothing sensible, offers that Karpenter does not know, and pools that are not
// late-bound. It needs nothing of the driver, which may be nil.
func (d *Driver) Check(o *driver.Offer, p driver.PoolTraits) error {
	if !p.LateBound {
		return errors.New("lateBound: true is missing; Karpenter makes a machine for one cluster")
	}
	if _, err := parseTemplate(o.Template); err != nil {
		return err
	}
	return fits(o)
}

// Create refuses: a machine of Karpenter is made when its cluster is known.
func (d *Driver) Create(context.Context, *driver.Machine, driver.Owner) error {
	return fmt.Errorf("%w: Karpenter makes a machine for one cluster; the pool must be lateBound", driver.ErrPermanent)
}

// template returns the parsed template of an offer.
func (d *Driver) template(o *driver.Offer) (*template, error) {
	text := string(o.Template)
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.templates[text]; t != nil {
		return t, nil
	}
	t, err := parseTemplate(o.Template)
	if err != nil {
		return nil, err
	}
	if len(d.templates) >= templatesMax {
		clear(d.templates)
	}
	d.templates[text] = t
	return t, nil
}

// try looks whether machines can be made in a cluster, beside the caller: one that does not answer must not hold up a start.
func (c *cluster) try(ctx context.Context, log *slog.Logger) {
	first, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := c.served(first); err != nil && ctx.Err() == nil {
		log.Warn("no machines can be made in a cluster", "cluster", c.id, "error", err)
	}
}

// served says why no machine can be made in a cluster: it cannot be asked, or it has no Karpenter that can be used.
func (c *cluster) served(ctx context.Context) error {
	c.mu.Lock()
	checked := c.checked
	c.mu.Unlock()
	if time.Since(checked) < servedFor {
		return nil
	}
	clients, err := c.endpoint.Clients(ctx)
	if err != nil {
		return err
	}
	groups, err := clients.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return c.endpoint.Explain(err)
	}
	var served []string
	for _, g := range groups.Groups {
		if g.Name != group {
			continue
		}
		for _, v := range g.Versions {
			if v.Version == version {
				c.mu.Lock()
				c.checked = time.Now()
				c.mu.Unlock()
				return nil
			}
			served = append(served, v.GroupVersion)
		}
	}
	if len(served) == 0 {
		return fmt.Errorf("%s has no Karpenter, there are no resources of %s: %w; install it with its custom resources", clients.Host, group, ErrVersion)
	}
	return fmt.Errorf("%s has Karpenter with %s only: %w; upgrade it", clients.Host, strings.Join(served, ", "), ErrVersion)
}

// find returns the claim of a making and its cluster; nil = there is none. It waits for a cluster that was not listed yet only
// when no other has the claim.
func (d *Driver) find(ctx context.Context, m *driver.Machine) (*cluster, *claim, error) {
	name := driver.ObjectName(m.ID, m.Generation)
	var listed, others []*cluster
	for _, c := range d.clusters {
		if c.claims.Synced() {
			listed = append(listed, c)
		} else {
			others = append(others, c)
		}
	}
	var faults []error
	for _, c := range append(listed, others...) {
		if err := c.claims.Await(ctx, ""); err != nil {
			faults = append(faults, fmt.Errorf("cluster %q: %w", c.id, err))
			continue
		}
		row, ok := c.claims.Get(name)
		if !ok {
			continue
		}
		if row.fault == nil && (row.said.ID != m.ID || row.said.Generation != m.Generation) {
			return nil, nil, fmt.Errorf("%w: NodeClaim %s of cluster %q is of machine %q", driver.ErrPermanent, name, c.id, row.said.ID)
		}
		return c, row, nil
	}
	return nil, nil, errors.Join(faults...)
}
