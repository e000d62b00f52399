//go:build !testclock

package steady

import "time"

// wall reads the wall clock.
func wall() time.Time { return time.Now() }
