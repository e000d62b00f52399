package model

// Need is one row of a cluster's demand: so much of one kind. There is no
// count in it; the number of machines is what the engine decides.
type Need struct {
	Cluster string
	Profile *Profile
	// Aggregate is everything that the row asks for together.
	Aggregate Resources
	// MinUnit is the largest indivisible unit: every machine counted for the
	// Need must cover it on its own.
	MinUnit Resources
	// MinAggregate is what an elastic gang can live with, at most Aggregate in
	// each dimension; empty = Aggregate.
	MinAggregate Resources
	// Group separates co-location groups of one profile.
	Group string
	// Arrival orders Needs of equal rank, older first; Unix nanoseconds.
	Arrival int64
	// ShortSince is since when a gang has been short; Unix nanoseconds, 0 = not.
	ShortSince int64
	// Parked is the shard's stamp on a Same-Need that has waited long enough
	// in vain: it keeps its credit and stops acquiring and preempting.
	Parked bool
}

// Owner returns the Need's identity across cycles and foldings.
func (n *Need) Owner() Owner {
	return Owner{Cluster: n.Cluster, Fingerprint: n.Profile.WithoutSame().Fingerprint(), Group: n.Group}
}

// AllOrNothing reports whether a part of the Need is of no use: it must lie in
// one domain and no single machine covers it by its minimum unit alone.
func (n *Need) AllOrNothing() bool {
	return n.Profile.Same() != nil && !n.MinUnit.Covers(n.Aggregate)
}

// Minimum is what the Need can live with: MinAggregate, or Aggregate without one.
func (n *Need) Minimum() Resources {
	if len(n.MinAggregate) > 0 {
		return n.MinAggregate
	}
	return n.Aggregate
}
