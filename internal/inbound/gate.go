package inbound

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/tonnage/tonnage/internal/mtls"
)

// Rule says who may call a method. Method is its full name, or a prefix of it
// that ends in a slash; the first rule that fits holds.
type Rule struct {
	Method string
	// Roles are the roles of identities that may call it: cluster, shard,
	// admin, readonly. Over plaintext every peer may.
	Roles []string
	// Hello is that a connection is not proven by such a call alone, but by
	// Admitted.
	Hello bool
	// AtOnce is how many such calls of an identity may be under way, and 16
	// times as many of an address over plaintext; 0 = no limit of their own. It
	// is for answers that are long and may not be read.
	AtOnce int
}

// atOnceOfAddress is how many times AtOnce an address may have.
const atOnceOfAddress = 16

// Settings are what those who run a server may change. The zero value is what
// docs/reliability.md promises for.
type Settings struct {
	// ConnectionsPerAddress is how many connections an address may have, 1 to
	// ConnectionsPerAddressCeiling; 0 = ConnectionsPerAddressMax.
	ConnectionsPerAddress int
	// Compressed has compressed messages accepted. What they become when they
	// are inflated is not part of any budget.
	Compressed bool
}

// Validate returns an error that names the flag when a setting is out of range.
func (s Settings) Validate() error {
	if n := s.ConnectionsPerAddress; n < 0 || n > ConnectionsPerAddressCeiling {
		return fmt.Errorf("--connections-per-address must be between 0 (for %d) and %d, got %d", ConnectionsPerAddressMax, ConnectionsPerAddressCeiling, n)
	}
	return nil
}

// Options is what a gate is made with.
type Options struct {
	// Rules are for all methods; one that no rule fits needs a known role.
	Rules []Rule
	// TLS is the server's, nil for plaintext.
	TLS *mtls.Material
	// MessageBytesMax is the longest message of this server, at most the
	// constant of that name.
	MessageBytesMax int
	Settings
	// Denied is told the method of each call whose peer has none of the roles
	// that may make it; nil = nobody is told. It must not block.
	Denied func(method string)
	// Refusal returns the error that such a call ends with; nil = an error with
	// the code PermissionDenied, which it is given. It must not block.
	Refusal func(denied error) error
	Log     *slog.Logger // nil = none
}

// Gate guards one gRPC server. It is a prometheus.Collector. Safe for
// concurrent use.
type Gate struct {
	rules      []Rule
	messageMax int64
	perAddress int
	options    []grpc.ServerOption
	denied     func(method string)
	refusal    func(denied error) error
	refusals   refusals

	mu          sync.Mutex
	connections int
	unproven    *list.List // of *conn, the oldest first
	addresses   map[string]*party
	identities  map[mtls.Identity]*party
	held        [kinds]int64
	waiters     [kinds][]*waiter
	gcPercent   func(live uint64) int
	crowded     [kinds]time.Time // when a message was last refused for another
	partial     map[*stream]partial
}

// New returns a gate.
func New(o Options) *Gate {
	if o.MessageBytesMax <= 0 || o.MessageBytesMax > MessageBytesMax {
		panic(fmt.Sprintf("inbound: messages of %d bytes, must be of 1 to %d", o.MessageBytesMax, MessageBytesMax))
	}
	g := &Gate{
		rules: o.Rules, messageMax: int64(o.MessageBytesMax), perAddress: o.ConnectionsPerAddress, denied: o.Denied, refusal: o.Refusal,
		refusals: refusals{log: o.Log}, unproven: list.New(), addresses: map[string]*party{},
		identities: map[mtls.Identity]*party{}, partial: map[*stream]partial{},
	}
	if g.perAddress <= 0 {
		g.perAddress = ConnectionsPerAddressMax
	}
	if g.refusals.log == nil {
		g.refusals.log = slog.New(slog.DiscardHandler)
	}
	g.options = append(o.TLS.ServerOptions(),
		grpc.Creds(guarded{o.TLS.ServerCredentials(), g}),
		grpc.InTapHandle(g.tap),
		grpc.MaxRecvMsgSize(o.MessageBytesMax),
		grpc.MaxConcurrentStreams(StreamsPerConnectionMax),
		grpc.MaxHeaderListSize(HeaderBytesMax),
		grpc.ConnectionTimeout(HandshakeSecondsMax*time.Second),
		grpc.ReadBufferSize(readBufferBytes),
		experimental.BufferPool(arrivals),
	)
	if !o.Compressed {
		//nolint:staticcheck // It is the only way to refuse an encoding for one server, before anything is inflated.
		g.options = append(g.options, grpc.RPCDecompressor(incompressible{g}))
	}
	return g
}

