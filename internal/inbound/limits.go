package inbound

import "time"

// Limits of a server. A process has one server, and these are for it.
const (
	// UnprovenBytesMax is what a connection may hold until it is proven.
	UnprovenBytesMax = 64 << 10
	// UnprovenSecondsMax is how long a connection may take to prove itself,
	// from its TLS handshake on. It is longer than a session waits for its
	// hello, so that the clearer error comes first.
	UnprovenSecondsMax = 40
	// UnprovenConnectionsMax is how many such connections a server has. The
	// next one takes the place of the oldest.
	UnprovenConnectionsMax = 1024
	// UnprovenStreamsMax is how many calls may be under way on one of them.
	UnprovenStreamsMax = 8
	// HandshakeSecondsMax is how long TLS and the HTTP/2 preface may take.
	HandshakeSecondsMax = 10

	// ConnectionsPerAddressMax is how many connections an address has, an IPv6
	// network of 64 bits being one address, unless Limits says otherwise.
	ConnectionsPerAddressMax = 2048
	// ConnectionsPerAddressCeiling is the most that Settings may say.
	ConnectionsPerAddressCeiling = 1 << 17
	// ConnectionsPerIdentityMax is how many a certificate's identity has.
	ConnectionsPerIdentityMax = 64
	// StreamsPerConnectionMax is how many calls are under way on a connection.
	// A client waits with more.
	StreamsPerConnectionMax = 256
	// StreamsPerIdentityMax is how many calls of one identity are under way.
	StreamsPerIdentityMax = 1024
	// HeaderBytesMax is how long the headers of a call are together.
	HeaderBytesMax = 8 << 10

	// MessageSecondsMax is how long a message may take from its first byte to
	// its last, while the server waits for it.
	MessageSecondsMax = 30
	// CrowdedSecondsMax is how long it may take while another message waits for
	// the room that it takes up.
	CrowdedSecondsMax = 5
	// RoomSecondsMax is how long a message waits for room before its connection
	// is refused.
	RoomSecondsMax = 30

	// SmallMessageBytesMax is the longest message that takes its room from
	// SmallBytesMax; longer ones take it from LargeBytesMax, so that they
	// cannot delay hellos, answers and reports.
	SmallMessageBytesMax = 1 << 20
	// SmallBytesMax is what small messages hold together.
	SmallBytesMax = 16 << 20
	// LargeBytesMax is what large messages hold together.
	LargeBytesMax = 48 << 20
	// CopyBytesMax is what is copied at a time into one piece; see Copying.
	CopyBytesMax = 32 << 20
	// WaitingBytesMax is what a server may keep of messages that have arrived
	// and wait to be read, under a budget of its own.
	WaitingBytesMax = 48 << 20
	// TotalBytesMax is the sum: everything that arrives or waits in a server.
	TotalBytesMax = SmallBytesMax + LargeBytesMax + CopyBytesMax + WaitingBytesMax

	// MessageBytesMax is the longest message of any server.
	MessageBytesMax = 32 << 20
)

// Shares of one peer in the room for small messages. In that for large ones, a
// certificate's identity may have one message of the greatest length, and an
// address all.
const (
	smallShareOfIdentity = SmallBytesMax / 4
	smallShareOfAddress  = SmallBytesMax / 2
)

const (
	// messageOverheadBytes is what a message holds beside its bytes.
	messageOverheadBytes = 64
	// A message may come in so many frames, and in one more for each so many
	// bytes of it: a frame holds some 100 bytes, however short it is.
	framesFree       = 256
	bytesPerFrameMin = 512
	// readBufferBytes is how much of a connection is read at a time beside what
	// DATA frames carry. There is such a buffer for each connection.
	readBufferBytes    = 8 << 10
	roomCheckEvery     = 250 * time.Millisecond
	refusalLogInterval = time.Second
	// windowBytes is how much of a message longer than allowed may come before
	// gRPC refuses it: the initial window of a stream.
	windowBytes = 1 << 20
)

// The total is what docs/reliability.md promises, and a message fits wherever
// one is kept.
const (
	_ = uint(160<<20 - TotalBytesMax)
	_ = uint(LargeBytesMax - MessageBytesMax - messageOverheadBytes)
	_ = uint(CopyBytesMax - MessageBytesMax)
	_ = uint(WaitingBytesMax - MessageBytesMax)
	_ = uint(UnprovenBytesMax - messageOverheadBytes)
)
