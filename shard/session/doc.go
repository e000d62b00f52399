// Package session is the shard's side of what operators say and hear: it serves
// bigfleet.v1alpha1.Shard, where each cluster's operator has a session, and
// ShardRead, where people ask what was decided.
//
//	server, err := session.NewServer(session.Deps{Core: shard, TLS: material, …})
//	go server.Serve(listener)          // until Drain
//	shard.New(cfg, shard.Deps{Operators: server, …})
//	server.Drain(ctx)
//
// # A session
//
//	       operator                            shard
//	hello, answers ──▶ reader ──────────────▶ the calls that wait for them
//	roll-ups ────────▶ reader ─▶ intake ────▶ Core.TakeRollup     (one a cluster waits, the newest; one a second is read)
//	acks, requests  ◀── sender ◀── replies ◀── intake, Bootstrap, Cordon
//	news            ◀── sender ◀── updates ◀── NodeState, Capacity  (one a topic waits, the newest)
//
// A session begins with a hello. It is acknowledged, and then the operator
// hears of every machine that is bound to its cluster. The newest session of a
// cluster counts: the one before it is ended, its roll-up that waits is
// dropped, and its end takes nothing of the new one along.
//
// Roll-ups take a separate path, so that an answer which a call waits for is never
// queued behind a roll-up that is being read. They are read by a few readers;
// TakeRollup puts the rows into a mailbox, which the next cycle empties. So an
// acknowledgement says that a roll-up was checked and stored; it does not wait for
// a cycle. After a roll-up of a cluster was read, the next is read
// Deps.ClusterInterval later, whichever session sends it. A roll-up is taken whole
// or refused whole. The protocol has no message for a refusal: a refused roll-up
// is not acknowledged, and the log, the count of refused roll-ups and Sessions say
// why.
//
// What goes to the operator waits in its outbox: first replies in their order,
// then updates, in which news of a machine takes the place of older news of it.
// Adding to the outbox never blocks, so an operator that reads slowly or not at
// all does not delay a cycle. A session whose operator reads nothing for
// SendStallMax, or whose outbox has more entries than there can be machines, is
// closed; the next session begins with the full state.
//
// # What is bounded
//
// Sessions, roll-ups that wait (one a cluster, and WaitingBytesMax together), replies and
// updates of a session, answers that are waited for, bootstrap data that is kept, what one
// cluster may report (ClusterLimits), and what it may take up of the machine table: attribute
// keys and sets of requirements are limited for all clusters together there, and a cycle over
// the limit decides nothing for any cluster. So a roll-up that would pass the limit is
// refused, and the cluster keeps its last demand.
//
// # From the wire to the table
//
// A roll-up is the protobuf message ClusterCapacityNeeds. It repeats itself:
// hundreds of rows say the same few requirements in the same bytes, and what
// differs are a few quantities. A generic decoder allocates some forty objects
// for each row. Decoder allocates none; the codec of the server hands it the
// raw bytes:
//
//	message ──┬─ requirements, spread, priority, penalties ── the bytes as key ──▶ profiles seen before
//	          ├─ aggregate, minimum unit ── quantities read in place ──▶ amounts      │
//	          └─ group ── bytes ──┐                               │                  │ number
//	                              ▼                               ▼                  ▼
//	                             demand.Builder ── columns ── demand.Table.Report, by the next cycle
//
// Bytes are keys, so what the same profile looks like in other bytes (another
// order of fields, say) is parsed again and is the same profile in the table.
// A hash finds a key, and a comparison of all its bytes confirms it.
//
// # What is accepted
//
// What every protobuf decoder accepts, in the same meaning: fields in any
// order, the last of several values, unknown fields skipped, a known field of
// another wire type as unknown, text as UTF-8. Frames of a kind that is not
// known are ignored, as are answers that nobody waits for. On top of that the
// rules of the contract and the limits below. Whatever the bytes are, the
// answer is rows or an error that says where the fault is; a test holds this to
// a slow decoder that is built on a generic one.
package session