// ServerOptions are what the server is made with. They contain those of
// mtls.Material.ServerOptions; later options of the server's own may add to
// them, but must not replace credentials, tap handle, limits or buffer pool.
func (g *Gate) ServerOptions() []grpc.ServerOption { return slices.Clone(g.options) }

// arrivals lends what DATA frames lie in, at most a quarter longer than they
// are. gRPC's own pool lends 16 KiB to a frame of 4,097 bytes.
var arrivals = func() mem.BufferPool {
	sizes := []int{256, 512, 1024}
	for n := 1 << 10; n < 32<<10; n *= 2 {
		sizes = append(sizes, n+n/4, n+n/2, n+n/4*3, 2*n)
	}
	return mem.NewTieredBufferPool(append(sizes, 1<<20)...)
}()

// incompressible refuses what is compressed with gzip, the one encoding that a
// library has registered; gRPC itself refuses the others.
type incompressible struct{ gate *Gate }

func (x incompressible) Type() string { return "gzip" }

func (x incompressible) Do(io.Reader) ([]byte, error) {
	x.gate.refusals.note(nil, reasonCompressed, nil)
	return nil, errors.New("compressed messages are not accepted: send them as they are")
}

// guarded are credentials that count connections.
type guarded struct {
	credentials.TransportCredentials
	gate *Gate
}

func (x guarded) Clone() credentials.TransportCredentials {
	return guarded{x.TransportCredentials.Clone(), x.gate}
}

func (x guarded) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, err := x.gate.arrive(raw)
	if err != nil {
		return nil, nil, err
	}
	inner, info, err := x.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			x.gate.refusals.note(c, reasonHandshake, err)
		}
		_ = c.Close()
		return nil, nil, err
	}
	if err := x.gate.identify(c, inner, info); err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return c, info, nil
}

// addressOf returns what counts as one address.
func addressOf(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.Network()
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64)
	return network.String()
}

// arrive counts a connection that has said nothing yet.
func (g *Gate) arrive(raw net.Conn) (*conn, error) {
	c := &conn{Conn: raw, raw: raw, gate: g, closed: make(chan struct{}), proof: make(chan struct{}), frames: newFrames(), streams: map[uint32]*stream{}}
	c.remote = &remote{raw.RemoteAddr(), c}
	key := addressOf(raw.RemoteAddr())
	g.mu.Lock()
	of := g.addresses[key]
	if of == nil {
		of = &party{
			name: "address " + key, connectionsMax: g.perAddress, streamsMax: 2 * g.perAddress,
			share: [kinds]int64{smallShareOfAddress, LargeBytesMax},
		}
		g.addresses[key] = of
	}
	if of.connections >= of.connectionsMax {
		g.mu.Unlock()
		err := fmt.Errorf("%s has %d connections, as many as it may", of.name, of.connectionsMax)
		g.refusals.note(c, reasonAddress, err)
		return nil, err
	}
	of.connections++
	g.connections++
	c.address, c.party = of, of
	var oldest *conn
	if g.unproven.Len() >= UnprovenConnectionsMax {
		oldest = g.unproven.Front().Value.(*conn)
		g.prove(oldest) // so that the next one does not choose it again
	}
	c.unproven = g.unproven.PushBack(c)
	c.timer = time.AfterFunc(UnprovenSecondsMax*time.Second, func() { c.refuse(reasonUnproven, errSilent) })
	g.mu.Unlock()
	if oldest != nil {
		oldest.refuse(reasonUnproven, errReplaced)
	}
	return c, nil
}

// identify gives a connection the budget of its identity.
func (g *Gate) identify(c *conn, inner net.Conn, info credentials.AuthInfo) error {
	id, secured := mtls.Peer(peer.NewContext(context.Background(), &peer.Peer{Addr: c.remote, AuthInfo: info}))
	c.Conn = inner
	g.mu.Lock()
	c.id, c.secure = id, secured
	if c.left {
		g.mu.Unlock()
		return net.ErrClosed
	}
	if !secured {
		g.mu.Unlock()
		return nil
	}
	of := g.identities[id]
	if of == nil {
		of = &party{
			name: id.String(), connectionsMax: ConnectionsPerIdentityMax, streamsMax: StreamsPerIdentityMax,
			share: [kinds]int64{smallShareOfIdentity, MessageBytesMax + messageOverheadBytes},
		}
		g.identities[id] = of
	}
	if of.connections >= of.connectionsMax {
		g.mu.Unlock()
		err := fmt.Errorf("%s has %d connections, as many as it may", of.name, of.connectionsMax)
		g.refusals.note(c, reasonIdentity, err)
		return err
	}
	of.connections++
	c.party = of
	g.mu.Unlock()
	return nil
}

