package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
)

// certificateLife is longer than any run.
const certificateLife = 24 * time.Hour

// authority signs certificates for a test.
type authority struct {
	t     testing.TB
	dir   string
	hosts []net.IP // that its certificates are for
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
}

// newAuthority returns one whose certificates are for loopback and the given addresses.
func newAuthority(t testing.TB, hosts ...net.IP) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), hosts: append(hosts, net.IPv4(127, 0, 0, 1))}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// files are a certificate with an identity.
func (a *authority) files(identity string) mtls.Files {
	a.t.Helper()
	key := a.newKey()
	id, err := url.Parse("bigfleet://" + identity)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: identity}, NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: a.hosts, URIs: []*url.URL{id},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	name := strings.ReplaceAll(identity, "/", "-")
	return mtls.Files{Cert: a.write(name+".pem", "CERTIFICATE", der), Key: a.write(name+".key", "PRIVATE KEY", pkcs8), CA: filepath.Join(a.dir, "ca.pem")}
}

// flags are those that give a process a certificate with an identity.
func (a *authority) flags(identity string) []string {
	a.t.Helper()
	f := a.files(identity)
	return []string{"--tls-cert", f.Cert, "--tls-key", f.Key, "--tls-ca", f.CA}
}

func (a *authority) dial(identity string) []grpc.DialOption {
	a.t.Helper()
	m, err := mtls.Load(a.files(identity), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return append(m.DialOptions(), grpc.WithNoProxy())
}

// secure gives the replicas of a group, before they start, certificates of one authority for
// callers and of another one for each other.
func (g *group) secure() {
	g.t.Helper()
	var hosts []net.IP
	for _, n := range g.nodes {
		host, _, err := net.SplitHostPort(n.listen)
		if err != nil {
			g.t.Fatal(err)
		}
		hosts = append(hosts, net.ParseIP(host))
	}
	g.ca = newAuthority(g.t, hosts...)
	g.tls, g.dial = g.ca.flags("admin"), g.ca.dial("admin")
	raft := newAuthority(g.t, hosts...).files("raft")
	for _, n := range g.nodes {
		n.extra = append(slices.Clone(n.extra), "--raft-tls-cert", raft.Cert, "--raft-tls-key", raft.Key, "--raft-tls-ca", raft.CA)
	}
}

// as returns the TLS flags of a process with an identity, and the options with which a client of that
// identity dials. A group without TLS has no such flags, and clients dial in plaintext.
func (g *group) as(identity string) (flags []string, dial []grpc.DialOption) {
	if g.ca == nil {
		return nil, plaintext()
	}
	return g.ca.flags(identity), g.ca.dial(identity)
}

// TestMutualTLS: replicas that have certificates trust each other by them, in
// the Raft group by those of a CA of its own, and callers may do what their name
// allows.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	g := loopbackGroup(t)
	g.secure()
	g.startAll()
	a := g.ca
	if out := g.ctl("members", "-o", "table"); strings.Count(out, "https://") != 3 {
		t.Errorf("members do not all speak TLS:\n%s", out)
	}
	leader := g.leader(g.nodes...)
	follower := g.others(leader)[0]
	for _, c := range []struct {
		says, identity string
		on             *node
		call           func(context.Context, bigfleet.CoordinatorClient) error
		want           codes.Code
	}{
		{"a shard reports", "shard/s-0", leader, reportAs("s-0"), codes.OK},
		{"a shard reports as another", "shard/s-1", leader, reportAs("s-0"), codes.PermissionDenied},
		{"an admin reports", "admin", leader, reportAs("s-0"), codes.PermissionDenied},
		{"an admin assigns", "admin", leader, assignAs, codes.OK},
		{"a reader assigns", "readonly", leader, assignAs, codes.PermissionDenied},
		{"a shard assigns", "shard/s-0", leader, assignAs, codes.PermissionDenied},
		{"a reader lists", "readonly", leader, list, codes.OK},
		{"an operator lists", "cluster/prod", leader, list, codes.PermissionDenied},
		{"a follower is asked by nobody in particular", "cluster/prod", follower, list, codes.FailedPrecondition},
		{"a follower is asked nonsense", "admin", follower, reportAs(""), codes.FailedPrecondition},
		{"a leader is asked nonsense", "shard/", leader, reportAs(""), codes.PermissionDenied},
	} {
		conn, err := grpc.NewClient(c.on.listen, a.dial(c.identity)...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := c.call(ctx, bigfleet.NewCoordinatorClient(conn)); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.says, err, c.want)
		}
		cancel()
		conn.Close()
	}
	conn, err := grpc.NewClient(leader.listen, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := list(ctx, bigfleet.NewCoordinatorClient(conn)); err == nil {
		t.Error("somebody without a certificate is answered")
	}
}

func reportAs(shard string) func(context.Context, bigfleet.CoordinatorClient) error {
	return func(ctx context.Context, k bigfleet.CoordinatorClient) error {
		_, err := k.ReportShard(ctx, &bigfleet.ShardReport{ShardId: shard, ShardEpoch: 1, Cycle: 1})
		return err
	}
}

func assignAs(ctx context.Context, k bigfleet.CoordinatorClient) error {
	_, err := k.AssignDomain(ctx, &bigfleet.AssignDomainRequest{TopologyKey: "zone", TopologyValue: "a", ShardId: "s-0"})
	return err
}

func list(ctx context.Context, k bigfleet.CoordinatorClient) error {
	_, err := k.ListShards(ctx, &bigfleet.ListShardsRequest{})
	return err
}
