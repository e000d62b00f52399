package mtls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

func TestPartOfTheFilesIsRefused(t *testing.T) {
	for given, want := range map[mtls.Files]string{
		{Cert: "c"}:           "--tls-cert without --tls-key and --tls-ca",
		{Key: "k"}:            "--tls-key without --tls-cert and --tls-ca",
		{CA: "a"}:             "--tls-ca without --tls-cert and --tls-key",
		{Cert: "c", Key: "k"}: "--tls-cert and --tls-key without --tls-ca",
		{Cert: "c", CA: "a"}:  "--tls-cert and --tls-ca without --tls-key",
		{Key: "k", CA: "a"}:   "--tls-key and --tls-ca without --tls-cert",
	} {
		m, err := mtls.Load(given, nil)
		if m != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, %v, want an error that begins %q", given, m, err, want)
		}
	}
	if m, err := mtls.Load(mtls.Files{}, nil); m != nil || err != nil {
		t.Errorf("no files: %v, %v, want neither material nor an error", m, err)
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	good := ca.Files(t, "bigfleet://admin")
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, nil)
	other := ca.Files(t, "bigfleet://admin")
	for name, files := range map[string]mtls.Files{
		"--tls-ca: ":                 {Cert: good.Cert, Key: good.Key, CA: "/nowhere"},
		"holds no certificate":       {Cert: good.Cert, Key: good.Key, CA: empty},
		"--tls-cert and --tls-key: ": {Cert: "/nowhere", Key: good.Key, CA: good.CA},
		"does not match":             {Cert: good.Cert, Key: other.Key, CA: good.CA},
	} {
		if _, err := mtls.Load(files, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want an error with %q", files, err, name)
		}
	}
}

func TestOnlyExactlyOneNameCounts(t *testing.T) {
	for uris, want := range map[string]string{
		"":                                  "nobody",
		"bigfleet://admin":                  "bigfleet://admin",
		"bigfleet://readonly":               "bigfleet://readonly",
		"bigfleet://cluster/eu-1":           "bigfleet://cluster/eu-1",
		"bigfleet://shard/shard-0":          "bigfleet://shard/shard-0",
		"bigfleet://cluster/a/b":            "bigfleet://cluster/a/b",
		"spiffe://x/y bigfleet://admin":     "bigfleet://admin",
		"spiffe://x/y":                      "nobody",
		"bigfleet://admin bigfleet://admin": "nobody",
		"bigfleet://admin bigfleet://what":  "nobody",
		"bigfleet://cluster/a bigfleet://b": "nobody",
		"bigfleet://cluster":                "nobody",
		"bigfleet://cluster/":               "nobody",
		"bigfleet://admin/":                 "nobody",
		"bigfleet://admin/x":                "nobody",
		"bigfleet://root":                   "nobody",
		"bigfleet://admin?x=1":              "nobody",
		"bigfleet://cluster/a#b":            "nobody",
		"bigfleet://somebody@admin":         "nobody",
		"bigfleet:cluster/a":                "nobody",
		"bigfleet://cluster:443/a":          "nobody",
		// One identity has one text.
		"bigfleet://cluster/%61":      "nobody",
		"bigfleet://cluster/a%2Fb":    "nobody",
		"bigfleet://cluster/a%20b":    "bigfleet://cluster/a%20b",
		"bigfleet://cluster/a%25b":    "bigfleet://cluster/a%25b",
		"bigfleet://cluster/a%0Ab":    "nobody",
		"bigfleet://cluster/%ff":      "nobody",
		"bigfleet://cluster/%C3%A9":   "bigfleet://cluster/%C3%A9",
		"bigfleet://cluster/%c3%a9":   "nobody",
		"bigfleet://Cluster/a":        "nobody",
		"bigfleet://cluster./a":       "nobody",
		"bigfleet://cluster//a":       "bigfleet://cluster//a",
		"bigfleet:///cluster/a":       "nobody",
		"bigfleet://cluster/a?":       "nobody",
		"bigfleet://admin?":           "nobody",
		"bigfleet://@admin":           "nobody",
		"bigfleet://admin:":           "nobody",
		"bigfleet://ADMIN":            "nobody",
		"bigfleet://cluster/../admin": "bigfleet://cluster/../admin",
	} {
		leaf := &x509.Certificate{URIs: parse(t, strings.Fields(uris)...)}
		if got := mtls.Of(leaf).String(); got != want {
			t.Errorf("%q is %s, want %s", uris, got, want)
		}
	}
}

