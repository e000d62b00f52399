package provider_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider"
)

// A provider that starts anew while a driver cannot be observed is ready when its records have what exists: shards would not
// reach the machines of other drivers otherwise. Without records it is not, since machines would be missing in its list.
func TestReadyWhileADriverCannotBeObserved(t *testing.T) {
	inBubble(t, early, func(t *testing.T, r *rig) {
		id := r.in(speculative)[0]
		r.bind(id, "c")
		r.end()
		r.blind = errors.New("no route")
		r.start()
		if err := r.provider.Ready(); err != nil || r.list()[id].GetState() != configured {
			t.Errorf("with records: %v, the machine is %v", err, r.list()[id])
		}
		r.end()
		if err := os.Remove(filepath.Join(r.dir, provider.FileName)); err != nil {
			t.Fatal(err)
		}
		r.start()
		if err := r.provider.Ready(); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf("without records: %v", err)
		}
		r.driver.set(func() { r.driver.blind = nil })
		r.pass(30 * time.Second)
		if err := r.provider.Ready(); err != nil || r.list()[id].GetState() != configured {
			t.Errorf("when the driver can be observed: %v, the machine is %v", err, r.list()[id])
		}
	})
}
