package stamps

import (
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

func TestEchoSurvivesTheProvider(t *testing.T) {
	for b := model.BucketUnspecified; b <= model.BucketPinned; b++ {
		x := Echo{
			Assigned: model.Assignment{Priority: -2147483648, Interruption: b, Reclamation: model.BucketPinned - b, Fingerprint: 0xfedcba9876543210, Group: "a|b"},
			Reservation: model.Reservation{
				Owner: model.Owner{Cluster: "c1", Fingerprint: 1, Group: ""}, Priority: 2147483647, Interruption: b, Reclamation: b, Arrival: 5, Deadline: 1 << 62,
			},
			GraceSeconds: 600,
		}
		got, malformed := DecodeMetadata(new(Encoder).Encode(x))
		if got != x || malformed != nil {
			t.Errorf("bucket %d: got %+v, malformed %v, want %+v", b, got, malformed, x)
		}
	}
}

func TestEncodedKeysAreThoseOfTheProtocol(t *testing.T) {
	m := new(Encoder).Encode(Echo{Assigned: model.Assignment{Priority: 1000, Interruption: model.BucketForDollars(64), Reclamation: model.BucketPinned, Fingerprint: 0xab}})
	for key, want := range map[string]string{
		"bigfleet.lucy.sh/assigned-priority":                     "1000",
		"bigfleet.lucy.sh/assigned-interruption-penalty-dollars": "64",
		"bigfleet.lucy.sh/assigned-reclamation-penalty-dollars":  "+Inf",
		"bigfleet.lucy.sh/assigned-need-fingerprint":             "ab",
		"bigfleet.lucy.sh/assigned-group":                        "",
	} {
		if got, ok := m[key]; !ok || got != want {
			t.Errorf("%s: got %q, %v, want %q", key, got, ok, want)
		}
	}
	if new(Encoder).Encode(Echo{}) != nil {
		t.Error("nothing to say, but keys")
	}
}

func TestMalformedValuesAreSkippedOneByOne(t *testing.T) {
	got, malformed := DecodeMetadata(map[string]string{
		keyPriority: "many", keyInterruption: "NaN", keyReclamation: "3", keyFingerprint: "p=1|ipb=2|theirs", keyGroup: "g", "unknown": "x",
		keyReservedCluster: "c", keyReservedPriority: "7", keyReservedInterruption: "28", keyReservedDeadline: "soon",
	})
	slices.Sort(malformed)
	want := []string{keyInterruption, keyPriority, keyReservedDeadline, keyReservedInterruption}
	slices.Sort(want)
	if !slices.Equal(malformed, want) {
		t.Errorf("malformed: got %v, want %v", malformed, want)
	}
	// Another implementation's fingerprint is no stamp, and no fault.
	if a := got.Assigned; a != (model.Assignment{Reclamation: model.BucketForDollars(3), Group: "g"}) {
		t.Errorf("assigned: %+v", a)
	}
	if r := got.Reservation; r.Owner.Cluster != "c" || r.Priority != 7 || r.Deadline != 0 {
		t.Errorf("reservation: %+v", r)
	}
}

func TestEqualEchoesShareTheirMetadata(t *testing.T) {
	var e Encoder
	a := e.Encode(Echo{Assigned: model.Assignment{Priority: 1}})
	b := e.Encode(Echo{Assigned: model.Assignment{Priority: 1}})
	a["probe"] = "x"
	if b["probe"] != "x" {
		t.Error("two maps for one echo")
	}
	for i := range EchoesMax + 10 {
		e.Encode(Echo{Assigned: model.Assignment{Priority: int32(i)}})
	}
	if n := len(e.maps); n > EchoesMax {
		t.Errorf("%d echoes are kept, the bound is %d", n, EchoesMax)
	}
}

// TestHostileMetadata: groups may hold anything; a cluster or a domain that breaks the
// rule for names, a long group and a time before 1970 are malformed.
func TestHostileMetadata(t *testing.T) {
	const hostile = "x\x00\x1b[2J\u009b\u202e"
	got, malformed := DecodeMetadata(map[string]string{
		keyGroup: hostile, hostile: hostile, keyReservedCluster: "c", keyReservedGroup: strings.Repeat("g", model.NameBytesMax+1),
		keyReservedDomain: hostile, keyReservedArrival: "-1", keyReservedPriority: "3",
	})
	slices.Sort(malformed)
	want := []string{keyReservedArrival, keyReservedDomain, keyReservedGroup}
	slices.Sort(want)
	if !slices.Equal(malformed, want) {
		t.Errorf("malformed: got %v, want %v", malformed, want)
	}
	if got.Assigned.Group != hostile || got.Reservation != (model.Reservation{Owner: model.Owner{Cluster: "c"}, Priority: 3}) {
		t.Errorf("got %+v", got)
	}
	got, malformed = DecodeMetadata(map[string]string{keyReservedCluster: hostile, keyReservedPriority: "3"})
	if got != (Echo{}) || !slices.Equal(malformed, []string{keyReservedCluster}) {
		t.Errorf("a reservation for %q: %+v, malformed %v", hostile, got, malformed)
	}
}
