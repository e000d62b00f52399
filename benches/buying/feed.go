package buying

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Pod is what one pod asks for; its own place among a machine's pods is counted in
// dimPods.
type Pod = [dims]int64

// Feeds are the kinds of feeds, in the order in which they are reported.
var Feeds = []string{"plain", "tiny", "memory-heavy", "giants", "odd", "gpus"}

// Feed returns pods of one kind, in the order in which they are created. Equal seeds give
// equal pods.
//
//   - plain: 30 shapes of 0.1 to 8 cores and 1 to 8 GiB a core, each as often as the others.
//   - tiny: the same with 0.05 to 0.5 cores.
//   - memory-heavy: 6 to 16 GiB a core.
//   - giants: plain, and one of a hundred pods asks for 24 to 48 cores.
//   - odd: cores and memory anything, each pod of its own size.
//   - gpus: plain, and one of ten pods asks for 1, 2, 4 or 8 GPUs, with 4 cores and 16 GiB each.
func Feed(kind string, pods int, seed uint64) ([]Pod, error) {
	r := rand.New(rand.NewPCG(seed, 0x6275792d66656564))
	var shapes []Pod
	switch kind {
	case "plain", "giants", "gpus":
		shapes = draw(r, 30, 100, 8000, 1, 8)
	case "tiny":
		shapes = draw(r, 30, 50, 500, 1, 8)
	case "memory-heavy":
		shapes = draw(r, 30, 100, 8000, 6, 16)
	case "odd":
		shapes = draw(r, pods, 100, 8000, 0.5, 12)
	default:
		return nil, fmt.Errorf("no feed is called %q: there are %v", kind, Feeds)
	}
	feed := make([]Pod, pods)
	for i := range feed {
		if kind == "odd" {
			feed[i] = shapes[i]
			continue
		}
		feed[i] = shapes[r.IntN(len(shapes))]
		switch {
		case kind == "giants" && i%100 == 50:
			cores := 24 + r.Int64N(25)
			feed[i] = Pod{1000 * cores, cores * (1 + r.Int64N(8)) << 10, 0, 1}
		case kind == "gpus" && i%10 == 5:
			n := int64(1) << r.IntN(4)
			feed[i] = Pod{4000 * n, 16 << 10 * n, n, 1}
		}
	}
	return feed, nil
}

// draw returns shapes whose cores lie evenly on a logarithmic scale, rounded to 50
// thousandths, and whose memory to 64 MiB.
func draw(r *rand.Rand, n int, low, high, leanest, richest float64) []Pod {
	shapes := make([]Pod, n)
	for i := range shapes {
		milli := low * math.Pow(high/low, r.Float64())
		cpu := max(50, int64(milli/50+0.5)*50)
		gib := leanest * math.Pow(richest/leanest, r.Float64())
		memory := max(64, int64(float64(cpu)/1000*gib*1024/64+0.5)*64)
		shapes[i] = Pod{cpu, memory, 0, 1}
	}
	return shapes
}
