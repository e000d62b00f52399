package columnar

import "fmt"

// MaxDims is the most resource dimensions that one table knows. Real fleets
// have about ten; a vector over 64 is a page of cache lines already.
const MaxDims = 64

// Dims numbers the dimensions of resource vectors: cpu, memory, and what else
// occurs, in the order of first occurrence from 0. The zero value is ready.
// Dimensions are never removed.
type Dims struct {
	dict Dict
}

// Index returns the dimension's place in vectors, a new one when it is not
// known. The error says that MaxDims are known already.
func (d *Dims) Index(name string) (int, error) {
	if i, ok := d.Lookup(name); ok {
		return i, nil
	}
	if name == "" {
		return 0, fmt.Errorf("resource dimension without a name")
	}
	if d.Len() == MaxDims {
		return 0, fmt.Errorf("resource dimension %q would be number %d; at most %d different ones are supported", name, MaxDims+1, MaxDims)
	}
	return int(d.dict.ID(name)) - 1, nil
}

// Lookup returns the dimension's place in vectors, and whether it is known.
func (d *Dims) Lookup(name string) (int, bool) {
	id, ok := d.dict.Lookup(name)
	return int(id) - 1, ok
}

// Name returns the name of the dimension at that place.
func (d *Dims) Name(index int) string { return d.dict.String(uint32(index) + 1) }

// Len returns how many dimensions are known.
func (d *Dims) Len() int { return d.dict.Len() }
