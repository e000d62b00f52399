package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Server says what a client wants a server's certificate to show, beside a
// signature of the CA. The zero Server is AnyServer.
type Server struct {
	role string // the certificate has the name that is dialled, and this role
	uri  string // the certificate has this URI; the name that is dialled does not matter
}

// AnyServer is a server whose certificate has the name that it is dialled by.
// Its identity does not matter.
func AnyServer() Server { return Server{} }

// CoordinatorServer is a replica of the coordinator: its certificate has the name
// that it is dialled by, and the identity bigfleet://admin.
func CoordinatorServer() Server { return Server{role: Admin().role} }

// ShardServer is a shard, whichever: its certificate has the name that it is
// dialled by, and an identity bigfleet://shard/ID.
func ShardServer() Server { return Server{role: Shard("").role} }

// ServerWithURI is the server whose certificate has exactly one URI that equals
// this text. The name that it is dialled by does not matter then, as with
// SPIFFE. Empty text is AnyServer. The error says why text is no URI.
func ServerWithURI(text string) (Server, error) {
	if text == "" {
		return AnyServer(), nil
	}
	uri, err := url.Parse(text)
	if err != nil {
		return Server{}, fmt.Errorf("%.200q is no URI: %w", text, err)
	}
	if uri.Scheme == "" || uri.Host == "" || uri.String() != text {
		return Server{}, fmt.Errorf("%.200q is no URI as certificates hold it; bigfleet://provider/NAME and spiffe://DOMAIN/PATH are examples", text)
	}
	return Server{uri: text}, nil
}

// check returns an error unless the leaf shows what the client wants.
func (s Server) check(leaf *x509.Certificate) error {
	switch {
	case s.uri != "":
		equal := func(uri *url.URL) bool { return uri.String() == s.uri }
		if first := slices.IndexFunc(leaf.URIs, equal); first < 0 || slices.ContainsFunc(leaf.URIs[first+1:], equal) {
			return fmt.Errorf("the server's certificate shows %s, and must show %s once", uris(leaf), s.uri)
		}
	case s.role != "":
		if id := Of(leaf); id.role != s.role {
			want := Identity{role: s.role}.String()
			if s == ShardServer() {
				want += "/ID"
			}
			return fmt.Errorf("the server's certificate is of %s, and must be of %s", id, want)
		}
	}
	return nil
}

// uris lists the URIs of a certificate for an error message.
func uris(leaf *x509.Certificate) string {
	if len(leaf.URIs) == 0 {
		return "no URI"
	}
	const listedMax = 4
	var out []string
	for _, uri := range leaf.URIs[:min(len(leaf.URIs), listedMax)] {
		out = append(out, fmt.Sprintf("%.200s", uri))
	}
	return strings.Join(out, ", ")
}

// clientConfig returns the settings for one handshake with a server, with the CA
// as it is now.
func (m *Material) clientConfig(server Server) *tls.Config {
	roots := m.currentCA()
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.current(), nil },
		// The library cannot verify a chain without a host name. For a server that
		// is known by its URI, VerifyConnection does so.
		InsecureSkipVerify: server.uri != "", //nolint:gosec // VerifyConnection verifies the chain
		VerifyConnection: func(state tls.ConnectionState) error {
			if server.uri != "" {
				if err := verifyChain(state.PeerCertificates, roots, x509.ExtKeyUsageServerAuth); err != nil {
					return err
				}
			}
			if err := m.admit(state); err != nil {
				return err
			}
			return server.check(state.PeerCertificates[0])
		},
	}
}

// verifyChain verifies that a CA of roots signed what a peer has shown, for this
// usage. Names are not looked at.
func verifyChain(shown []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) error {
	if len(shown) == 0 {
		return errors.New("the peer shows no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}
