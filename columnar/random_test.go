package columnar

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// random returns a generator whose seed is printed when the test fails and can
// be repeated with TONNAGE_SEED.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TONNAGE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TONNAGE_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("TONNAGE_SEED=%d repeats this run", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}
