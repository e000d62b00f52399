package fleetview_test

import (
	"encoding/json"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
)

func TestDump(t *testing.T) {
	f := viewtest.Contended(t, time.Now().Add(-time.Minute))
	for _, q := range []string{"needs", "need?name=train/0", "machines?state=Idle&limit=3", "machine?id=a-r1-m00", "clusters", "cluster?name=research", "tenants", "domains?hold=16", "domain?key=topology.kubernetes.io/rack&value=a-r1", "plans", "plan?number=1", "money", "map", "cycles?over=100", "changes", "preemptions", "explain?need=train/0", "whatif?key=topology.kubernetes.io/zone&value=a"} {
		u, _ := url.Parse(q)
		a, err := f.View.Queries()[u.Path](t.Context(), u.Query())
		b, _ := json.Marshal(a)
		if len(b) > 1500 {
			b = b[:1500]
		}
		t.Logf("%s: %v %s", q, err, b)
	}
	_ = os.Stdout
}
