package attack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/internal/processtest"
)

const (
	raftGroupMax   = 40 * time.Second // until a group votes, or a command has an answer
	raftRequestMax = 5 * time.Second
)

// raftGroup is a group of coordinators with mutual TLS.
type raftGroup struct {
	t         *testing.T
	listen    []string
	raft      []string
	replicas  []*processtest.Process
	ctl       []string // flags of ctl
	tenantsCA *mtlstest.Authority
	raftCA    *mtlstest.Authority
}

func startRaftGroup(t *testing.T) *raftGroup {
	t.Helper()
	const replicas = 3
	ports := freeport.TakeN(t, 3*replicas)
	g := &raftGroup{t: t, listen: ports[:replicas], raft: ports[replicas : 2*replicas], tenantsCA: mtlstest.NewAuthority(t), raftCA: mtlstest.NewAuthority(t)}
	admin := g.tenantsCA.Files(t, "bigfleet://admin")
	g.ctl = append([]string{"--coordinator", strings.Join(g.listen, ",")}, mtlstest.Flags(admin)...)
	for i := range replicas {
		own := g.raftCA.Files(t)
		own.Flags = "raft-tls"
		args := []string{
			"coordinator", "--id", "c-" + strconv.Itoa(i), "--bootstrap", "--join-addr", strings.Join(g.listen, ","),
			"--listen", g.listen[i], "--raft-bind", g.raft[i], "--metrics-addr=" + ports[2*replicas+i], "--data-dir", filepath.Join(t.TempDir(), "data"),
		}
		args = append(append(args, mtlstest.Flags(admin)...), mtlstest.Flags(own)...)
		g.replicas = append(g.replicas, processtest.Start(t, args...))
	}
	processtest.Eventually(t, raftGroupMax, "three replicas vote", func() bool {
		return g.voters() == replicas
	})
	return g
}

// voters counts the replicas that vote.
func (g *raftGroup) voters() int {
	var rows []struct{ Replica, Role string }
	code, out, _ := processtest.Run(g.t, append([]string{"ctl", "members", "-o", "json", "--timeout", "5s"}, g.ctl...)...)
	if code != 0 || json.Unmarshal([]byte(out), &rows) != nil {
		return 0
	}
	voters := 0
	for _, row := range rows {
		if row.Replica != "" && (row.Role == "voter" || row.Role == "leader") {
			voters++
		}
	}
	return voters
}

// commit makes a change that needs a majority of the group. The report of a shard
// that is not known is one.
func (g *raftGroup) commit(shard string) error {
	material, err := mtls.Load(g.tenantsCA.Files(g.t, "bigfleet://shard/"+shard), nil)
	if err != nil {
		return err
	}
	replicas, err := client.New(strings.Join(g.listen, ","), append(material.DialOptionsTo(mtls.CoordinatorServer()), grpc.WithNoProxy())...)
	if err != nil {
		return err
	}
	defer replicas.Close()
	ctx, cancel := context.WithTimeout(g.t.Context(), raftGroupMax)
	defer cancel()
	return replicas.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := bigfleet.NewCoordinatorClient(conn).ReportShard(ctx, &bigfleet.ShardReport{ShardId: shard, ShardEpoch: 1, Cycle: 1})
		return err
	})
}

// peerClient speaks to Raft ports with a certificate, as etcd's members do. It
// believes every server: the attacker does not care.
func peerClient(t *testing.T, files mtls.Files) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // the attacker's
	if files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: raftRequestMax}
}

// raftMember is what a Raft port tells everybody whom it lets in.
type raftMember struct {
	ID       uint64   `json:"id"`
	PeerURLs []string `json:"peerURLs"`
}

// raftMembers asks a Raft port for the group and its members.
func raftMembers(attacker *http.Client, url string) (cluster string, members []raftMember, err error) {
	res, err := attacker.Get(url + "/members")
	if err != nil {
		return "", nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("status %s", res.Status)
	}
	return res.Header.Get("X-Etcd-Cluster-ID"), members, json.NewDecoder(res.Body).Decode(&members)
}

// lastHeartbeat sends a member a heartbeat of another one, of the highest term
// that there is: no election can follow it. The error says why it was not taken.
func lastHeartbeat(attacker *http.Client, url string) error {
	cluster, members, err := raftMembers(attacker, url)
	if err != nil {
		return err
	}
	var from, to uint64
	for _, m := range members {
		if strings.TrimPrefix(m.PeerURLs[0], "https://") == strings.TrimPrefix(url, "https://") {
			to = m.ID
		} else {
			from = m.ID
		}
	}
	const heartbeat = 8 // raftpb.MsgHeartbeat
	var message []byte
	for field, value := range map[protowire.Number]uint64{1: heartbeat, 2: to, 3: from, 4: math.MaxUint64} {
		message = protowire.AppendVarint(protowire.AppendTag(message, field, protowire.VarintType), value)
	}
	req, err := http.NewRequest(http.MethodPost, url+"/raft", bytes.NewReader(message))
	if err != nil {
		return err
	}
	req.Header.Set("X-Etcd-Cluster-ID", cluster)
	req.Header.Set("X-Server-From", strconv.FormatUint(from, 16))
	req.Header.Set("X-Raft-To", strconv.FormatUint(to, 16))
	req.Header.Set("X-Server-Version", "3.6.0")
	req.Header.Set("X-Min-Cluster-Version", "3.0.0")
	res, err := attacker.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("status %s: %s", res.Status, text)
	}
	return nil
}

