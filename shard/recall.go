package shard

import (
	"github.com/tonnage/tonnage/shard/internal/intake"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"log/slog"
)

// recall reads what an earlier process left into the rooms.
func recall(kept memory.Memory, machines *inventory.Inventory, waits *ledgers.Latencies, own *ownership.Ownership, in *intake.Intake, log *slog.Logger) {
	if kept == nil {
		return
	}
	unread := 0
	kept.All(func(key string, value []byte) {
		kind, rest := key[:min(1, len(key))], key[min(1, len(key)):]
		var known bool
		switch kind {
		case memory.Machine:
			known = machines.Recall(rest, value)
		case memory.Waiting:
			known = waits.Recall(rest, value)
		case memory.Asked:
			known = in.Recall(rest, value)
		default:
			known = own.Recall(kind, rest, value)
		}
		if !known {
			unread++
		}
	})
	own.EndReleases()
	if unread > 0 {
		log.Warn("part of what an earlier process left cannot be read", "entries", unread)
	}
}
