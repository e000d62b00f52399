package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Limits of the bootstrap data that is kept.
const (
	// BlobsKeptMax is how many are kept, of all clusters.
	BlobsKeptMax = 1 << 12
	// BlobsBytesMax is how long they may be together.
	BlobsBytesMax = 64 << 20
	// TTLMax is the longest time that is believed.
	TTLMax = 24 * time.Hour
)

// Bootstrap asks the cluster's operator for what a machine needs to join, and
// waits for the answer until ctx ends. What the operator says is good for a
// time is used again, for the same requirements, during the first half of that
// time, so that a machine has the other half to start with; the TTL returned
// is what remains. Without a time, each machine is asked for anew. The errors
// wrap shard.ErrNoSession, shard.ErrOperator, or the context's.
func (s *Server) Bootstrap(ctx context.Context, cluster string, profile *model.Profile) (shard.Blob, error) {
	l := s.links.current(cluster)
	if l == nil {
		return shard.Blob{}, shard.ErrNoSession
	}
	key := blobKey{l, requirementsText(profile)}
	asked := s.clock()
	if blob, ok := s.blobs.get(key, asked); ok {
		return blob, nil
	}
	answer, err := l.waits.ask(ctx, l, func(id string) bool {
		return l.out.reply(&pb.ShardMessage{Payload: &pb.ShardMessage_BootstrapRequest{BootstrapRequest: &pb.BootstrapRequest{
			RequestId: id, Requirements: requirements(profile), ClusterId: cluster,
		}}})
	})
	if err != nil {
		return shard.Blob{}, err
	}
	if answer.GetError() != "" {
		return shard.Blob{}, fmt.Errorf("%w: %.*s", shard.ErrOperator, model.NameBytesMax, answer.GetError())
	}
	blob := shard.Blob{Data: answer.GetUserData()}
	if seconds := answer.GetTtlSeconds(); seconds > 0 {
		blob.TTL = time.Duration(min(seconds, int64(TTLMax/time.Second))) * time.Second
		s.blobs.put(key, blob, asked)
	}
	return blob, nil
}

// blobKey says whose data it is: of one session, since an operator that comes
// again may have changed its mind, and for what.
type blobKey struct {
	link         *link
	requirements string
}

// requirementsText writes requirements so that equal texts are equal ones.
func requirementsText(p *model.Profile) string {
	var b strings.Builder
	for _, r := range p.Requirements() {
		fmt.Fprintf(&b, "%q %d %q\n", r.Key, r.Operator, r.Values)
	}
	return b.String()
}

type keptBlob struct {
	blob  shard.Blob
	asked time.Time
}

// good tells whether it may be given out.
func (k *keptBlob) good(now time.Time) bool { return now.Sub(k.asked) < k.blob.TTL/2 }

// blobs keeps bootstrap data as long as it is good.
type blobs struct {
	mu    sync.Mutex
	kept  map[blobKey]*keptBlob
	bytes int
}

// get returns what is kept, with the time that remains.
func (b *blobs) get(key blobKey, now time.Time) (shard.Blob, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[key]
	if k == nil || !k.good(now) {
		return shard.Blob{}, false
	}
	return shard.Blob{Data: k.blob.Data, TTL: k.blob.TTL - now.Sub(k.asked)}, true
}

// put keeps data that was asked for at that time, in the place of what was
// kept for the same. Without room, what is no longer good goes first, and then
// whatever comes first.
func (b *blobs) put(key blobKey, blob shard.Blob, asked time.Time) {
	if len(blob.Data) > BlobsBytesMax/16 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(key)
	full := func() bool { return len(b.kept) >= BlobsKeptMax || b.bytes+len(blob.Data) > BlobsBytesMax }
	if full() {
		b.dropIf(func(_ blobKey, k *keptBlob) bool { return !k.good(asked) })
	}
	if full() {
		b.dropIf(func(blobKey, *keptBlob) bool { return full() })
	}
	if b.kept == nil {
		b.kept = map[blobKey]*keptBlob{}
	}
	b.kept[key] = &keptBlob{blob, asked}
	b.bytes += len(blob.Data)
}

// forget drops what a session was given.
func (b *blobs) forget(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropIf(func(key blobKey, _ *keptBlob) bool { return key.link == l })
}

func (b *blobs) dropIf(is func(blobKey, *keptBlob) bool) {
	for key, k := range b.kept {
		if is(key, k) {
			b.drop(key)
		}
	}
}

func (b *blobs) drop(key blobKey) {
	if k := b.kept[key]; k != nil {
		b.bytes -= len(k.blob.Data)
		delete(b.kept, key)
	}
}
