package mtls

import (
	"context"
	"crypto/x509"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// scheme is that of the URIs that say who a peer is.
const scheme = "bigfleet"

// Identity is who a peer is. The zero Identity is nobody.
type Identity struct{ role, name string }

// Cluster is the operator of a cluster.
func Cluster(id string) Identity { return Identity{"cluster", id} }

// Shard is a shard.
func Shard(id string) Identity { return Identity{"shard", id} }

// Admin is who may change what the coordinator keeps.
func Admin() Identity { return Identity{role: "admin"} }

// ReadOnly is who may look.
func ReadOnly() Identity { return Identity{role: "readonly"} }

// String returns the identity as a certificate holds it: a URI whose name is
// percent-encoded where a URI needs that; "nobody" of nobody.
func (id Identity) String() string {
	if id == (Identity{}) {
		return "nobody"
	}
	uri := url.URL{Scheme: scheme, Host: id.role}
	if id.name != "" {
		uri.Path = "/" + id.name
	}
	return uri.String()
}

// Of returns the identity in a certificate: the zero Identity, unless exactly
// one URI of the scheme names one, in the form that String writes. An identity
// has one text only: bigfleet://cluster/%61 is nobody, and not the cluster a.
func Of(leaf *x509.Certificate) Identity {
	var found Identity
	uris := 0
	for _, uri := range leaf.URIs {
		if uri.Scheme == scheme {
			uris++
			found = identify(uri)
		}
	}
	if uris != 1 {
		return Identity{}
	}
	return found
}

// identify returns the identity that a URI names, or the zero Identity.
func identify(uri *url.URL) Identity {
	id := Identity{role: uri.Host}
	name, named := strings.CutPrefix(uri.Path, "/")
	switch uri.Host {
	case Cluster("").role, Shard("").role:
		if !named || name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return Identity{}
		}
		id.name = name
	case Admin().role, ReadOnly().role:
		if uri.Path != "" {
			return Identity{}
		}
	default:
		return Identity{}
	}
	// Whatever else a URI may hold (user, port, query, fragment, another encoding
	// of the name, which RawPath has) makes its text another than the identity's.
	if uri.RawPath != "" || uri.String() != id.String() {
		return Identity{}
	}
	return id
}

// Peer returns the identity of the caller, given the context of a handler.
// Secured is false when the call came over plaintext, where the caller is
// unknown.
func Peer(ctx context.Context) (id Identity, secured bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Identity{}, false
	}
	if len(info.State.PeerCertificates) == 0 {
		return Identity{}, true
	}
	return Of(info.State.PeerCertificates[0]), true
}

// Require returns nil when the caller is one of those allowed, or the call
// came over plaintext; else an error with the code PermissionDenied, which
// says who the caller is and who may call.
func Require(ctx context.Context, allowed ...Identity) error {
	id, secured := Peer(ctx)
	if !secured {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if id == a && id != (Identity{}) {
			return nil
		}
		names[i] = a.String()
	}
	return status.Errorf(codes.PermissionDenied, "the certificate shown is of %s, and must be of %s", id, strings.Join(names, " or "))
}
