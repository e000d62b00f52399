package session

import (
	"fmt"
	"sync"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// How much of what the machine table keeps track of for demand one cluster may
// take up, and all together. The table's limits hold for the demand of all
// clusters, and a cycle that passes them decides nothing for anybody: so that
// none stops the others, a roll-up that would pass them is refused.
const (
	// KeysMax is how many attribute keys the requirements and hard spread of all
	// clusters may name.
	KeysMax = supply.KeysMax
	// ClusterKindsMax is how many different pairs of a profile and a minimum unit the
	// rows of one cluster may have: what is worked out for each takes room by how many
	// classes of machines there are.
	ClusterKindsMax = 1 << 14
	// MatchersMax is how many different sets of requirements all clusters may have;
	// the table has as much room again for those that were in use before.
	MatchersMax = supply.MatchersMax / 2
)

// usage is what a roll-up takes up.
type usage struct {
	keys     []string
	matchers []uint64
	reserved bool
}

// uses counts what the accepted demand of all clusters takes up.
type uses struct {
	limits ClusterLimits

	mu        sync.Mutex
	keys      map[string]int // by how many clusters
	matchers  map[uint64]int
	byCluster map[string]usage
}

func newUses(limits ClusterLimits) uses {
	return uses{limits: limits, keys: map[string]int{}, matchers: map[uint64]int{}, byCluster: map[string]usage{}}
}

// reserve takes up what the roll-up needs that was decoded last into a builder, beside
// what its cluster has. The error says what is too much.
func (u *uses) reserve(d *Decoder, b *demand.Builder) (usage, error) {
	if n := b.Kinds(ClusterKindsMax); n > ClusterKindsMax {
		return usage{}, fmt.Errorf("its rows have %d different pairs of a profile and a minimum unit; at most %d are accepted of a cluster: round minimum units up", n, ClusterKindsMax)
	}
	if n := b.Count(isGang); n > u.limits.Gangs {
		return usage{}, fmt.Errorf("%d of its rows are gangs, which have a Same requirement; at most %d are accepted of a cluster: report fewer, larger ones, or raise --%s of the shard", n, u.limits.Gangs, FlagClusterGangs)
	}
	need := d.usage()
	if n := len(need.keys); n > u.limits.Keys {
		return usage{}, fmt.Errorf("its requirements and spread name %d different attribute keys; at most %d are accepted of a cluster: name fewer, or raise --%s of the shard", n, u.limits.Keys, FlagClusterKeys)
	}
	if n := len(need.matchers); n > u.limits.RequirementSets {
		return usage{}, fmt.Errorf("it has %d different sets of requirements; at most %d are accepted of a cluster: report fewer kinds, or raise --%s of the shard", n, u.limits.RequirementSets, FlagClusterRequirementSets)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.keys) + fresh(u.keys, need.keys); n > KeysMax {
		return usage{}, fmt.Errorf("with it, the clusters of the shard name %d different attribute keys; at most %d are accepted: use keys that others use, or move to another shard", n, KeysMax)
	}
	if n := len(u.matchers) + fresh(u.matchers, need.matchers); n > MatchersMax {
		return usage{}, fmt.Errorf("with it, the clusters of the shard have %d different sets of requirements; at most %d are accepted: report fewer kinds, or move to another shard", n, MatchersMax)
	}
	u.add(need, 1)
	need.reserved = true
	return need, nil
}

// isGang tells whether rows of the profile are placed as a whole.
func isGang(p *model.Profile) bool { return p.Same() != nil }

// settle says what became of the roll-up: an accepted one takes the place of
// the cluster's last, of another nothing stays.
func (u *uses) settle(cluster string, need usage, accepted bool) {
	if !need.reserved {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !accepted {
		u.add(need, -1)
		return
	}
	u.add(u.byCluster[cluster], -1)
	delete(u.byCluster, cluster)
	if len(need.matchers) > 0 {
		u.byCluster[cluster] = need
	}
}

func (u *uses) add(x usage, by int) {
	count(u.keys, x.keys, by)
	count(u.matchers, x.matchers, by)
}

func count[K comparable](m map[K]int, of []K, by int) {
	for _, k := range of {
		if m[k] += by; m[k] == 0 {
			delete(m, k)
		}
	}
}

// fresh returns how many are not there yet.
func fresh[K comparable](m map[K]int, of []K) (n int) {
	for _, k := range of {
		if _, ok := m[k]; !ok {
			n++
		}
	}
	return n
}
