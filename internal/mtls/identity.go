package mtls

import (
	"context"
	"crypto/x509"
	"strings"

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

// String returns the URI; "nobody" of nobody.
func (id Identity) String() string {
	switch {
	case id == Identity{}:
		return "nobody"
	case id.name == "":
		return scheme + "://" + id.role
	}
	return scheme + "://" + id.role + "/" + id.name
}

// Of returns who a certificate names: nobody, unless exactly one URI of the
// scheme says it.
func Of(leaf *x509.Certificate) Identity {
	var found Identity
	uris := 0
	for _, uri := range leaf.URIs {
		if uri.Scheme != scheme {
			continue
		}
		uris++
		name, named := strings.CutPrefix(uri.Path, "/")
		named = named && name != ""
		switch {
		case uri.User != nil || uri.RawQuery != "" || uri.Fragment != "" || uri.Opaque != "":
		case (uri.Host == "cluster" || uri.Host == "shard") && named:
			found = Identity{uri.Host, name}
		case (uri.Host == "admin" || uri.Host == "readonly") && uri.Path == "":
			found = Identity{role: uri.Host}
		}
	}
	if uris != 1 {
		return Identity{}
	}
	return found
}

// Peer returns who makes the call that a handler's context is of. Secured is
// false when the call came over plaintext: nobody can say then who it is.
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
