// Package stamps writes what a machine is assigned to and reserved for as metadata, which a
// provider keeps for the shard, and reads it again.
package stamps

import (
	"math"
	"strconv"

	"github.com/tonnage/tonnage/engine/model"
)

// The keys under which a machine's stamps travel, those of the protocol.
const (
	keyPriority     = "bigfleet.lucy.sh/assigned-priority"
	keyInterruption = "bigfleet.lucy.sh/assigned-interruption-penalty-dollars"
	keyReclamation  = "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars"
	keyFingerprint  = "bigfleet.lucy.sh/assigned-need-fingerprint"
	keyGroup        = "bigfleet.lucy.sh/assigned-group"
)

// ReservationPrefix begins the keys of a machine's reservation, our own. A
// provider that knows them keeps them when a machine is drained.
const ReservationPrefix = "tonnage.dev/reserved-"

const (
	keyReservedCluster      = ReservationPrefix + "cluster"
	keyReservedFingerprint  = ReservationPrefix + "fingerprint"
	keyReservedGroup        = ReservationPrefix + "group"
	keyReservedPriority     = ReservationPrefix + "priority"
	keyReservedInterruption = ReservationPrefix + "interruption-bucket"
	keyReservedReclamation  = ReservationPrefix + "reclamation-bucket"
	keyReservedArrival      = ReservationPrefix + "arrival"
	keyReservedDeadline     = ReservationPrefix + "deadline"
	keyReservedGrace        = ReservationPrefix + "grace-seconds"
	keyReservedPlan         = ReservationPrefix + "plan"
	keyReservedDomain       = ReservationPrefix + "domain"
)

// EchoesMax is how many encoded echoes an Encoder keeps for reuse.
const EchoesMax = 1 << 14

// Echo is what the shard wants to hear again from the provider after it has
// lost its memory.
type Echo struct {
	Assigned    model.Assignment
	Reservation model.Reservation
	// GraceSeconds of the drain that the reservation waits for.
	GraceSeconds int32
}

// Encoder turns echoes into metadata. Equal echoes share one map, so that a
// fleet of half a million machines holds as many maps as it serves Needs. The
// zero value is ready.
type Encoder struct {
	maps map[Echo]map[string]string
}

// Encode returns the metadata of an echo, nil for the zero echo. The map is
// shared and must not be modified.
func (e *Encoder) Encode(x Echo) map[string]string {
	if x == (Echo{}) {
		return nil
	}
	if m, ok := e.maps[x]; ok {
		return m
	}
	if e.maps == nil || len(e.maps) >= EchoesMax {
		e.maps = map[Echo]map[string]string{}
	}
	m := encode(&x)
	e.maps[x] = m
	return m
}

func encode(x *Echo) map[string]string {
	m := map[string]string{}
	if a := &x.Assigned; *a != (model.Assignment{}) {
		m[keyPriority] = strconv.FormatInt(int64(a.Priority), 10)
		m[keyGroup] = a.Group
		if a.Fingerprint != 0 {
			m[keyFingerprint] = FormatFingerprint(a.Fingerprint)
		}
		// "Unspecified" has no dollars of its own; leaving the key out says it.
		if a.Interruption != model.BucketUnspecified {
			m[keyInterruption] = strconv.FormatFloat(a.Interruption.Dollars(), 'g', -1, 64)
		}
		if a.Reclamation != model.BucketUnspecified {
			m[keyReclamation] = strconv.FormatFloat(a.Reclamation.Dollars(), 'g', -1, 64)
		}
	}
	if r := &x.Reservation; r.Active() {
		m[keyReservedCluster] = r.Owner.Cluster
		m[keyReservedFingerprint] = FormatFingerprint(r.Owner.Fingerprint)
		m[keyReservedGroup] = r.Owner.Group
		m[keyReservedPriority] = strconv.FormatInt(int64(r.Priority), 10)
		m[keyReservedInterruption] = strconv.Itoa(int(r.Interruption))
		m[keyReservedReclamation] = strconv.Itoa(int(r.Reclamation))
		m[keyReservedArrival] = strconv.FormatInt(r.Arrival, 10)
		m[keyReservedDeadline] = strconv.FormatInt(r.Deadline, 10)
		m[keyReservedGrace] = strconv.FormatInt(int64(x.GraceSeconds), 10)
		if r.Plan != 0 {
			m[keyReservedPlan] = strconv.FormatUint(r.Plan, 16)
			m[keyReservedDomain] = r.Domain
		}
	}
	return m
}

