package mtls

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// MessageBytesMax is the longest message that is sent or taken, everywhere. A
// library's own limit of 4 MiB is too low for roll-ups and listings.
const MessageBytesMax = 256 << 20

// How it is found out that a peer is gone without a word. A server asks when
// nothing has come for a while. A client asks seldom: a server that never
// heard of this package takes more than one question in five minutes for an
// attack, and ends the connection. What a client has sent and nobody confirms
// ends it after silenceMax all the same, where the kernel knows how.
const (
	serverAsksAfter = 30 * time.Second
	clientAsksAfter = 5*time.Minute + 10*time.Second
	silenceMax      = 20 * time.Second
	// clientMayAskEvery is how often others may ask our servers.
	clientMayAskEvery = 5 * time.Second
)

// How much a peer may send before it is read: of one call, and over a connection.
// With the library's 64 KiB a roll-up of 20,000 rows, some 2 MiB, waits for the
// receiver's word thirty times. The library finds out by itself how much is good,
// but asks with a ping behind nearly every message: for a shard that tells a
// thousand operators something each, that is twice the work. It is a limit, and no
// memory is taken for it; a message longer than that still comes in one go.
const (
	callWindowBytes       = 1 << 20
	connectionWindowBytes = 4 << 20
)

// ServerCredentials are those of a gRPC server.
func (m *Material) ServerCredentials() credentials.TransportCredentials {
	if m == nil {
		return insecure.NewCredentials()
	}
	return serverCredentials{credentials.NewTLS(m.ServerConfig()), m}
}

// serverCredentials obey the deny-list after the handshake, too.
type serverCredentials struct {
	credentials.TransportCredentials
	material *Material
}

func (c serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return c.material.watch(conn, info), info, nil
}

func (c serverCredentials) Clone() credentials.TransportCredentials {
	return serverCredentials{c.TransportCredentials.Clone(), c.material}
}

// ClientCredentials are those of a gRPC client. The server must show what server
// says; each handshake uses the CA as it is then.
func (m *Material) ClientCredentials(server Server) credentials.TransportCredentials {
	if m == nil {
		return insecure.NewCredentials()
	}
	return clientCredentials{credentials.NewTLS(m.clientConfig(server)), m, server}
}

// clientCredentials make the settings of each handshake anew.
type clientCredentials struct {
	credentials.TransportCredentials // for all but handshakes
	material                         *Material
	server                           Server
}

func (c clientCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(c.material.clientConfig(c.server)).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return c.material.watch(conn, info), info, nil
}

func (c clientCredentials) Clone() credentials.TransportCredentials {
	return clientCredentials{c.TransportCredentials.Clone(), c.material, c.server}
}

// ServerOptions are what every gRPC server is made with: credentials, the
// limit of messages, and how it finds out that a client is gone.
func (m *Material) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(m.ServerCredentials()),
		grpc.MaxRecvMsgSize(MessageBytesMax),
		grpc.MaxSendMsgSize(MessageBytesMax),
		grpc.InitialWindowSize(callWindowBytes),
		grpc.InitialConnWindowSize(connectionWindowBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverAsksAfter, Timeout: silenceMax}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientMayAskEvery, PermitWithoutStream: true}),
	}
}

// DialOptions are DialOptionsTo of AnyServer.
func (m *Material) DialOptions() []grpc.DialOption { return m.DialOptionsTo(AnyServer()) }

// DialOptionsTo are what every gRPC client is made with that dials such a server.
func (m *Material) DialOptionsTo(server Server) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(m.ClientCredentials(server)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MessageBytesMax), grpc.MaxCallSendMsgSize(MessageBytesMax)),
		grpc.WithInitialWindowSize(callWindowBytes),
		grpc.WithInitialConnWindowSize(connectionWindowBytes),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: clientAsksAfter, Timeout: silenceMax}),
	}
}
