package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
)

// ctl runs `tonnage ctl` and returns what it prints.
func (g *group) ctl(args ...string) string {
	g.t.Helper()
	out, err := g.tryCtl(args...)
	if err != nil {
		g.t.Fatalf("tonnage ctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (g *group) tryCtl(args ...string) (string, error) {
	cmd := exec.Command(binary, append(append([]string{"ctl", "--coordinator", g.join}, g.tls...), args...)...)
	cmd.Env = environment()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String() + errs.String(), err
}

// term is that of the leader, by the answer to a report.
func (g *group) term(shard string, cycle int64) int64 {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var ack *bigfleet.ReportAck
	err := g.client().Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		ack, err = bigfleet.NewCoordinatorClient(conn).ReportShard(ctx, &bigfleet.ShardReport{ShardId: shard, ShardEpoch: 1, Cycle: cycle})
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return ack.GetCoordinatorTerm()
}

// TestLifeOfAGroup loses a disk, saves, loses everything, and restores.
func TestLifeOfAGroup(t *testing.T) {
	t.Parallel()
	exports := t.TempDir()
	g := newGroup(t, "--snapshot-export-dir", exports, "--snapshot-export-interval", "300ms", "--snapshot-export-keep", "2")
	g.shards()
	g.ctl("assign-domain", "--key", "zone", "--value", "a", "--shard", "s-0")
	if out, err := g.tryCtl("assign-domain", "--key", "zone", "--value", "a", "--shard", "s-1"); err == nil || !strings.Contains(out, "belongs to shard") {
		t.Errorf("a domain was given twice, or without a reason: %v, %s", err, out)
	}

	// The replica that once started the group loses its disk, and is started as
	// it always is: it must join, not start another group.
	first := g.nodes[0]
	first.kill()
	if err := os.RemoveAll(first.dir); err != nil {
		t.Fatal(err)
	}
	g.start(first)
	g.waitVoters(3)
	eventually(t, 20*time.Second, "the replica serves what the group knows", func(ctx context.Context) bool {
		s, err := g.status(ctx, first)
		return err == nil && s.GetHasState() && s.GetLeaderAddress() != ""
	})
	if out := g.ctl("list-domains", "-o", "table"); !strings.Contains(out, "zone") || !strings.Contains(out, "s-0") {
		t.Errorf("list-domains prints\n%s", out)
	}
	if strings.Contains(first.text()[strings.LastIndex(first.text(), "listening"):], "starts a group") {
		t.Error("the replica without its disk started a group beside the one that is there")
	}

	before := g.term("s-0", 2)
	saved := filepath.Join(t.TempDir(), "saved.tar")
	g.ctl("snapshot", "save", saved)
	g.ctl("assign-domain", "--key", "zone", "--value", "later", "--shard", "s-1")
	g.ctl("remove-member", "--replica", "c-2")
	g.waitVoters(2)
	checkExports(t, exports)

	// All is lost but the snapshot.
	for _, n := range g.nodes {
		n.kill()
		if err := os.RemoveAll(n.dir); err != nil {
			t.Fatal(err)
		}
	}
	g.ctl("snapshot", "restore", saved, "--data-dir", first.dir, "--node-id", first.id, "--raft-advertise", first.raft)
	for _, n := range g.nodes {
		g.start(n)
	}
	g.waitVoters(3)
	var rows []struct{ TopologyValue, Shard string }
	if err := json.Unmarshal([]byte(g.ctl("list-domains", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].TopologyValue != "a" || rows[0].Shard != "s-0" {
		t.Errorf("after the restore the domains are %+v, want only a of s-0", rows)
	}
	if after := g.term("s-0", 1<<40); after <= before {
		t.Errorf("the term went back from %d to %d", before, after)
	}
	checkDamaged(t, g, saved)
}

// TestRemovedLeader: whoever leads can be removed as any other can, and the
// caller is told; the last one cannot.
func TestRemovedLeader(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	rest := g.nodes
	for len(rest) > 1 {
		leader := g.leader(rest...)
		g.ctl("remove-member", "--replica", leader.id)
		rest = slices.DeleteFunc(slices.Clone(rest), func(n *node) bool { return n == leader })
		g.waitVoters(len(rest))
	}
	if out, err := g.tryCtl("remove-member", "--replica", g.leader(rest...).id); err == nil || !strings.Contains(out, "only replica") {
		t.Errorf("the last replica was removed, or without a reason: %v, %s", err, out)
	}
	g.waitVoters(1)
}

// checkExports: at most two are kept, and the newest has its link.
func checkExports(t *testing.T, dir string) {
	t.Helper()
	eventually(t, 10*time.Second, "exports are written and pruned", func(context.Context) bool {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, e := range entries {
			if e.IsDir() && !strings.HasSuffix(e.Name(), ".part") {
				whole++
			}
		}
		_, err = os.Stat(filepath.Join(dir, "latest", "state"))
		return whole == 2 && err == nil
	})
}

// checkDamaged: a snapshot with one other byte is refused, and changes nothing.
func checkDamaged(t *testing.T, g *group, saved string) {
	t.Helper()
	bytes, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)/2] ^= 1
	bad := filepath.Join(t.TempDir(), "bad.tar")
	if err := os.WriteFile(bad, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := g.tryCtl("snapshot", "restore", bad, "--data-dir", dir); err == nil || !strings.Contains(out, "damaged") {
		t.Errorf("a damaged snapshot was taken: %v, %s", err, out)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("a refused restore left %v", entries)
	}
}

// TestHealthFollowsTheLeader: the service is SERVING while a leader is known.
func TestHealthFollowsTheLeader(t *testing.T) {
	t.Parallel()
	g := &group{t: t, dial: plaintext()}
	p := freeport.TakeN(t, 3)
	n := &node{id: "c-1", listen: p[0], raft: p[1], metrics: p[2], dir: filepath.Join(t.TempDir(), "data")}
	g.nodes, g.join = []*node{n}, n.listen
	t.Cleanup(g.stop)
	g.start(n) // it is not the first, and has nobody to join
	check := func(service string, want healthpb.HealthCheckResponse_ServingStatus) {
		eventually(t, 20*time.Second, service+" is "+want.String(), func(ctx context.Context) bool {
			conn, err := grpc.NewClient(n.listen, g.dial...)
			if err != nil {
				return false
			}
			defer conn.Close()
			got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
			return err == nil && got.GetStatus() == want
		})
	}
	check("", healthpb.HealthCheckResponse_SERVING)
	check("bigfleet.v1alpha1.Coordinator", healthpb.HealthCheckResponse_NOT_SERVING)
	n.kill()
	n.id = "c-0"
	g.start(n)
	check("bigfleet.v1alpha1.Coordinator", healthpb.HealthCheckResponse_SERVING)
	if out := g.ctl("members", "-o", "table"); !strings.Contains(out, "leader") {
		t.Errorf("members prints %s", out)
	}
	checkRemoved(t, g, n)
}

// checkRemoved: methods that the protocol no longer has answer with nothing.
func checkRemoved(t *testing.T, g *group, n *node) {
	t.Helper()
	conn, err := grpc.NewClient(n.listen, g.dial...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for method, want := range map[string]codes.Code{"ListQuotas": codes.OK, "ListProviders": codes.OK, "NeverWas": codes.Unimplemented} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := conn.Invoke(ctx, "/bigfleet.v1alpha1.Coordinator/"+method, &emptypb.Empty{}, &emptypb.Empty{})
		cancel()
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}
