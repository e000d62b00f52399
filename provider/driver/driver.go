package driver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

const (
	// VerbTimeout is the deadline of Create, Configure, Drain and Delete.
	VerbTimeout = 30 * time.Second
	// ObserveTimeout is the deadline of Observe.
	ObserveTimeout = 30 * time.Second
	// ReasonBytesMax is how much of a Reason, or of an error's text, the provider keeps.
	ReasonBytesMax = 1 << 10
)

var (
	// ErrOutOfStock is wrapped by errors of Create and Configure when there is no capacity for
	// the offer now: no machine was made, and there may be some later. The provider stops
	// offering the (pool, instance type, zone, capacity type) for a while.
	ErrOutOfStock = errors.New("insufficient capacity")
	// ErrPermanent is wrapped by errors that a repeat does not mend: a template that cannot
	// be rendered, an argument that is refused, a host that somebody else uses. The machine becomes Failed, and what Observe
	// has of it is deleted. Of Delete it is taken for a transient error: there is nothing else that
	// could be done than to call it again.
	ErrPermanent = errors.New("permanent error")
)

// Driver makes machines. An error that wraps neither ErrOutOfStock nor ErrPermanent is
// transient: the provider repeats the call, 1 s later and then at doubling intervals up to 1 min, until it returns nil or
// Observe reports the phase in which the change ends. See the package's essay.
type Driver interface {
	// Create makes an early-bound machine. Observe reports it as Creating, then as Idle. Of a pool of owned hosts the
	// provider calls it by itself, with an empty Owner, for each host that Observe does not have.
	Create(ctx context.Context, m *Machine, o Owner) error
	// Configure binds an early-bound machine that is Idle, or makes a late-bound one, for
	// b.Cluster. Observe reports Configuring, then Configured when pods can run on it.
	Configure(ctx context.Context, m *Machine, b *Binding) error
	// Drain takes a machine out of its cluster. Pods may be evicted with their own grace up to
	// the deadline; what still runs then is killed. A repeat may bring another deadline, which
	// replaces the one before. Observe reports Draining, then Idle, or nothing for a late-bound one.
	Drain(ctx context.Context, m *Machine, deadline time.Time) error
	// Delete removes everything that exists of this generation of the machine, whatever its
	// phase, and secrets made for it. Observe reports Deleting, then nothing. An owned host is turned off and released: it
	// stays as a free slot, and the next Create has the next generation.
	Delete(ctx context.Context, m *Machine) error
	// Observe calls yield once for each machine that exists at the driver's end and was made
	// by a provider of ours (by its labels, its name, its file), also those of generations that
	// the caller does not know: it is the whole truth. An error says that it is not whole; the
	// provider then takes over what was yielded and concludes nothing of what was not. *Unseen says that it is whole but for
	// some clusters. yield does not keep the Observation.
	Observe(ctx context.Context, yield func(*Observation)) error
}

// Notifier is implemented by drivers that hear of changes. The provider calls Observe soon after
// something was sent, beside its regular rounds. One channel for the driver's lifetime; sends
// do not block: a buffer of one is enough.
type Notifier interface {
	Changed() <-chan struct{}
}

// Checker is implemented by drivers that can tell without a call to the outside whether they
// could make machines of an offer: whether its Template is one, and whether they can go the pool's way. Called for
// each offer of a pools file before it is used. The error begins with the path in the template, or with the key of the
// pool that is wrong.
type Checker interface {
	Check(o *Offer, p PoolTraits) error
}

// PoolTraits are what a driver must know of an offer's pool before there is a machine of it.
type PoolTraits struct {
	LateBound bool
	Owned     bool // its machines exist without being bought
	Hosts     bool // it lists the hosts that it owns: machines have a Host. Without, they have none
}

// Closer is implemented by drivers that hold something open: a file, watches. Called once, when no verb and no
// Observe is under way, before the process ends. It may never be called: a process can be killed.
type Closer interface {
	Close() error
}

// Machine names one making of a machine, and says what it is.
type Machine struct {
	// ID is unique in the fleet and is never used for another machine; see model.CheckName.
	ID         string
	Generation uint64 // ≥ 1
	LateBound  bool
	// Host names one of the hosts that a pool of owned hosts lists; empty otherwise. The same host keeps the ID as long
	// as its machine has a record, and gets a new one when a Failed machine has been cleared away.
	Host  string
	Offer Offer
}

