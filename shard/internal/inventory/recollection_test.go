package inventory

import (
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// TestRecollectionIsReadAsWritten: and what is cut short is refused, wherever.
func TestRecollectionIsReadAsWritten(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	text := func() string { return string(make([]byte, rng.IntN(20))) }
	bucket := func() model.Bucket { return model.Bucket(rng.IntN(model.NumBuckets)) }
	for range 200 {
		x := recollection{
			state: model.State(rng.IntN(model.NumStates)), idleSince: rng.Int64() - rng.Int64(),
			assigned: model.Assignment{Priority: rng.Int32() - rng.Int32(), Interruption: bucket(), Reclamation: bucket(), Fingerprint: rng.Uint64(), Group: text()},
			reservation: model.Reservation{
				Owner:    model.Owner{Cluster: text(), Fingerprint: rng.Uint64(), Group: text()},
				Priority: rng.Int32(), Interruption: bucket(), Reclamation: bucket(), Arrival: rng.Int64(), Deadline: rng.Int64(),
				Plan: rng.Uint64(), Domain: text(),
			},
			drain: drain{started: rng.Int64(), graceSeconds: rng.Int32()}, cluster: text(),
		}
		b := x.encode(nil)
		got, err := decodeRecollection(b)
		if err != nil || got != x {
			t.Fatalf("seed %d: wrote %+v\nread %+v, %v", seed, x, got, err)
		}
		older := len(b) - 1 - len(x.cluster) // as versions before 0.2.0 write it
		for n := range b {
			if n == older {
				continue
			}
			if _, err := decodeRecollection(b[:n]); err == nil {
				t.Fatalf("seed %d: %d of %d bytes are read as a whole", seed, n, len(b))
			}
		}
		x.cluster = ""
		if got, err := decodeRecollection(b[:older]); err != nil || got != x {
			t.Fatalf("seed %d: an older version wrote %+v\nread %+v, %v", seed, x, got, err)
		}
	}
}
