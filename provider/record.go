package provider

import (
	"fmt"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/shard"
)

// record is what is known of a machine that was ever created. It is kept as JSON.
type record struct {
	ID         string
	Key        driver.Key
	Driver     string // by name, of the newest making
	Host       string `json:",omitempty"` // of an owned pool
	LateBound  bool   `json:",omitempty"`
	Generation uint64 // of the newest making, 0 = there was none

	State     model.State
	LastError string `json:",omitempty"` // Failed only
	// Op is the call that was carried out last, Operation its number.
	Op        shard.Op
	Operation uint64
	Since     time.Time // when the state began
	Deadline  time.Time // of the grace, Draining only
	// Asked says that the driver has accepted the verb of the transition under way: it answered without an
	// error. While it has not, or that is not known, the verb is called again.
	Asked bool `json:",omitempty"`
	// Cleaned says when nothing was left of a Failed machine; zero = not yet.
	Cleaned time.Time

	Owner    driver.Owner
	Cluster  string            `json:",omitempty"`
	Metadata map[string]string `json:",omitempty"`

	Ref         string            `json:",omitempty"`
	Node        string            `json:",omitempty"`
	Allocatable model.Resources   `json:",omitempty"` // of the real machine; nil = as declared
	Labels      map[string]string `json:",omitempty"` // that the offer does not have
}

// operation names the work of the last call: calls that ask for the same work get the same name.
func (r *record) operation() string { return fmt.Sprintf("%s-%d", r.Op, r.Operation) }

// repeats tells whether a call asks for what the last one asked for, and which is under way or
// done. Of a machine to which nothing was done here only the state is known.
func (r *record) repeats(op shard.Op) bool {
	t := transitions[op]
	return r.State == t.during || r.State == t.to && (r.Op == op || r.Op == shard.OpAny)
}

// used tells whether the machine counts against limits.
func (r *record) used() bool {
	return r.State != model.Speculative && (r.State != model.Failed || r.Cleaned.IsZero())
}

// free tells whether it is a slot again.
func (r *record) free() bool { return r.State == model.Speculative }

// transition is what a call does to a machine's state.
type transition struct{ from, during, to model.State }

var transitions = [shard.NumOps]transition{
	shard.OpCreate:    {model.Speculative, model.Creating, model.Idle},
	shard.OpConfigure: {model.Idle, model.Configuring, model.Configured},
	shard.OpDrain:     {model.Configured, model.Draining, model.Idle},
	shard.OpDelete:    {model.Idle, model.Deleting, model.Speculative},
}

// underWay returns the operation that a machine in a transitional state is in.
func underWay(s model.State) (shard.Op, bool) {
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		if transitions[op].during == s {
			return op, true
		}
	}
	return shard.OpAny, false
}

// move changes the state. What a state does not have is cleared.
func (r *record) move(to model.State, now time.Time) {
	r.State, r.Since, r.Asked = to, now, false
	r.LastError, r.Deadline, r.Cleaned = "", time.Time{}, time.Time{}
	switch to {
	case model.Idle, model.Speculative, model.Creating:
		r.Cluster, r.Metadata, r.Node, r.Labels = "", nil, "", nil
		if to == model.Speculative || r.LateBound {
			r.Ref, r.Allocatable = "", nil
		}
	}
}

// fail makes it Failed. Its cluster stays known to whoever looks into the file, and is not listed.
func (r *record) fail(why string, now time.Time) {
	asked := r.Asked
	r.move(model.Failed, now)
	r.Asked, r.LastError = asked, strings.ToValidUTF8(why[:min(len(why), driver.ReasonBytesMax)], "")
}

// machine names the newest making to a driver.
func (r *record) machine(o *driver.Offer) *driver.Machine {
	return &driver.Machine{ID: r.ID, Generation: r.Generation, LateBound: r.LateBound, Host: r.Host, Offer: *o}
}
