package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
)

// Driver drives the hosts of a rack. It keeps nothing: the claims are its state. Safe for concurrent use.
type Driver struct{ rack *Rack }

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Checker = (*Driver)(nil)
)

// New returns a driver of a rack.
func New(r *Rack) *Driver { return &Driver{r} }

// Check accepts pools that list their hosts. It needs nothing of the driver, which may be nil.
func (*Driver) Check(o *driver.Offer, p driver.PoolTraits) error {
	switch {
	case len(o.Template) > 0:
		return errors.New("template: hosts of a rack have none; leave it out")
	case !p.Hosts:
		return errors.New("hosts: is missing; a rack drives the hosts that a pool lists")
	}
	return nil
}

// claim is the text of Host.Claim, as JSON.
type claim struct {
	// Tonnage tells our claims from those of others; it is always true.
	Tonnage    bool
	ID         string
	Generation uint64
	Key        driver.Key
	Phase      driver.Phase // of the last verb: Creating, Configuring, Configured, Draining or Deleting
	Owner      driver.Owner
	Cluster    string
	Metadata   map[string]string // survives JSON byte for byte, since the provider gives UTF-8 only
}

// claimOf reads the claim of a host; nil = it has none of ours.
func claimOf(h *Host) *claim {
	c := &claim{}
	if json.Unmarshal([]byte(h.Claim), c) != nil || !c.Tonnage {
		return nil
	}
	return c
}

func (c *claim) is(m *driver.Machine) bool {
	return c != nil && c.ID == m.ID && c.Generation == m.Generation
}

// taken says who else uses a host that has a claim of ours, "" = nobody does.
func (c *claim) taken(h *Host) string {
	if h.Cluster == "" || h.Cluster == c.Cluster {
		return ""
	}
	return fmt.Sprintf("host %s was assigned to cluster %q by somebody else", h.Name, h.Cluster)
}

// find returns the host of a machine and its claim, nil = it has none of ours.
func (d *Driver) find(m *driver.Machine) (*Host, *claim, error) {
	h, err := d.rack.Get(m.Host)
	if errors.Is(err, ErrNoHost) {
		err = fmt.Errorf("%w: %w", driver.ErrPermanent, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return &h, claimOf(&h), nil
}

// write replaces the claim of a host that was read.
func (d *Driver) write(h *Host, c *claim) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("%w: claim: %w", driver.ErrPermanent, err)
	}
	if string(text) == h.Claim {
		return nil // a repeat
	}
	if err := d.rack.SetClaim(h.Name, string(text), h.Revision); err != nil {
		return err
	}
	h.Claim = string(text)
	h.Revision++
	return nil
}

// Create claims a host and turns it on.
func (d *Driver) Create(_ context.Context, m *driver.Machine, by driver.Owner) error {
	h, c, err := d.find(m)
	switch {
	case err != nil:
		return err
	case c.is(m) && c.Phase != driver.Creating:
		return nil // it has gone on since
	case c != nil && !c.is(m):
		return fmt.Errorf("host %s is still of machine %s/%d", h.Name, c.ID, c.Generation) // transient: its Delete may be under way
	case c == nil && (h.Claim != "" || h.Cluster != ""):
		return fmt.Errorf("%w: host %s is used by somebody else: claim %q, cluster %q", driver.ErrPermanent, h.Name, h.Claim, h.Cluster)
	}
	next := &claim{Tonnage: true, ID: m.ID, Generation: m.Generation, Key: m.Offer.Key, Phase: driver.Creating, Owner: by}
	if err := d.write(h, next); err != nil || h.On {
		return err
	}
	return d.rack.SetPower(h.Name, true)
}

// Configure assigns a host to a cluster.
func (d *Driver) Configure(_ context.Context, m *driver.Machine, b *driver.Binding) error {
	h, c, err := d.find(m)
	switch {
	case err != nil:
		return err
	case !c.is(m):
		return fmt.Errorf("%w: host %s is not machine %s/%d", driver.ErrPermanent, h.Name, m.ID, m.Generation)
	case c.taken(h) != "":
		return fmt.Errorf("%w: %s", driver.ErrPermanent, c.taken(h))
	}
	next := *c
	next.Owner, next.Cluster, next.Metadata = b.Owner, b.Cluster, b.Metadata
	if c.Phase != driver.Configured || c.Cluster != b.Cluster {
		next.Phase = driver.Configuring
	}
	if err := d.write(h, &next); err != nil {
		return err
	}
	if h.Cluster == "" {
		if err := d.rack.Assign(h.Name, b.Cluster, b.Blob); err != nil {
			return err
		}
	}
	next.Phase = driver.Configured
	return d.write(h, &next)
}

// Drain takes a host out of its cluster, at once: the rack knows no grace.
func (d *Driver) Drain(_ context.Context, m *driver.Machine, _ time.Time) error {
	h, c, err := d.find(m)
	if err != nil || !c.is(m) || c.taken(h) != "" || c.Phase == driver.Deleting || c.Cluster == "" {
		return known(err)
	}
	next := *c
	next.Phase = driver.Draining
	if err := d.write(h, &next); err != nil || h.Cluster == "" {
		return err
	}
	return d.rack.Assign(h.Name, "", nil)
}

// Delete takes a host out of its cluster, turns it off and gives up the claim. One that somebody else uses keeps its power and cluster.
func (d *Driver) Delete(_ context.Context, m *driver.Machine) error {
	h, c, err := d.find(m)
	if err != nil || !c.is(m) {
		return known(err)
	}
	if c.taken(h) == "" {
		next := *c
		next.Phase = driver.Deleting
		if err := d.write(h, &next); err != nil {
			return err
		}
		if h.Cluster != "" {
			if err := d.rack.Assign(h.Name, "", nil); err != nil {
				return err
			}
		}
		if h.On {
			if err := d.rack.SetPower(h.Name, false); err != nil {
				return err
			}
		}
	}
	return d.rack.SetClaim(h.Name, "", h.Revision)
}

// known takes a host that is not there for one where nothing is left to do.
func known(err error) error {
	if errors.Is(err, ErrNoHost) {
		return nil
	}
	return err
}

// Observe yields the hosts that have a claim of ours.
func (d *Driver) Observe(_ context.Context, yield func(*driver.Observation)) error {
	hosts, err := d.rack.List()
	if err != nil {
		return err
	}
	for i := range hosts {
		if c := claimOf(&hosts[i]); c != nil {
			yield(observation(&hosts[i], c))
		}
	}
	return nil
}

func observation(h *Host, c *claim) *driver.Observation {
	o := &driver.Observation{
		ID: c.ID, Generation: c.Generation, Key: c.Key, HostName: h.Name, Phase: c.Phase, Ref: "rack://" + h.Name,
		Owner: c.Owner, Cluster: c.Cluster, Metadata: c.Metadata,
	}
	switch {
	case c.taken(h) != "":
		o.Phase, o.Reason, o.Taken = driver.Failed, c.taken(h), true
	case c.Phase == driver.Creating && h.On:
		o.Phase = driver.Idle
	case c.Phase == driver.Draining && h.Cluster == "":
		o.Phase, o.Cluster, o.Metadata = driver.Idle, "", nil
	case c.Phase == driver.Configured && (h.Cluster == "" || !h.On):
		o.Phase, o.Reason = driver.Failed, fmt.Sprintf("host %s was taken out of its cluster or turned off, and nobody drained it", h.Name)
	}
	if o.Phase == driver.Configured {
		o.Node = h.Name
	}
	return o
}
