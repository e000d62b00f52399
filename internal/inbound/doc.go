// Package inbound limits what peers can make a gRPC server hold: connections,
// calls, and above all messages that arrive.
//
// # Use
//
//	gate := inbound.New(inbound.Options{Rules: rules, TLS: material, MessageBytesMax: 4 << 20, Log: log})
//	server := grpc.NewServer(append(gate.ServerOptions(), own...)...)
//	registry.MustRegister(gate)
//
// The handler of a streaming call says [Taken] once for each message that it has
// accounted for elsewhere, and [Admitted] when a hello is accepted, if the rule of
// the method says Hello. Unary calls need neither.
//
// # Threat
//
// A peer is anybody who reaches the port; with mutual TLS, anybody with a
// certificate of the CA. It can announce messages and not send them, send
// compressed ones, open connections and calls without end, send frames that cost
// more than they carry, and read no answers. gRPC's own limits are for a server
// and one message: when a handler waits for a message, the library lets all of
// it come, whoever sends it.
//
// # What is counted
//
//	listener -> arrive: counts the connection of the address
//	         -> TLS -> identify: counts the connection of the identity
//	         -> conn.Read: frames -> announce: takes room -> gRPC
//	         -> tap: role of the identity, number of calls
//	         -> handler: Admitted, Taken; the call's end gives back the rest
//
// A conn is what gRPC reads from. It follows frame headers and the prefix of each
// gRPC message. A message takes room for its whole length when its prefix is
// complete. Without room the connection is in debt: it passes on the rest of the
// frame, and is not read again until the debt is settled. So what the transport
// holds of messages is at most what they announced, plus one frame a connection.
// Room is given back when the handler has taken the message, or when the call
// ends. Calls are found by their stream number: Read stops behind each block of
// headers, so when the tap handle runs, the last block is that of its call.
//
// A connection is unproven until a call of it is accepted (its hello, for
// sessions). It may hold [UnprovenBytesMax]; more waits until it is proven. There
// are [UnprovenConnectionsMax] of them, and the oldest makes room for the next.
//
// # Budget
//
//	small messages that arrive    SmallBytesMax     16 MiB
//	large messages that arrive    LargeBytesMax     48 MiB
//	one message that is copied    CopyBytesMax      32 MiB
//	messages that wait, elsewhere WaitingBytesMax   48 MiB
//	                              TotalBytesMax    144 MiB
//
// Beside it, a connection costs some 20 to 50 KiB and a call some 10 KiB with its
// headers, and the collector lets the heap grow before it collects. The process
// stays below 256 MiB above its memory at rest.
//
// A party (an identity, or an address over plaintext) has shares of the first two.
// Messages that wait for room get it in the order in which they came; one that
// waits for its party's share delays no other party.
//
// # Locks
//
// A connection's lock is taken before the gate's. Nothing waits while it holds
// either.
package inbound
