package replica

import (
	"context"
	"errors"
	"time"

	"github.com/tonnage/tonnage/coordinator"
)

// pass rebalances, when this replica leads.
func (r *Replica) pass(ctx context.Context) {
	if !r.Leads() {
		return
	}
	began := time.Now()
	machines := 0
	_, err := r.Do(ctx, coordinator.Rebalance{}, func(c *coordinator.Core, _ int64) { machines = c.LastPass().Machines })
	if err != nil {
		if !errors.Is(err, ErrNotLeader) {
			r.config.Log.Warn("a pass of rebalancing was cut short", "error", err)
		}
		return
	}
	r.config.Metrics.Passed(time.Since(began), machines)
}

// export keeps a snapshot, when this replica leads.
func (r *Replica) export(ctx context.Context) {
	claim := r.current()
	if claim == nil || r.config.ExportDir == "" {
		return
	}
	name, err := r.store.Export(ctx, r.config.ExportDir, claim.Term, r.config.Now(), r.config.ExportKeep)
	r.config.Metrics.Exported(err)
	if err != nil {
		r.config.Log.Error("cannot export a snapshot; see that the folder can be written to", "dir", r.config.ExportDir, "error", err)
		return
	}
	r.config.Log.Info("exported a snapshot", "folder", name)
}

// promote makes voters of replicas that have caught up.
func (r *Replica) promote(ctx context.Context) {
	if !r.Leads() {
		return
	}
	names, err := r.store.Promote(ctx)
	if err == nil && len(names) > 0 {
		r.config.Log.Info("replicas have caught up and vote now", "replicas", names)
	}
}
