//go:build testclock

package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tonnage/tonnage/internal/steady"
)

// TestKilledUnderJumpsOfTheClock: with each kill of the shard, and with some of the
// provider, the wall clock that the next process begins at is another, up to an hour off.
// Nothing is bought or bound for nobody, and nothing is taken away.
func TestKilledUnderJumpsOfTheClock(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d, %d kills", s, *kills)
	rng := rand.New(rand.NewPCG(s, 4))
	dir := t.TempDir()
	set := func(name string) {
		off := []string{"-1h", "-1m", "0s", "1m", "1h"}[rng.IntN(5)]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(off), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begun := false
	killAtRandom(t, s, rng, func(g *growth) {
		if !begun {
			g.shard.Setenv(steady.OffsetVariable + "=" + filepath.Join(dir, "shard"))
			g.provider.Setenv(steady.OffsetVariable + "=" + filepath.Join(dir, "provider"))
			begun = true
		}
		set("shard")
		if rng.IntN(4) == 0 {
			set("provider")
			g.provider.Restart()
		}
	})
}
