package drain

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evictor is a client that knows evictions only.
type evictor struct {
	client.Client
	seen evictions
}

func (e *evictor) SubResource(string) client.SubResourceClient { return &e.seen }

// evictions asks of each whether its context still holds.
type evictions struct {
	client.SubResourceClient
	t     *testing.T
	calls int
}

func (e *evictions) Create(ctx context.Context, _, _ client.Object, _ ...client.SubResourceCreateOption) error {
	e.calls++
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the eviction is broken off: %v", err)
	}
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > evictionTimeout {
		e.t.Errorf("the eviction has the deadline %v, %t", at, ok)
	}
	return nil
}

// TestEvictionsAreNotBrokenOff: also when another worker takes the drain over.
func TestEvictionsAreNotBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := &evictor{seen: evictions{t: t}}
	d := New(t.Context(), Config{Client: e, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d.evict(ctx, &worker{deadline: time.Now().Add(time.Hour)}, &corev1.Pod{})
	if e.seen.calls != 1 {
		t.Errorf("%d evictions, want 1", e.seen.calls)
	}
}
