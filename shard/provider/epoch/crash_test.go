package epoch_test

import (
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/disk/disktest"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// opened opens a folder some times in a row and returns the file system, with the
// number of steps after each.
func opened(t *testing.T, times int) (*disktest.FS, []int) {
	t.Helper()
	fs := disktest.New()
	var steps []int
	for range times {
		if _, err := epoch.OpenOn(fs, "/data"); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, fs.Steps())
	}
	return fs, steps
}

// TestCrashAtAnyMoment: no epoch that a process has had is ever given again.
func TestCrashAtAnyMoment(t *testing.T) {
	fs, steps := opened(t, 12)
	for _, at := range fs.Moments() {
		had := int64(0)
		for had < int64(len(steps)) && steps[had] <= at {
			had++
		}
		for what, fs := range fs.Crashes(at) {
			f, err := epoch.OpenOn(fs, "/data")
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if f.Epoch() <= had || f.Epoch() > had+2 {
				t.Fatalf("%s: epoch %d after a process with epoch %d", what, f.Epoch(), had)
			}
		}
	}
}

// TestEveryBit: a bit that turned gives a new epoch, or an error that names the file.
func TestEveryBit(t *testing.T) {
	fs, _ := opened(t, 12)
	for _, name := range []string{"/data/epoch", "/data/epoch.copy"} {
		for what, fs := range fs.Flips(name) {
			switch f, err := epoch.OpenOn(fs, "/data"); {
			case err != nil && !strings.Contains(err.Error(), "/data/epoch holds"):
				t.Errorf("%s: %v", what, err)
			case err == nil && f.Epoch() <= 12:
				t.Errorf("%s: epoch %d again", what, f.Epoch())
			}
		}
	}
}
