package wire

import (
	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// digest adds up what a record says; see the package's essay.
type digest struct {
	total uint64
	runs  uint64
}

// mixer is an odd number whose product spreads what came in over the upper
// bits.
const mixer = 0x9e3779b97f4a7c15

// mixed returns a number in which every bit of x and of the place counts.
func mixed(x, place uint64) uint64 {
	x = (x ^ place*mixer) * mixer
	return x ^ x>>32
}

// placeOfRuns keeps the places of runs apart from field numbers.
const placeOfRuns = 1 << 32

// run takes in fields whose order counts.
func (d *digest) run(fields []byte) {
	if len(fields) > 0 {
		d.runs++
		d.total += mixed(xxhash.Sum64(fields), placeOfRuns+d.runs)
	}
}

// entry takes in an entry of the map that the field is.
func (d *digest) entry(num protowire.Number, entry []byte) {
	d.total += mixed(xxhash.Sum64(entry), uint64(num))
}

// entries takes in the entries of a Resources; false when it cannot be read.
func (d *digest) entries(num protowire.Number, message []byte) bool {
	c := cursor{buf: message}
	for c.next() {
		if c.holds(fieldResourcesEntry) {
			d.entry(num, c.bytes)
		} else {
			d.run(c.buf[c.from:c.at])
		}
	}
	return c.err == nil
}

// sum returns the digest, which is not 0.
func (d *digest) sum() uint64 { return max(mixed(d.total, 0), 1) }
