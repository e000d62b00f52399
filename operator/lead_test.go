package operator_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// leader is an operator that is started again whenever it ends, as the kubelet does it.
type leader struct {
	stop   func()
	report func(t *testing.T) // logs what it took
}

// again is how long it is before one that ended is started again.
const again = 200 * time.Millisecond

// lead runs an operator, in this process or in one of its own, until stop is called or the
// test ends. Its period is half a second.
func lead(t *testing.T, k *kubetest.Cluster, cfg *rest.Config, shard string) *leader {
	t.Helper()
	if *soakProcess {
		return leadProcess(t, cfg, shard)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := leadOnce(ctx, t, k, cfg, shard); err != nil && ctx.Err() == nil {
				t.Logf("the operator ended: %v", err)
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return &leader{stop: stop, report: func(*testing.T) {}}
}

// leadOnce runs one operator until it ends.
func leadOnce(ctx context.Context, t *testing.T, k *kubetest.Cluster, cfg *rest.Config, shard string) error {
	m, err := makeManager(k, cfg, "", operator.CacheOptions())
	if err != nil {
		return err
	}
	direct, err := client.New(cfg, client.Options{Scheme: k.Scheme})
	if err != nil {
		return err
	}
	c := operator.Config{ClusterID: "blue", Shards: []string{shard}, RollupInterval: period, EarlyRollups: true, AckConcurrency: 16, SettleAfter: time.Hour}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	if _, err := operator.New(ctx, m, direct, c, telemetry.New(prometheus.NewRegistry(), "blue"), log); err != nil {
		return err
	}
	return m.Start(ctx)
}

// period is the interval between two roll-ups.
const period = 500 * time.Millisecond
