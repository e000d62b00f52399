package mtls_test

import (
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// Every server that a client may ask for against every certificate that a server
// of the same CA may show.
func TestClientsCheckServers(t *testing.T) {
	ca, otherCA := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	named := func(text string) mtls.Server {
		s, err := mtls.ServerWithURI(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	servers := map[string]mtls.Server{
		"any": mtls.AnyServer(), "coordinator": mtls.CoordinatorServer(), "shard": mtls.ShardServer(),
		"provider": named("bigfleet://provider/p"), "spiffe": named("spiffe://fleet/provider"),
	}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }
	withURIs := func(uris ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			elsewhere(c)
			c.URIs = parse(t, uris...)
		}
	}
	client := load(t, ca.Files(t, "bigfleet://cluster/a"))
	for _, c := range []struct {
		what   string
		files  mtls.Files
		passes string // names of servers that this certificate is accepted as
	}{
		{"a coordinator", ca.Files(t, "bigfleet://admin"), "any coordinator"},
		{"a shard", ca.Files(t, "bigfleet://shard/s-0"), "any shard"},
		{"a cluster", ca.Files(t, "bigfleet://cluster/b"), "any"},
		{"a reader", ca.Files(t, "bigfleet://readonly"), "any"},
		{"a provider", ca.Files(t, "bigfleet://provider/p"), "any provider"},
		{"another provider", ca.Files(t, "bigfleet://provider/p2"), "any"},
		{"a provider by another spelling", ca.Files(t, "bigfleet://provider/%70"), "any"},
		{"no identity", ca.Files(t), "any"},
		{"two identities", ca.Files(t, "bigfleet://admin", "bigfleet://shard/s-0"), "any"},
		{"a coordinator elsewhere", ca.FilesOf(t, withURIs("bigfleet://admin")), ""},
		{"a shard elsewhere", ca.FilesOf(t, withURIs("bigfleet://shard/s-0")), ""},
		{"a workload identity without an address", ca.FilesOf(t, withURIs("spiffe://fleet/provider")), "spiffe"},
		{"the same twice", ca.FilesOf(t, withURIs("spiffe://fleet/provider", "spiffe://fleet/provider")), ""},
		{"a client's certificate", ca.FilesOf(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			c.URIs = parse(t, "bigfleet://admin")
		}), ""},
		{"a provider's with a client's certificate", ca.FilesOf(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			c.URIs = parse(t, "spiffe://fleet/provider")
		}), ""},
		{"another CA's coordinator", otherCA.Files(t, "bigfleet://admin"), ""},
		{"another CA's provider", otherCA.Files(t, "spiffe://fleet/provider"), ""},
		{"by an intermediate", ca.Intermediate(t).Files(t, "spiffe://fleet/provider"), "any spiffe"},
	} {
		own := c.files
		own.CA = ca.File()
		address := serve(t, load(t, own))
		for name, server := range servers {
			want := codes.Unavailable
			if strings.Contains(" "+c.passes+" ", " "+name+" ") {
				want = codes.OK
			}
			if err := call(t, address, client.DialOptionsTo(server)...); status.Code(err) != want {
				t.Errorf("%s, dialled as %s: %v, want %v", c.what, name, err, want)
			}
		}
	}
}

func TestServerURIs(t *testing.T) {
	for _, text := range []string{"provider", "spiffe:x", "bigfleet://provider/%zz", "BIGFLEET://provider/x", "/x", "bigfleet://provider/a b"} {
		if _, err := mtls.ServerWithURI(text); err == nil {
			t.Errorf("%q is taken as the URI of a server", text)
		}
	}
	if s, err := mtls.ServerWithURI(""); err != nil || s != mtls.AnyServer() {
		t.Errorf("no URI: %v, %v, want any server", s, err)
	}
}