// TestRaftPort: no certificate but those of the Raft CA passes the Raft port's
// handshake, and a group that was attacked with every other one goes on. The
// attack itself is real: with a certificate of the Raft CA it ends a replica.
func TestRaftPort(t *testing.T) {
	g := startRaftGroup(t)
	otherCA := mtlstest.NewAuthority(t)
	outsiders := map[string]mtls.Files{
		"no certificate":              {},
		"a tenant":                    g.tenantsCA.Files(t, "bigfleet://cluster/b"),
		"a shard":                     g.tenantsCA.Files(t, "bigfleet://shard/s-0"),
		"an admin":                    g.tenantsCA.Files(t, "bigfleet://admin"),
		"a reader":                    g.tenantsCA.Files(t, "bigfleet://readonly"),
		"a provider":                  g.tenantsCA.Files(t, "bigfleet://provider/p"),
		"no identity":                 g.tenantsCA.Files(t),
		"a CA under the tenants'":     g.tenantsCA.Intermediate(t).Files(t, "bigfleet://admin"),
		"another CA of the same name": otherCA.Files(t),
		"a server's certificate": g.raftCA.FilesOf(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}),
		"an expired certificate": g.raftCA.FilesOf(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
	}
	for who, files := range outsiders {
		attacker := peerClient(t, files)
		for i, at := range g.raft {
			err := lastHeartbeat(attacker, "https://"+at)
			if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "remote error" && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s at replica %d: %v, want a handshake that the replica refuses", who, i, err)
			}
		}
	}
	if err := lastHeartbeat(peerClient(t, mtls.Files{}), "http://"+g.raft[0]); err == nil {
		t.Error("the Raft port takes a message in plaintext")
	}
	for i, replica := range g.replicas {
		if replica.Ended() {
			t.Fatalf("replica %d has ended", i)
		}
	}
	if err := g.commit("s-0"); err != nil {
		t.Fatalf("the group commits nothing after the attack: %v", err)
	}
	peer := g.raftCA.Files(t, "bigfleet://admin")
	for i, at := range g.raft {
		if _, members, err := raftMembers(peerClient(t, peer), "https://"+at); err != nil || len(members) != 3 {
			t.Errorf("replica %d tells a holder of the Raft CA %v, %v; want three members", i, members, err)
		}
	}
	peer.CA = g.tenantsCA.File()
	code, _, stderr := processtest.Run(t, append([]string{"ctl", "members", "--coordinator", g.listen[0], "--timeout", "3s"}, mtlstest.Flags(peer)...)...)
	if code == 0 {
		t.Errorf("the gRPC port takes a certificate of the Raft CA: %s", stderr)
	}
	// What makes the rest of this test one that can fail: the same bytes end a
	// replica, and then the others, when they are let in.
	_ = lastHeartbeat(peerClient(t, peer), "https://"+g.raft[2]) // it may end before it answers
	processtest.Eventually(t, raftGroupMax, "the attack with a certificate of the Raft CA ends a replica", func() bool {
		return slices.ContainsFunc(g.replicas, (*processtest.Process).Ended)
	})
}

// TestRaftPortOfAReplicaAlone: with mutual TLS, and without a CA for it, there is
// no Raft port at all.
func TestRaftPortOfAReplicaAlone(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	ports := freeport.TakeN(t, 3)
	admin := mtlstest.Flags(ca.Files(t, "bigfleet://admin"))
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"coordinator", "--bootstrap", "--listen", ports[0], "--raft-bind", ports[1], "--metrics-addr=" + ports[2], "--data-dir", dir}
	p := processtest.Start(t, append(args, admin...)...)
	ready := func() bool { return p.Get("/readyz") != "" }
	processtest.Eventually(t, raftGroupMax, "the replica leads itself", ready)
	if conn, err := net.DialTimeout("tcp", ports[1], time.Second); err == nil {
		conn.Close()
		t.Error("the replica listens at --raft-bind")
	}
	if listens := listening(t, p.PID()); listens != 2 {
		t.Errorf("the replica listens on %d ports, want --listen and --metrics-addr", listens)
	}
	p.Restart()
	processtest.Eventually(t, raftGroupMax, "the replica leads itself again", ready)
}

// listening counts the TCP ports that a process listens on.
func listening(t *testing.T, pid int) int {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	count := 0
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const state, inode, listen = 3, 9, "0A"
			if fields := strings.Fields(line); len(fields) > inode && fields[state] == listen && own[fields[inode]] {
				count++
			}
		}
	}
	return count
}
