package attack_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/internal/processtest"
)

const impostorRefusedMax = 30 * time.Second

// TestImpostors: a tenant's certificate that is for the right host does not make its
// holder a coordinator, a shard or a provider. The same servers with the right
// certificates are accepted.
func TestImpostors(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	tool := mtlstest.Flags(ca.Files(t, "bigfleet://admin"))
	files := func(uri string) []string { return mtlstest.Flags(ca.Files(t, uri)) }
	for _, c := range []struct {
		what                         string
		coordinator, shard, provider string
	}{
		{"tenants", "bigfleet://cluster/b", "bigfleet://cluster/b", "bigfleet://cluster/b"},
		{"the right ones", "bigfleet://admin", "bigfleet://shard/s-0", "bigfleet://provider/p"},
	} {
		t.Run(c.what, func(t *testing.T) {
			right := c.coordinator == mtls.Admin().String()
			ports, dir := freeport.TakeN(t, 7), t.TempDir()
			coordinator := processtest.Start(t, append([]string{"coordinator", "--bootstrap", "--listen", ports[0], "--raft-bind", ports[1],
				"--metrics-addr=" + ports[2], "--data-dir", filepath.Join(dir, "c")}, files(c.coordinator)...)...)
			processtest.Start(t, append([]string{"provider", "--listen", ports[3], "--metrics-addr=0", "--seed-machines", "1", "--data-dir", filepath.Join(dir, "p")},
				files(c.provider)...)...)
			// The shard dials the two, and serves with the identity that it claims.
			shard := processtest.Start(t, append([]string{"shard", "--id", "s-0", "--listen", ports[4], "--metrics-addr=" + ports[5], "--data-dir", filepath.Join(dir, "s"),
				"--provider-addr", ports[3], "--provider-identity", "bigfleet://provider/p", "--coordinator-addr", ports[0], "--cycle-interval", "500ms"},
				files(c.shard)...)...)
			processtest.Eventually(t, impostorRefusedMax, "the coordinator leads", func() bool { return coordinator.Get("/readyz") != "" })
			if right {
				processtest.Eventually(t, impostorRefusedMax, "the shard lists the provider's machines", func() bool { return shard.Get("/readyz") != "" })
			} else {
				processtest.Eventually(t, impostorRefusedMax, "the shard says why it refuses the provider", func() bool {
					return strings.Contains(shard.Log(), "shows bigfleet://cluster/b, and must show bigfleet://provider/p")
				})
			}
			timeout := "10s" // a refused handshake is tried again until then
			if !right {
				timeout = "1s"
			}
			for name, command := range map[string][]string{
				"bigfleet://admin":    {"ctl", "list-shards", "--coordinator", ports[0]},
				"bigfleet://shard/ID": {"ctl", "needs", "--shard-addr", ports[4]},
			} {
				code, _, stderr := processtest.Run(t, append(append(command, "--timeout", timeout), tool...)...)
				refused := code != 0 && strings.Contains(stderr, "is of bigfleet://cluster/b, and must be of "+name)
				if refused == right || (code == 0) != right {
					t.Errorf("%s: %d, %s", strings.Join(command, " "), code, stderr)
				}
			}
		})
	}
}
