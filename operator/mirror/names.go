package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeName is the name of a machine's UpcomingNode: un-ID, where the id can be
// part of a name; else what can be of it, and a hash of all of it.
func NodeName(machine string) string {
	name := "un-" + machine
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	const readable = 40
	var b strings.Builder
	for _, r := range strings.ToLower(machine) {
		if b.Len() == readable {
			break
		}
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	sum := sha256.Sum256([]byte(machine))
	return "un-" + strings.Trim(b.String(), "-") + "-" + hex.EncodeToString(sum[:8])
}

// CapacityName is the name of a hint's AvailableCapacity.
func CapacityName(supersedesKey string) string {
	sum := sha256.Sum256([]byte(supersedesKey))
	return "ac-" + hex.EncodeToString(sum[:16])
}
