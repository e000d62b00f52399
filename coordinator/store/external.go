package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// leaseSeconds is how long a leader is believed to be alive that does not say
// so. It is the least that etcd grants with its default election timeout.
const leaseSeconds = 2

// OpenExternal uses an etcd that somebody else runs. The client's identity is
// that of the TLS material, nil for plaintext.
func OpenExternal(ctx context.Context, endpoints []string, material *tls.Config, replica, address string) (*Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: material, DialTimeout: requestTimeout, Logger: zap.NewNop(),
		DialKeepAliveTime: leaseSeconds * time.Second, DialKeepAliveTimeout: leaseSeconds * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("--etcd-endpoints %v: %w", endpoints, err)
	}
	probe, cancel := withTimeout(ctx)
	defer cancel()
	if _, err := client.Get(probe, keyLeader, clientv3.WithSerializable()); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("--etcd-endpoints %v: no answer: %w", endpoints, err)
	}
	return &Store{client: client, replica: replica, address: address}, nil
}

// leaseHolder keeps one lease alive until it is released.
type leaseHolder struct {
	mu     sync.Mutex
	client *clientv3.Client
	id     clientv3.LeaseID
	stop   context.CancelFunc
}

// hold takes a new lease; lost is closed when it can no longer be kept.
func (h *leaseHolder) hold(ctx context.Context, client *clientv3.Client) (clientv3.LeaseID, <-chan struct{}, error) {
	h.release()
	grant, err := client.Grant(ctx, leaseSeconds)
	if err != nil {
		return 0, nil, err
	}
	alive, stop := context.WithCancel(context.Background())
	answers, err := client.KeepAlive(alive, grant.ID)
	if err != nil {
		stop()
		return 0, nil, err
	}
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for range answers {
			continue // it ends when the lease cannot be kept
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.client, h.id, h.stop = client, grant.ID, stop
	return grant.ID, lost, nil
}

// release gives the lease back, so that another replica need not wait for its
// end.
func (h *leaseHolder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		return
	}
	h.stop()
	ctx, cancel := context.WithTimeout(context.Background(), leaseSeconds*time.Second)
	defer cancel()
	_, _ = h.client.Revoke(ctx, h.id)
	h.stop = nil
}

// Release ends a claim: with a lease, another replica may claim at once.
func (s *Store) Release() { s.lease.release() }
