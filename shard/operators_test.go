package shard_test

import (
	"context"
	"sync"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// operators plays the operators of all clusters.
type operators struct {
	away      map[string]bool // clusters without a session
	bootstrap func(context.Context, string, *model.Profile) (shard.Blob, error)
	cordon    func(context.Context, shard.Cordon) error

	mu     sync.Mutex
	states []shard.NodeState
	hints  []shard.CapacityHint
}

func (o *operators) Connected(cluster string) bool { return !o.away[cluster] }

func (o *operators) Count() int { return 0 }

func (o *operators) Bootstrap(ctx context.Context, cluster string, p *model.Profile) (shard.Blob, error) {
	if o.bootstrap == nil {
		return shard.Blob{Data: []byte("join")}, nil
	}
	return o.bootstrap(ctx, cluster, p)
}

func (o *operators) Cordon(ctx context.Context, c shard.Cordon) error {
	if o.cordon == nil {
		return nil
	}
	return o.cordon(ctx, c)
}

func (o *operators) NodeState(u shard.NodeState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states = append(o.states, u)
}

func (o *operators) Capacity(h shard.CapacityHint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hints = append(o.hints, h)
}

// told returns the news of one cluster since the last call, as "machine state".
func (o *operators) told(cluster string) (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.states[:0]
	for _, u := range o.states {
		if u.Cluster == cluster {
			out = append(out, u.Machine+" "+u.State.String())
		} else {
			kept = append(kept, u)
		}
	}
	o.states = kept
	return out
}
