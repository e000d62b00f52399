package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of one transaction. Those of etcd are 128 operations and 1.5 MB; two
// operations are the head's.
const (
	OpsMax   = 120
	BytesMax = 1 << 20
	// WriteOverhead is what a write counts beside its key and value, bytes.
	WriteOverhead = 64
	pageKeys      = 10_000
)

// How long one request may take at most; the caller's deadline may be sooner.
const requestTimeout = 5 * time.Second

// Prefix is before every key of the coordinator, so that it can share an etcd.
const (
	Prefix    = "tonnage/coordinator/"
	keyLeader = Prefix + "leader"
	keyTerm   = Prefix + "term"
	keyHead   = Prefix + "head"
	keyState  = Prefix + "state/"
)

var (
	// ErrDeposed says that somebody else leads. Nothing was changed by this request, or,
	// when a commit had several batches, only a prefix was.
	ErrDeposed = errors.New("another replica leads")
	// ErrUnknown says that the request may have had an effect, or still have it.
	ErrUnknown = errors.New("it is not known whether this was committed")
	// ErrRefused says that the request had no effect, and will have none.
	ErrRefused = errors.New("the store refuses")
)

// Write sets a key, or removes it when Value is nil.
type Write struct {
	Key   string
	Value []byte
}

// Leader says who leads.
type Leader struct {
	Replica string `json:"replica"`
	Address string `json:"address"` // of its gRPC service
	Term    int64  `json:"term"`
}

// reign is written with a claim and stays when the leader is gone.
type reign struct {
	Term    int64  `json:"term"`
	Base    int64  `json:"base"` // Term = Base + the Raft term
	Cluster uint64 `json:"cluster,string"`
	Replica string `json:"replica"`
}

// restoredBump is how far the term jumps when a cluster counts from the
// beginning again: further than any term that the lost one can have reached
// after its snapshot.
const restoredBump = 1 << 20

// Store is one replica's way to the state.
type Store struct {
	client  *clientv3.Client
	member  *Member // nil with an etcd of somebody else
	replica string
	address string
	lease   leaseHolder
}

// Claim is leadership: what later requests compare with.
type Claim struct {
	Term int64
	// Floor is where sequence numbers must go on at the least.
	Floor      int64
	leader     int64 // revision of the leader's key
	head       int64 // revision of the head
	leasedTill <-chan struct{}
}

// Lost is closed when the claim has ended by itself; it never is when leadership
// does not hang on a lease.
func (c *Claim) Lost() <-chan struct{} { return c.leasedTill }

func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestTimeout)
}

// Claim makes this replica the leader. With an own member it is to be called
// only while that member leads; else it fails with ErrDeposed while another
// holds the lease.
func (s *Store) Claim(ctx context.Context) (*Claim, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	old, err := s.client.Txn(ctx).Then(clientv3.OpGet(keyLeader), clientv3.OpGet(keyTerm)).Commit()
	if err != nil {
		return nil, fmt.Errorf("cannot read who leads: %w", err)
	}
	var was reign
	var rev int64
	if kvs := old.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		rev = kvs[0].ModRevision
		if s.member == nil {
			return nil, ErrDeposed
		}
	}
	known := false
	if kvs := old.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		known = true
		if err := json.Unmarshal(kvs[0].Value, &was); err != nil {
			return nil, fmt.Errorf("the record of the last term cannot be read: %w", err)
		}
	}
	now, err := s.reign(was, known, int64(old.Header.GetRaftTerm()))
	if err != nil {
		return nil, err
	}
	c := &Claim{Term: now.Term, Floor: now.Base << 20}
	var opts []clientv3.OpOption
	if s.member == nil {
		lease, lost, err := s.lease.hold(ctx, s.client)
		if err != nil {
			return nil, fmt.Errorf("cannot take a lease: %w", err)
		}
		c.leasedTill = lost
		opts = append(opts, clientv3.WithLease(lease))
	}
	return s.claim(ctx, c, rev, now, opts)
}

func (s *Store) claim(ctx context.Context, c *Claim, rev int64, now reign, opts []clientv3.OpOption) (*Claim, error) {
	leader, _ := json.Marshal(Leader{Replica: s.replica, Address: s.address, Term: now.Term})
	term, _ := json.Marshal(now)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(keyLeader), "=", rev)).
		Then(clientv3.OpPut(keyLeader, string(leader), opts...), clientv3.OpPut(keyTerm, string(term)), clientv3.OpPut(keyHead, "")).
		Commit()
	if err != nil {
		return nil, fmt.Errorf("cannot claim leadership: %w", err)
	}
	if !done.Succeeded {
		return nil, ErrDeposed
	}
	c.leader, c.head = done.Header.Revision, done.Header.Revision
	return c, nil
}

// reign is the term to claim.
func (s *Store) reign(was reign, known bool, raftTerm int64) (reign, error) {
	now := reign{Base: was.Base, Replica: s.replica}
	if s.member == nil {
		now.Term = was.Term + 1
		return now, nil
	}
	now.Cluster = s.member.cluster()
	leads, term := s.member.Leads()
	if !leads || term != raftTerm {
		return now, ErrDeposed
	}
	now.Term = now.Base + raftTerm
	if known && (was.Cluster != now.Cluster || now.Term < was.Term || now.Term == was.Term && was.Replica != s.replica) {
		now.Base = was.Term + restoredBump - raftTerm
		now.Term = now.Base + raftTerm
	}
	return now, nil
}

