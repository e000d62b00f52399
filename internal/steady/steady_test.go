package steady

import (
	"testing"
	"time"
)

// TestStepsOfTheWallClockAreNotSeen: the wall clock is read once.
func TestStepsOfTheWallClockAreNotSeen(t *testing.T) {
	wall, passed := time.Unix(1_000_000, 0), time.Duration(0)
	reads := 0
	read := clock(func() time.Time { reads++; return wall }, func(time.Time) time.Duration { return passed })
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 0} {
		wall = wall.Add(step)
		passed += time.Second
		if got, want := read(), time.Unix(1_000_000, 0).Add(passed); !got.Equal(want) {
			t.Errorf("after a step of %v: %v, want %v", step, got, want)
		}
	}
	if reads != 1 {
		t.Errorf("the wall clock was read %d times", reads)
	}
}

// TestClockGoesOn: it begins at the wall clock's time, and its nanoseconds grow.
func TestClockGoesOn(t *testing.T) {
	before := time.Now()
	read := Clock()
	first, second := read().UnixNano(), read().UnixNano()
	if first < before.UnixNano() || second < first || time.Duration(second-before.UnixNano()) > time.Minute {
		t.Errorf("begun at %d, it shows %d and %d", before.UnixNano(), first, second)
	}
}