// leave forgets a connection that is closed.
func (g *Gate) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prove(c)
	c.left = true
	for k, bytes := range c.debt { // given back with what its streams hold
		g.add(c.party, k, bytes)
		c.debt[k] = 0
	}
	g.connections--
	if c.party != c.address {
		c.party.connections--
	}
	c.address.connections--
	g.sweep(c)
}

// sweep forgets parties that have nothing any more; the lock is held.
func (g *Gate) sweep(c *conn) {
	empty := func(p *party) bool { return p.connections == 0 && p.streams == 0 && p.held == [kinds]int64{} }
	if c.party != c.address && empty(c.party) && g.identities[c.id] == c.party {
		delete(g.identities, c.id)
	}
	if key := strings.TrimPrefix(c.address.name, "address "); empty(c.address) && g.addresses[key] == c.address {
		delete(g.addresses, key)
	}
}

// prove takes a connection out of those that have yet to prove themselves; the
// lock is held.
func (g *Gate) prove(c *conn) {
	if c.unproven == nil {
		return
	}
	g.unproven.Remove(c.unproven)
	c.unproven = nil
	close(c.proof)
	c.timer.Stop()
}

func (g *Gate) remember(s *stream, p partial) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.partial[s] = p
}

func (g *Gate) forget(s *stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.partial, s)
}

// streamKey is where a call's context has its stream.
type streamKey struct{}

// tap decides about a call when nothing of it was read but its headers.
func (g *Gate) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "a call without a peer")
	}
	at, ok := p.Addr.(*remote)
	if !ok {
		return nil, status.Error(codes.Internal, "a call that did not come through the gate")
	}
	c := at.conn
	rule := g.ruleFor(info.FullMethodName)
	if err := rule.allows(c); err != nil {
		g.refusals.note(c, reasonPermission, err)
		if g.denied != nil {
			g.denied(info.FullMethodName)
		}
		if g.refusal != nil {
			err = g.refusal(err)
		}
		return nil, err
	}
	s, err := c.open(rule)
	if err != nil {
		return nil, err
	}
	if !rule.Hello {
		g.mu.Lock()
		g.prove(c)
		g.mu.Unlock()
	}
	ctx = context.WithValue(ctx, streamKey{}, s)
	context.AfterFunc(ctx, s.end)
	return ctx, nil
}

// anyRole is the rule of methods that no rule fits.
var anyRole = Rule{Roles: []string{"cluster", "shard", "admin", "readonly"}}

func (g *Gate) ruleFor(method string) Rule {
	for _, r := range g.rules {
		if r.Method == method || strings.HasSuffix(r.Method, "/") && strings.HasPrefix(method, r.Method) {
			return r
		}
	}
	return anyRole
}

// allows returns an error with the code PermissionDenied when a peer's
// certificate is of none of the roles.
func (r Rule) allows(c *conn) error {
	if !c.secure {
		return nil
	}
	role, _, _ := strings.Cut(strings.TrimPrefix(c.id.String(), "bigfleet://"), "/")
	if slices.Contains(r.Roles, role) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "the certificate shown is of %s, and must be of %s", c.id, strings.Join(r.Roles, " or "))
}

// Admitted proves the connection of a call whose rule says Hello: from now on
// it has the budget of its identity. ctx is the call's.
func Admitted(ctx context.Context) {
	s, ok := ctx.Value(streamKey{}).(*stream)
	if !ok {
		return
	}
	g := s.conn.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !s.conn.left {
		g.prove(s.conn)
	}
}

// Taken gives back the room of the oldest message of a streaming call that the
// handler has not yet said to have taken. The handler calls it once for each
// message, when the message is read or accounted for elsewhere. ctx is the
// call's. A unary call's message has its room until the call ends.
func Taken(ctx context.Context) {
	if s, ok := ctx.Value(streamKey{}).(*stream); ok {
		s.taken()
	}
}

// copying is held while a large message is copied; see Copying.
var copying sync.Mutex

// Copying runs f, which copies a message of so many bytes into one piece. Large
// messages take turns, so that of all of them one at a time exists twice.
func Copying(bytes int, f func()) {
	if bytes > SmallMessageBytesMax {
		copying.Lock()
		defer copying.Unlock()
	}
	f()
}
