package faults

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tonnage/tonnage/internal/freeport"
)

// leaseFailoverMax is what a failover may take when leadership hangs on a lease
// of two seconds, which etcd looks at every half.
const leaseFailoverMax = 5 * time.Second

// someEtcd is an etcd that serves clients, and knows nothing of coordinators.
func someEtcd(t *testing.T) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	ports := freeport.TakeN(t, 2)
	client, peer := []url.URL{{Scheme: "http", Host: ports[0]}}, []url.URL{{Scheme: "http", Host: ports[1]}}
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = client, client, peer, peer
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogOutputs, c.LogLevel = []string{filepath.Join(c.Dir, "log")}, "error"
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd does not start within 30 s")
	}
	return ports[0]
}

// TestOnAnEtcdThatIsThere: two replicas that have no member of their own. One
// leads at a time, the other takes over when it is killed or stopped, nothing
// that was answered is lost and the history is linearizable.
func TestOnAnEtcdThatIsThere(t *testing.T) {
	t.Parallel()
	g := &group{t: t, dial: plaintext(), etcd: someEtcd(t)}
	ports := freeport.TakeN(t, 6)
	for i := range 2 {
		g.nodes = append(g.nodes, &node{id: fmt.Sprintf("c-%d", i), listen: ports[i], raft: ports[2+i], metrics: ports[4+i], dir: filepath.Join(t.TempDir(), "data")})
	}
	g.join = g.nodes[0].listen + "," + g.nodes[1].listen
	t.Cleanup(g.stop)
	for _, n := range g.nodes {
		g.start(n)
	}
	g.shards()
	term := g.term("s-0", 2)
	s := newSeed(t)
	r := &recorder{g: g}
	r.run(4, s, func() {
		for _, f := range faults {
			g.breakLeader(f, f.name)
		}
	})
	checkMarks(t, g, "kill -9", "SIGSTOP")
	if after := g.term("s-0", 3); after < term+2 {
		t.Errorf("the term is %d after two failovers, was %d", after, term)
	}
	if out, err := g.tryCtl("members"); err == nil || !strings.Contains(out, "etcd") {
		t.Errorf("members of somebody else's etcd: %v, %s", err, out)
	}
	for _, n := range g.nodes { // all of it is in etcd
		n.kill()
	}
	for _, n := range g.nodes {
		g.start(n)
	}
	eventually(t, patience, "a replica leads", func(ctx context.Context) bool { return g.assignOn(ctx, g.leader(g.nodes...), "again") == nil })
	checkMarks(t, g, "kill -9", "SIGSTOP", "again")
}