// What a private port must not share with the CA that tenants come from.
func TestSeparateAuthorities(t *testing.T) {
	public, private := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	under := private.Intermediate(t)
	tenants, own := public.Files(t, "bigfleet://admin"), private.Files(t)
	own.Flags = "raft-tls"
	if err := mtls.Separate(tenants, own); err != nil {
		t.Errorf("two authorities: %v", err)
	}
	with := func(change func(tenants, own *mtls.Files)) error {
		a, b := tenants, own
		change(&a, &b)
		return mtls.Separate(a, b)
	}
	bundle := t.TempDir() + "/bundle.crt"
	replace(t, bundle, content(t, private.File()), content(t, public.File()))
	chained := under.Files(t, "bigfleet://admin")
	chained.CA = public.File()
	issued := public.Files(t)
	for what, c := range map[string]struct {
		change func(tenants, own *mtls.Files)
		want   string
	}{
		"one CA":              {func(_, own *mtls.Files) { own.CA = public.File() }, "--tls-ca and --raft-tls-ca both hold"},
		"one of several":      {func(_, own *mtls.Files) { own.CA = bundle }, "both hold"},
		"tenants under":       {func(tenants, _ *mtls.Files) { tenants.CA = under.File() }, "is signed by"},
		"a tenant of the CA":  {func(tenants, _ *mtls.Files) { *tenants = chained }, "the certificate of --tls-cert comes from"},
		"a leaf of the other": {func(_, own *mtls.Files) { own.Cert, own.Key = issued.Cert, issued.Key }, "the certificate of --raft-tls-cert comes from"},
	} {
		if err := with(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.want)
		}
	}
	if err := mtls.PassesOwnCA(own); err != nil {
		t.Errorf("its own CA: %v", err)
	}
	own.CA = public.File()
	if err := mtls.PassesOwnCA(own); err == nil {
		t.Error("a certificate of another CA passes")
	}
	serving := private.FilesOf(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	if err := mtls.PassesOwnCA(serving); err == nil || !strings.Contains(err.Error(), "client") {
		t.Errorf("a certificate for serving only: %v", err)
	}
}

func TestExposedPortsAreWarnedOf(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	secured := load(t, ca.Files(t))
	for _, c := range []struct {
		address string
		m       *mtls.Material
		want    int
	}{
		{"0.0.0.0:7780", nil, 1}, {"[::]:7780", nil, 1}, {"10.0.0.1:7780", nil, 1},
		{"127.0.0.1:7780", nil, 0}, {"127.8.0.1:7780", nil, 0}, {"[::1]:7780", nil, 0},
		{"0.0.0.0:7780", secured, 0},
	} {
		log := &lines{}
		address, err := net.ResolveTCPAddr("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		c.m.WarnIfExposed(slog.New(slog.NewTextHandler(log, nil)), "--listen", address)
		if got := log.count("level=WARN"); got != c.want || got > 0 && log.count("--tls-cert") != 1 {
			t.Errorf("%s, with TLS %t: %q, want %d warnings that name --tls-cert", c.address, c.m != nil, log.text.String(), c.want)
		}
	}
}

// Whatever a certificate holds: there is one text for an identity, and it names
// that identity again.
func FuzzIdentities(f *testing.F) {
	for _, text := range []string{
		"bigfleet://admin", "bigfleet://readonly", "bigfleet://cluster/a", "bigfleet://cluster/%61", "bigfleet://shard/a b",
		"bigfleet://cluster/a%20b", "bigfleet://cluster/%2e%2E", "bigfleet://admin?", "bigfleet://admin#", "BIGFLEET://admin", "bigfleet:admin",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		uri, err := url.Parse(text)
		if err != nil {
			return // crypto/x509 refuses the certificate
		}
		id := mtls.Of(&x509.Certificate{URIs: []*url.URL{uri}})
		if id == (mtls.Identity{}) {
			return
		}
		// The scheme of a URI has no case, and url.Parse drops an empty fragment.
		if scheme, rest, _ := strings.Cut(strings.TrimSuffix(text, "#"), ":"); strings.ToLower(scheme)+":"+rest != id.String() {
			t.Errorf("%q is taken as %s", text, id)
		}
		again, err := url.Parse(id.String())
		if err != nil || mtls.Of(&x509.Certificate{URIs: []*url.URL{again}}) != id {
			t.Errorf("%s does not name itself: %v", id, err)
		}
	})
}
