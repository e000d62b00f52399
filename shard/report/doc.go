// Package report is the shard's side of the coordinator's ReportShard: in a
// goroutine of its own it says how the shard stands, and carries out what the
// answer asks for.
//
// The shard does not know this package. Nothing here is ever waited for: when no
// coordinator answers, cycles go on as they are, and the next report comes an
// interval later.
//
// # Whom it asks
//
// Every replica of the coordinator may be asked. One that does not lead names
// the leader in the details of its answer; one that cannot be reached is passed
// over. The one that answered is asked first the next time.
//
// # What it believes
//
// The answer's term must not be lower than the highest one heard of: a leader
// that was replaced is not listened to, and nothing of its answer is
// acknowledged. An instruction comes again with every answer until it was
// acknowledged, so one that was carried out is not carried out twice. What could
// not be delivered is said again with the next report.
package report