// Offer is what a pool offers in one zone and one capacity type. Shared between
// machines: it must not be modified.
type Offer struct {
	Key
	// Resources are what the instance type nominally has, Allocatable what pods can have of it.
	Resources, Allocatable  model.Resources
	Labels                  map[string]string // on the node, beside instance type and zone
	Taints                  []Taint           // on the node, beside those that the cluster sets
	PricePerHour            float64           // USD, ≥ 0
	InterruptionProbability float64           // per hour, 0…1
	Template                json.RawMessage   // the driver's own part of the pool; nil = none
}

// Key names an offer.
type Key struct {
	Pool         string
	InstanceType string
	Zone         string
	CapacityType model.CapacityType
}

// Taint is a taint of a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule or NoExecute
}

// Owner says for whom something was done: the shard's name and the token of its call. A driver
// keeps it with the object and gives it back in Observation.
type Owner struct {
	Shard           string
	Epoch, Sequence int64
}

// Binding says for which cluster a machine is.
type Binding struct {
	Owner
	Cluster string
	// Metadata is the shard's own, kept with the object and given back byte for byte. Keys and values are UTF-8, may be
	// empty and may have any characters in them; all of them together are at most 64 KiB.
	Metadata map[string]string
	// Blob is what the machine starts with, up to 4 MiB, and holds credentials: it is written
	// where the machine reads it and nowhere else, never to a log. Empty where the shard gave none, and when the
	// records were lost while the machine was Configuring.
	Blob []byte
}

// Phase is what an object is doing.
type Phase uint8

// The phases. A machine that is absent is not observed. Idle, Configured and Draining need a Ref, Configured a Node too, Failed a
// Reason.
const (
	Creating    Phase = iota + 1 // being made, in no cluster
	Idle                         // it is there, powered, and in no cluster
	Configuring                  // joining a cluster; a late-bound machine also while it is being made
	// Configured: its node is Ready and startup taints are gone: pods can run. The provider believes that, and where
	// Allocatable, Labels or Taints are nil also that they are those of the offer. A driver without eyes in the cluster has
	// them watched by package kube, or by an agent of its host; if it says so too early, demand counts as met by a
	// machine that runs nothing.
	Configured
	Draining // leaving its cluster
	Deleting // being removed
	Failed   // it will not get where it was going; Reason says why
)

// Observation is what exists of one machine.
type Observation struct {
	ID         string
	Generation uint64
	// Key is the offer that it was made of, as far as the driver knows: a provider
	// that lost its file finds the pool by it.
	Key
	LateBound bool
	HostName  string // Machine.Host
	Phase     Phase

	// Ref identifies the machine in the world: the node's providerID from Configured on. Empty =
	// not known yet; required in Idle, Configured and Draining.
	Ref string
	// Node is the name of its node, empty = none or not known; required in Configured.
	Node string
	// Allocatable, Labels and Taints are those of the real machine or node. nil = not known, and
	// the provider does not hold them against the offer.
	Allocatable model.Resources
	Labels      map[string]string
	Taints      []Taint

	// Owner, Cluster and Metadata are what the Create or Configure brought that has made it what it is. A repeat of
	// either brings the same, so it does not matter whether it is written again. One that was drained has no Cluster and
	// no Metadata; its Owner may stay.
	Owner    Owner
	Cluster  string
	Metadata map[string]string

	// Reason says in one sentence for a person why it is Failed, which is required, or what it waits for.
	Reason string
	// Incomplete says that a part is missing of what a verb writes: the call was cut off half way. While the machine
	// is in that verb's change, the provider calls the verb again, also when it was accepted before.
	Incomplete bool
	// Taken says of a host that it has a claim of ours and that somebody else uses it: it was assigned or claimed by
	// hand. The machine becomes Failed with the Reason, and the provider calls no verb for it, not even Delete, until
	// Observe says that it is no longer Taken, or no longer has it.
	Taken bool
	// OutOfStock says that it is Failed for want of capacity: as ErrOutOfStock, learnt later.
	OutOfStock bool
}
