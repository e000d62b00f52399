package fleetview

import "time"

// The trend of a cluster is a sample of how many of its Needs are short every
// trendGap, the last trendPoints of them.
const (
	trendGap    = 5 * time.Second
	trendPoints = 120 // ten minutes
	// trendClusters bounds the clusters that have a trend: 2 MiB in all.
	trendClusters = 4096
)

// trends are those of all clusters that were short within the time that a trend covers.
type trends struct {
	at   int64 // of the last sample, Unix nanoseconds
	n    int   // samples so far
	ring map[string]*[trendPoints]uint32
}

// add takes a sample, unless the last one is too young.
func (t *trends) add(now int64, clusters []clusterShort) {
	if t.n > 0 && now-t.at < int64(trendGap) {
		return
	}
	if t.ring == nil {
		t.ring = map[string]*[trendPoints]uint32{}
	}
	at := t.n % trendPoints
	t.at, t.n = now, t.n+1
	for _, ring := range t.ring {
		ring[at] = 0
	}
	for i := range clusters {
		ring := t.ring[clusters[i].cluster]
		if ring == nil {
			if len(t.ring) >= trendClusters {
				continue
			}
			ring = &[trendPoints]uint32{}
			t.ring[clusters[i].cluster] = ring
		}
		ring[at] = uint32(clusters[i].short)
	}
	for cluster, ring := range t.ring {
		if *ring == ([trendPoints]uint32{}) {
			delete(t.ring, cluster)
		}
	}
}

// of returns the samples of a cluster, oldest first.
func (t *trends) of(cluster string) []uint32 {
	n := min(t.n, trendPoints)
	out := make([]uint32, n)
	if ring := t.ring[cluster]; ring != nil {
		for i := range out {
			out[i] = ring[(t.n-n+i)%trendPoints]
		}
	}
	return out
}
