package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// nameBytesMax is the longest name that ObjectName returns: that of a label's value and of a
// host in DNS.
const nameBytesMax = 63

// ObjectName returns the name of the object that one generation of a machine is made as: lower-case
// letters, digits and hyphens, at most 63 bytes, begins with a letter. It is a function of both and
// nothing else. Two machines have different names but for a chance of one in 2⁴⁰ for each pair.
func ObjectName(id string, generation uint64) string {
	sum := sha256.Sum256([]byte(id))
	tail := fmt.Sprintf("-%s-%d", hex.EncodeToString(sum[:5]), generation)
	readable := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, id)
	if readable == "" || readable[0] < 'a' || readable[0] > 'z' {
		readable = "m-" + readable
	}
	readable = readable[:min(len(readable), nameBytesMax-len(tail))]
	return strings.TrimRight(readable, "-") + tail
}

var phases = [...]string{
	Creating: "Creating", Idle: "Idle", Configuring: "Configuring", Configured: "Configured",
	Draining: "Draining", Deleting: "Deleting", Failed: "Failed",
}

// String returns the phase's name, as drivers write it.
func (p Phase) String() string {
	if p >= Creating && int(p) < len(phases) {
		return phases[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// ParsePhase reads the name of a phase.
func ParsePhase(name string) (Phase, bool) {
	for p := Creating; int(p) < len(phases); p++ {
		if phases[p] == name {
			return p, true
		}
	}
	return 0, false
}
