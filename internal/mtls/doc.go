// Package mtls is how processes of a fleet trust each other: one certificate a
// process, used for serving and for dialling, and the name that stands in it.
//
// # Use
//
//	material, err := mtls.Load(mtls.Files{Cert: cert, Key: key, CA: ca}, log) // the flags --tls-cert, --tls-key, --tls-ca
//	server := grpc.NewServer(material.ServerOptions()...)
//	conn, err := grpc.NewClient(address, material.DialOptions()...)
//	err = mtls.Require(ctx, mtls.Admin(), mtls.ReadOnly()) // in a handler; the caller must be one of these
//
// Load returns nil when no file is named. Nil is material too: it is
// plaintext, and every method works with it. Whoever does not speak gRPC takes
// ServerConfig and ClientConfig, which are nil for plaintext then.
//
// # Certificates
//
// TLS 1.3 is the least, and both sides show a certificate that the CA signed.
// The files of the certificate and its key are looked at with each handshake,
// and read again when they have changed; while they do not fit together, since
// one is written before the other, the last pair that did is used. The CA is
// read once. A certificate needs both extended key usages when its process
// serves and dials, and the names that others dial it by.
//
// # Names
//
// Who a peer is stands in its certificate as a URI: bigfleet://cluster/ID,
// bigfleet://shard/ID, bigfleet://admin or bigfleet://readonly. There must be
// exactly one of that scheme; with none or several, or one that says something
// else, the peer is nobody, and nobody is allowed nothing. URIs of other
// schemes do not matter. Over plaintext nobody is asked.
package mtls
