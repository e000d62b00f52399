// Package report is the shard's side of the coordinator's ReportShard: a
// goroutine of its own reports the state of the shard and carries out the
// instructions in the answer.
//
// The shard does not import this package and never waits for it: when no
// coordinator answers, cycles go on unchanged, and the next report is sent an
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
// The answer's term must not be lower than the highest one heard of: answers of
// a replaced leader are dropped, and no instruction in them is acknowledged. An
// instruction comes again with every answer until it was acknowledged, so one
// that was carried out is not carried out twice. What could not be delivered is
// said again with the next report.
package report