// Load reads the whole state as of one moment after the claim, in pages.
func (s *Store) Load(ctx context.Context, c *Claim, add func(key string, value []byte) error) error {
	from, end := keyState, clientv3.GetPrefixRangeEnd(keyState)
	rev := int64(0)
	for {
		page, cancel := withTimeout(ctx)
		got, err := s.client.Get(page, from, clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(rev))
		cancel()
		if err != nil {
			return fmt.Errorf("cannot read the state: %w", err)
		}
		rev = got.Header.Revision
		for _, kv := range got.Kvs {
			if err := add(string(kv.Key[len(keyState):]), kv.Value); err != nil {
				return err
			}
		}
		if !got.More {
			return s.Confirm(ctx, c)
		}
		if from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"; rev == 0 {
			return fmt.Errorf("cannot read the state: %w", ErrUnknown)
		}
	}
}

// Confirm returns nil when the claim still held at some moment after the call;
// then everything committed before the call was committed under it.
func (s *Store) Confirm(ctx context.Context, c *Claim) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	got, err := s.client.Get(ctx, keyLeader, clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("cannot confirm leadership: %w", err)
	}
	if len(got.Kvs) == 0 || got.Kvs[0].ModRevision != c.leader {
		return ErrDeposed
	}
	return nil
}

// Commit makes writes durable, in order, in as few transactions as the limits
// allow. An error wraps ErrDeposed, ErrRefused or ErrUnknown; after ErrUnknown
// the claim is spent.
func (s *Store) Commit(ctx context.Context, c *Claim, writes []Write) error {
	for first := true; len(writes) > 0; first = false {
		ops, bytes, n := []clientv3.Op{clientv3.OpPut(keyHead, "")}, 0, 0
		for ; n < len(writes) && n < OpsMax && bytes < BytesMax; n++ {
			w := writes[n]
			bytes += len(w.Key) + len(w.Value) + WriteOverhead
			if w.Value == nil {
				ops = append(ops, clientv3.OpDelete(keyState+w.Key))
			} else {
				ops = append(ops, clientv3.OpPut(keyState+w.Key, string(w.Value)))
			}
		}
		if err := s.commit(ctx, c, ops); err != nil {
			if !first && !errors.Is(err, ErrUnknown) {
				return fmt.Errorf("%w: a part of it was: %w", ErrUnknown, err)
			}
			return err
		}
		writes = writes[n:]
	}
	return nil
}

func (s *Store) commit(ctx context.Context, c *Claim, ops []clientv3.Op) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	done, err := s.client.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision(keyLeader), "=", c.leader),
		clientv3.Compare(clientv3.ModRevision(keyHead), "=", c.head),
	).Then(ops...).Commit()
	switch {
	case err == nil && done.Succeeded:
		c.head = done.Header.Revision
		return nil
	case err == nil:
		return ErrDeposed
	case definite(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// definite tells whether an error says that nothing happened or will happen.
func definite(err error) bool {
	for _, e := range []error{
		rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyRequests, rpctypes.ErrTooManyOps,
		rpctypes.ErrPermissionDenied, rpctypes.ErrNotCapable, rpctypes.ErrDuplicateKey,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Leader says who leads as far as this replica knows, the zero value when it
// knows of none. It asks nobody else and may be a little behind.
func (s *Store) Leader(ctx context.Context) (Leader, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	var l Leader
	got, err := s.client.Get(ctx, keyLeader, clientv3.WithSerializable())
	if err != nil || len(got.Kvs) == 0 {
		return l, err
	}
	return l, json.Unmarshal(got.Kvs[0].Value, &l)
}

// Leads tells whether this replica may claim: its member leads, or it has no
// member of its own.
func (s *Store) Leads() bool {
	if s.member == nil {
		return true
	}
	leads, _ := s.member.Leads()
	return leads
}

// RaftTerm is that of the own member, 0 without one.
func (s *Store) RaftTerm() int64 {
	if s.member == nil {
		return 0
	}
	_, term := s.member.Leads()
	return term
}

// LeaderKnown tells whether there is a leader at all.
func (s *Store) LeaderKnown(ctx context.Context) bool {
	if s.member != nil {
		return s.member.server.Leader() != 0
	}
	l, err := s.Leader(ctx)
	return err == nil && l.Term > 0
}

// Changed is closed when the leader may have changed; nil without an own member.
func (s *Store) Changed() <-chan struct{} {
	if s.member == nil {
		return nil
	}
	return s.member.server.LeaderChangedNotify()
}

// Ended is closed when the own member has stopped: it was removed, or its files
// are of no use any more.
func (s *Store) Ended() <-chan struct{} {
	if s.member == nil {
		return nil
	}
	return s.member.server.StopNotify()
}

// Close stops the member, or ends the connection. A member that leads hands
// leadership on first.
func (s *Store) Close() {
	s.lease.release()
	if s.member != nil {
		s.member.close()
		return
	}
	_ = s.client.Close()
}
