//go:build testclock

package steady

import (
	"os"
	"strings"
	"time"
)

// OffsetVariable names the file that says how far the wall clock is off, such as -1h. It is read
// when a process begins. Only binaries with the tag testclock know it.
const OffsetVariable = "TONNAGE_TEST_CLOCK"

// wall reads the wall clock as a test has set it.
func wall() time.Time {
	text, err := os.ReadFile(os.Getenv(OffsetVariable))
	if err != nil {
		return time.Now()
	}
	off, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		panic(OffsetVariable + ": " + err.Error())
	}
	return time.Now().Add(off)
}
