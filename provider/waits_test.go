package provider_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/shard"
)

// What a change waits for that takes long is logged once.
func TestWhatAChangeWaitsFor(t *testing.T) {
	inBubble(t, late, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		r.end()
		r.log = slog.New(slog.NewTextHandler(&log, nil))
		r.start()
		id := r.in(speculative)[0]
		r.driver.set(func() {
			r.driver.alter = func(o *driver.Observation) bool {
				o.Phase, o.Reason = driver.Configuring, "allocatable cpu is 4 of 4100m"
				return true
			}
		})
		r.must(shard.OpCreate, id, "")
		r.pass(20 * time.Second)
		r.must(shard.OpConfigure, id, "c")
		r.pass(5 * time.Minute)
		r.end()
		lines := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "a change takes long") && strings.Contains(line, id) && strings.Contains(line, "state=Configuring") && strings.Contains(line, "allocatable cpu is 4 of 4100m") {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("it is told %d times:\n%s", lines, log.String())
		}
		r.start()
	})
}
