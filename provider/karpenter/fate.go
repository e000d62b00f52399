package karpenter

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	// unbornMax is how many claims of a cluster that were not seen launched are remembered.
	unbornMax = 1 << 14
	// unbornFor is how long a claim that is gone is reported as Failed, if nobody takes note.
	unbornFor = 15 * time.Minute
	// unreadableFor is how long it is tried to read the Event that says why a claim is gone, where that fails.
	unreadableFor = time.Minute
	// sameLackFor is how long what was said of one claim is taken to hold for others of its offer of which nothing is said: Karpenter
	// writes some of many Events that are alike.
	sameLackFor = 10 * time.Minute
	// launchTimeout is after what time Karpenter deletes a claim that it could not launch, without an Event, and clocksDiffer by how
	// much its clock may differ from ours.
	launchTimeout, clocksDiffer = 5 * time.Minute, 10 * time.Second

	reasonNoCapacity = "InsufficientCapacityError"
	// noCapacity is how the message of such an Event begins.
	noCapacity = "insufficient capacity"
)

// eventsWithin is how long the Event that says why may come after the claim is gone: it waits in Karpenter's queue where many
// claims vanish at once. Tests shorten it.
var eventsWithin = 30 * time.Second

var events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// fate is what is known of a claim that was not seen launched.
type fate struct {
	said driver.Observation
	gone time.Time // since when it is not there, or is being deleted; zero = it is there
	made bool      // the claim was in the table once, or the table has seen that it was made
	// version is the claim's resourceVersion when it was made, empty = the answer is not known. A table that has not seen it says
	// nothing of the claim.
	version string
	// waits is what Karpenter said last of why it was not launched, waiting since when it was to be launched; empty and zero = not known.
	waits   string
	waiting time.Time
	// ours says that the driver deletes it.
	ours    bool
	settled bool   // why holds
	why     string // why it is gone
	noStock bool
}

// lack is that there was no capacity for a claim of an offer.
type lack struct {
	at  time.Time // when the claim was gone
	why string
}

// expect notes a claim before it is made.
func (c *cluster) expect(name string, m *driver.Machine, b *driver.Binding) {
	o := driver.Observation{
		ID: m.ID, Generation: m.Generation, LateBound: true, Key: m.Offer.Key, Owner: b.Owner, Cluster: b.Cluster, Metadata: b.Metadata,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unborn) < unbornMax && c.unborn[name] == nil {
		c.unborn[name] = &fate{said: o}
	}
}

// forget drops what is known of a claim.
func (c *cluster) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unborn, name)
}

// deletes notes that the driver deletes a claim.
func (c *cluster) deletes(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.unborn[name]; f != nil {
		f.ours = true
	}
}

// isUnborn tells whether a claim that is not in the table was made, and was not seen launched.
func (c *cluster) isUnborn(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.unborn[name]
	return f != nil && f.made
}

// answered notes that a claim was made, and with which resourceVersion.
func (c *cluster) answered(name, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.unborn[name]; f != nil && f.version == "" {
		f.version = version
	}
}

// created notes that a claim was made, and that the table has seen it.
func (c *cluster) created(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.unborn[name]; f != nil {
		f.made = true
	}
}

// see takes over what a claim in the table says of its fate. It tells whether the claim is being deleted before it was
// launched, and not by the driver.
func (c *cluster) see(row *claim) *fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.unborn[row.name]
	if row.launched || row.fault != nil {
		delete(c.unborn, row.name)
		return nil
	}
	if f == nil {
		if len(c.unborn) >= unbornMax || row.deleting {
			return nil
		}
		f = &fate{}
		c.unborn[row.name] = f
	}
	f.said, f.made, f.waits, f.waiting = row.said, true, row.waits, row.waiting
	if !row.deleting || f.ours {
		f.gone = time.Time{}
		return nil
	}
	if f.gone.IsZero() {
		f.gone = time.Now()
	}
	return f
}

