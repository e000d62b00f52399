// Package mtls is how processes of a fleet trust each other: one certificate a
// process, used for serving and for dialling, and the name that stands in it.
//
// # Use
//
//	material, err := mtls.Load(mtls.Files{Cert: cert, Key: key, CA: ca}, log) // the flags --tls-cert, --tls-key, --tls-ca
//	server := grpc.NewServer(material.ServerOptions()...)
//	conn, err := grpc.NewClient(address, material.DialOptionsTo(mtls.ShardServer())...)
//	err = mtls.Require(ctx, mtls.Admin(), mtls.ReadOnly()) // in a handler; the caller must be one of these
//
// Load returns nil when no file is named. Nil is material too: it is
// plaintext, and every method works with it. Servers and clients that do not
// speak gRPC take ServerConfig and ClientConfig, which are nil for plaintext.
//
// # Certificates
//
// TLS 1.3 is the least, and both sides show a certificate that the CA signed.
// All files are looked at with each handshake and read again when they have
// changed: the certificate and its key, the CA, and the deny-list. Content that
// cannot be used (a key that does not fit its certificate, since one is written
// before the other; a CA file that was cut short) is logged once, and the last
// good content stays in use. A certificate needs both extended key usages when
// its process serves and dials, and the names that others dial it by.
//
// The deny-list has serial numbers of certificates that are refused although the
// CA signed them. It holds for new connections at once, and ends open ones with
// the next bytes in either direction, at most a second later. It has an effect
// only on the process that reads it.
//
// # Names
//
// The identity of a peer stands in its certificate as a URI:
// bigfleet://cluster/ID, bigfleet://shard/ID, bigfleet://admin or
// bigfleet://readonly. There must be exactly one of that scheme; with none or
// several, or one that says something else, the peer is nobody, and nobody is
// allowed nothing. Each identity has one text: an ID is percent-encoded where a
// URI needs it and nowhere else. URIs of other schemes do not matter. Over
// plaintext no identity is known, and everything is allowed.
//
// Servers ask for identities with Require. Clients say what a server must show
// with a Server: a coordinator bigfleet://admin, a shard bigfleet://shard/ID, a
// provider the URI that it is known by, if it has one.
package mtls
