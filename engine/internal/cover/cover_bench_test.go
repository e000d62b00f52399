package cover_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine/internal/cover"
)

// BenchmarkChoose is one choice among 400 types: Needs of 1 to 2,000 cores.
func BenchmarkChoose(b *testing.B) {
	offers := synthetic(rand.New(rand.NewPCG(1, 1)), 400)
	rng := rand.New(rand.NewPCG(2, 2))
	var problems []*cover.Problem
	for range 64 {
		cores := 1000 * (1 + rng.Int64N(1<<rng.IntN(12)))
		problems = append(problems, &cover.Problem{Want: []int64{cores, cores * (1 + rng.Int64N(8)), 1 + cores/500}, Unit: []int64{500, 1000, 1}, Offers: offers})
	}
	c := cover.New(cover.LambdaDefault, cover.EpsilonDefault)
	i := 0
	for b.Loop() {
		c.Choose(problems[i%len(problems)])
		i++
	}
}