// vanished returns the claims that are not in the table, by name, and were not launched.
func (c *cluster) vanished(seen map[string]bool) map[string]*fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*fate{}
	for name, f := range c.unborn {
		unanswered := !f.made && f.version == ""
		switch {
		case seen[name]:
		case f.ours, !f.gone.IsZero() && time.Since(f.gone) > unbornFor:
			delete(c.unborn, name)
		case f.version != "" && !c.claims.HasSeen(f.version):
			f.gone = time.Time{} // the watch is behind
		case unanswered && f.gone.IsZero():
			// It is being made, or was never: the call that makes it says so.
			f.gone = time.Now()
		case unanswered && time.Since(f.gone) < driver.VerbTimeout:
		default:
			f.made = !unanswered
			if f.gone.IsZero() {
				f.gone = time.Now()
			}
			out[name] = f
		}
	}
	return out
}

// tell says of a claim that Karpenter deletes, or has deleted, before it was launched what became of it.
func (c *cluster) tell(name string, f *fate, reasons func() (map[string]reason, error)) driver.Observation {
	c.mu.Lock()
	settled, since := f.settled, f.gone
	c.mu.Unlock()
	if !settled {
		all, err := reasons()
		r, waited := all[name], time.Since(since)
		c.mu.Lock()
		switch {
		case err == nil && r.why != "":
			f.settled, f.why, f.noStock = true, r.why, r.noStock
			if r.noStock {
				maps.DeleteFunc(c.lacks, func(_ driver.Key, l lack) bool { return time.Since(l.at) > unbornFor })
				c.lacks[f.said.Key] = lack{since, r.why}
			}
		case err == nil && waited >= eventsWithin && since.Sub(c.lacks[f.said.Key].at).Abs() <= sameLackFor:
			f.settled, f.why, f.noStock = true, c.lacks[f.said.Key].why+" (of another NodeClaim of its offer; no Event says why this one is gone)", true
		case err == nil && waited >= eventsWithin:
			f.settled, f.why = true, f.unlaunched()
		case err != nil && waited >= unreadableFor:
			f.why = fmt.Sprintf("Karpenter has deleted the NodeClaim before it was launched; Events that say why cannot be read: %v", err)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := f.said
	o.Ref = "nodeclaim/" + name
	if o.Phase, o.Reason = driver.Configuring, "the NodeClaim is gone; the Event that says why is awaited"; f.why != "" {
		o.Phase, o.Reason, o.OutOfStock = driver.Failed, f.why, f.noStock
	}
	return o
}

// unlaunched says of a claim of which no Event tells why it was deleted, as far as it can be known.
func (f *fate) unlaunched() string {
	if !f.waiting.IsZero() && f.gone.Sub(f.waiting) >= launchTimeout-clocksDiffer {
		return fmt.Sprintf("Karpenter has deleted the NodeClaim, which was not launched within %v; what it said last is %q", launchTimeout, f.waits)
	}
	return "Karpenter has deleted the NodeClaim before it was launched, and no Event says why; its log does"
}

// reason is what an Event says of why a claim was deleted.
type reason struct {
	why     string
	noStock bool
}

// reasons reads what Events say of claims, by the claim's name. They are read together: a cloud that is out of stock has many
// claims vanish at once.
func (c *cluster) reasons(ctx context.Context) (map[string]reason, error) {
	clients, err := c.endpoint.Clients(ctx)
	if err != nil {
		return nil, err
	}
	// Events about what is in no namespace are in this one.
	list, err := clients.Dynamic.Resource(events).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=NodeClaim,type=Warning",
	})
	if err != nil {
		return nil, c.endpoint.Explain(err)
	}
	out := map[string]reason{}
	for i := range list.Items {
		text := func(keys ...string) string {
			s, _, _ := unstructured.NestedString(list.Items[i].Object, keys...)
			return s
		}
		name := text("involvedObject", "name")
		message := kube.OneLine(strings.TrimPrefix(text("message"), "NodeClaim "+name+" event: "))
		switch {
		case text("reason") == reasonNoCapacity:
			out[name] = reason{noCapacity + ": " + strings.TrimPrefix(message, noCapacity+", "), true}
		case !out[name].noStock:
			out[name] = reason{why: text("reason") + ": " + message}
		}
	}
	return out, nil
}