// Decoded is what DecodeMetadata returns, as one value.
type Decoded struct {
	Echo      Echo
	Malformed []string // keys
}

// Decode is DecodeMetadata.
func Decode(m map[string]string) Decoded {
	echo, malformed := DecodeMetadata(m)
	return Decoded{echo, malformed}
}

// DecodeMetadata reads what a provider echoes. Every key stands for itself: an
// absent one leaves its field zero, a malformed one too and is named in the
// second result. A fingerprint that is not one of ours is no stamp.
func DecodeMetadata(m map[string]string) (Echo, []string) {
	var x Echo
	if len(m) == 0 {
		return x, nil
	}
	d := decoder{m: m}
	x.Assigned = model.Assignment{
		Priority:     int32(d.integer(keyPriority, 32)),
		Interruption: d.dollars(keyInterruption),
		Reclamation:  d.dollars(keyReclamation),
		Fingerprint:  d.fingerprint(keyFingerprint),
		Group:        d.group(keyGroup),
	}
	if d.name(keyReservedCluster, model.CheckOptionalName) != "" {
		x.Reservation = model.Reservation{
			Owner:        model.Owner{Cluster: m[keyReservedCluster], Fingerprint: d.fingerprint(keyReservedFingerprint), Group: d.group(keyReservedGroup)},
			Priority:     int32(d.integer(keyReservedPriority, 32)),
			Interruption: d.bucket(keyReservedInterruption),
			Reclamation:  d.bucket(keyReservedReclamation),
			Arrival:      d.time(keyReservedArrival),
			Deadline:     d.time(keyReservedDeadline),
			Plan:         d.fingerprint(keyReservedPlan),
			Domain:       d.name(keyReservedDomain, model.CheckText),
		}
		x.GraceSeconds = int32(d.integer(keyReservedGrace, 32))
	}
	return x, d.malformed
}

// FormatFingerprint returns a fingerprint as metadata and files spell it.
func FormatFingerprint(f uint64) string { return strconv.FormatUint(f, 16) }

type decoder struct {
	m         map[string]string
	malformed []string
}

func (d *decoder) integer(key string, bits int) int64 {
	s, ok := d.m[key]
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		d.malformed = append(d.malformed, key)
		return 0
	}
	return v
}

// time reads Unix nanoseconds, which are not negative.
func (d *decoder) time(key string) int64 {
	v := d.integer(key, 64)
	if v < 0 {
		d.malformed = append(d.malformed, key)
		return 0
	}
	return v
}

// group reads a group, which may hold anything.
func (d *decoder) group(key string) string {
	s := d.m[key]
	if len(s) > model.NameBytesMax {
		d.malformed = append(d.malformed, key)
		return ""
	}
	return s
}

// name reads a text that must pass check.
func (d *decoder) name(key string, check func(string) error) string {
	s := d.m[key]
	if check(s) != nil {
		d.malformed = append(d.malformed, key)
		return ""
	}
	return s
}

func (d *decoder) bucket(key string) model.Bucket {
	b := d.integer(key, 16)
	if b < 0 || b > int64(model.BucketPinned) {
		d.malformed = append(d.malformed, key)
		return model.BucketUnspecified
	}
	return model.Bucket(b)
}

func (d *decoder) dollars(key string) model.Bucket {
	s, ok := d.m[key]
	if !ok {
		return model.BucketUnspecified
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) {
		d.malformed = append(d.malformed, key)
		return model.BucketUnspecified
	}
	return model.BucketForDollars(v)
}

// fingerprint reads one of ours. Another implementation's is a text of its own
// and tells us nothing; it is no fault.
func (d *decoder) fingerprint(key string) uint64 {
	v, err := strconv.ParseUint(d.m[key], 16, 64)
	if err != nil {
		return 0
	}
	return v
}