// Every pair of a caller and what a handler asks for, over real connections.
func TestRequire(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	tests := []struct {
		name    string
		uris    []string
		allowed []mtls.Identity
		want    codes.Code
	}{
		{"the cluster itself", []string{"bigfleet://cluster/a"}, []mtls.Identity{mtls.Cluster("a")}, codes.OK},
		{"another cluster", []string{"bigfleet://cluster/b"}, []mtls.Identity{mtls.Cluster("a")}, codes.PermissionDenied},
		{"a shard of the cluster's name", []string{"bigfleet://shard/a"}, []mtls.Identity{mtls.Cluster("a")}, codes.PermissionDenied},
		{"an admin in a cluster's place", []string{"bigfleet://admin"}, []mtls.Identity{mtls.Cluster("a")}, codes.PermissionDenied},
		{"one of two", []string{"bigfleet://readonly"}, []mtls.Identity{mtls.Admin(), mtls.ReadOnly()}, codes.OK},
		{"no name", nil, []mtls.Identity{mtls.Admin(), mtls.ReadOnly()}, codes.PermissionDenied},
		{"nobody, when nobody is allowed", nil, []mtls.Identity{{}}, codes.PermissionDenied},
		{"two names", []string{"bigfleet://admin", "bigfleet://readonly"}, []mtls.Identity{mtls.Admin()}, codes.PermissionDenied},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, load(t, ca.Files(t)), test.allowed...)
			if err := check(t, address, load(t, ca.Files(t, test.uris...))); status.Code(err) != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

func TestPlaintextAsksNobody(t *testing.T) {
	address := serve(t, nil, mtls.Admin())
	if err := check(t, address, nil); err != nil {
		t.Error(err)
	}
}

func TestWhoIsNotOfTheAuthorityIsRefused(t *testing.T) {
	ca, otherCA := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	address := serve(t, load(t, ca.Files(t)))
	theirs := otherCA.Files(t, "bigfleet://admin")
	theirs.CA = ca.Files(t).CA // they believe us, we do not believe them
	if err := check(t, address, load(t, theirs)); status.Code(err) != codes.Unavailable {
		t.Errorf("another CA's certificate: %v, want Unavailable", err)
	}
	if err := check(t, address, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("plaintext to a server with TLS: %v, want Unavailable", err)
	}
	old := load(t, ca.Files(t, "bigfleet://admin")).ClientConfig()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if err := checkWith(t, address, credentials.NewTLS(old)); status.Code(err) != codes.Unavailable {
		t.Errorf("TLS 1.2: %v, want Unavailable", err)
	}
	bare := load(t, ca.Files(t)).ClientConfig()
	bare.GetClientCertificate = nil
	if err := checkWith(t, address, credentials.NewTLS(bare)); status.Code(err) != codes.Unavailable {
		t.Errorf("no certificate: %v, want Unavailable", err)
	}
}

// A certificate is exchanged under a running process: first one file, then the
// other. Between them the old pair is shown.
func TestChangedFilesAreTaken(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	files := ca.Files(t, "bigfleet://cluster/old")
	mine := load(t, files)
	shown := func() string {
		t.Helper()
		pair, err := mine.ClientConfig().GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return mtls.Of(pair.Leaf).String()
	}
	later := time.Now()
	put := func(to, from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, text)
		// Files written within one tick of the clock must still differ.
		later = later.Add(time.Second)
		if err := os.Chtimes(to, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(); got != "bigfleet://cluster/old" {
		t.Fatalf("shown at first: %s", got)
	}
	next := ca.Files(t, "bigfleet://cluster/new")
	put(files.Cert, next.Cert)
	if got := shown(); got != "bigfleet://cluster/old" {
		t.Errorf("shown with the certificate of one pair and the key of another: %s", got)
	}
	put(files.Key, next.Key)
	if got := shown(); got != "bigfleet://cluster/new" {
		t.Errorf("shown when both are there: %s", got)
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "bigfleet://cluster/new" {
		t.Errorf("shown when the key is gone: %s", got)
	}
}

// Secrets of Kubernetes are exchanged by a link to another folder.
func TestFilesBehindALinkAreTaken(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	first, second := ca.Files(t, "bigfleet://shard/one"), ca.Files(t, "bigfleet://shard/two")
	at := time.Now()
	for _, f := range []string{first.Cert, first.Key, second.Cert, second.Key} {
		if err := os.Chtimes(f, at, at); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "current")
	point := func(to mtls.Files) {
		t.Helper()
		if err := os.Symlink(filepath.Dir(to.Cert), link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	point(first)
	mine := load(t, mtls.Files{Cert: filepath.Join(link, "tls.crt"), Key: filepath.Join(link, "tls.key"), CA: first.CA})
	point(second)
	pair, err := mine.ServerConfig().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := mtls.Of(pair.Leaf); got != mtls.Shard("two") {
		t.Errorf("shown: %s, want that of shard two", got)
	}
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, uris ...string) []*url.URL {
	t.Helper()
	var out []*url.URL
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func load(t *testing.T, files mtls.Files) *mtls.Material {
	t.Helper()
	m, err := mtls.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// guarded answers those who are allowed.
type guarded struct {
	healthpb.UnimplementedHealthServer
	allowed []mtls.Identity
}

func (g guarded) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if len(g.allowed) > 0 {
		if err := mtls.Require(ctx, g.allowed...); err != nil {
			return nil, err
		}
	}
	return &healthpb.HealthCheckResponse{}, nil
}

func serve(t *testing.T, m *mtls.Material, allowed ...mtls.Identity) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(m.ServerOptions()...)
	healthpb.RegisterHealthServer(server, guarded{allowed: allowed})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func check(t *testing.T, address string, m *mtls.Material) error {
	t.Helper()
	return call(t, address, m.DialOptions()...)
}

func checkWith(t *testing.T, address string, c credentials.TransportCredentials) error {
	t.Helper()
	return call(t, address, grpc.WithTransportCredentials(c))
}

func call(t *testing.T, address string, options ...grpc.DialOption) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}
