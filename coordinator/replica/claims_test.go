package replica

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/coordinator/store"
)

// TestAClaimThatNobodyAnswersIsShort: the first try has a second, since its write may have been
// dropped; those on a slow disk have more and more, until one is answered.
func TestAClaimThatNobodyAnswersIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c claims
		needs := []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour, 4 * time.Second, time.Hour}
		var took []time.Duration
		for _, n := range needs {
			began := time.Now()
			got, err := c.try(t.Context(), func(ctx context.Context) (*store.Claim, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(n):
					return &store.Claim{Term: 1}, nil
				}
			})
			took = append(took, time.Since(began))
			if (err == nil) != (n < time.Hour) || (got != nil) != (err == nil) {
				t.Errorf("a claim that needs %v: %v, %v", n, got, err)
			}
		}
		want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 4 * time.Second, time.Second}
		if !slices.Equal(took, want) {
			t.Errorf("tries took %v, want %v", took, want)
		}
	})
}
