// Package steady gives a time that no step of the wall clock moves. A fleet in which the
// clock is set an hour ahead must not give back whatever has been idle for some minutes.
package steady

import "time"

// Clock returns a clock that begins at the time of the wall clock and goes on by the
// monotonic clock of the system. Steps of the wall clock, as by NTP or by hand, are not seen
// until the process starts again. All readers of one clock see one timeline: parts of a
// process that compare times share it.
func Clock() func() time.Time { return clock(wall, time.Since) }

func clock(now func() time.Time, since func(time.Time) time.Duration) func() time.Time {
	start := now()
	return func() time.Time { return start.Add(since(start)) }
}
