// Package cover chooses how many machines of each class cover what a Need is
// missing, at the least cost among choices that match its shape.
//
// It is the covering problem of operations research: minimise Σ cost × count
// subject to Σ count × capacity ≥ want in each dimension, with whole counts up to
// those that there are. The sum alone would mix machines rich in one dimension with
// machines rich in another, and pods fit neither. So what a class has beyond the
// shape of the want counts less in the choice (Shape); what is bought covers
// the want in the plain sum all the same.
//
//	walk      what the rule `cheapest` takes, as the price to beat
//	relax     the linear program over the classes, by the dual simplex method
//	round     whole counts: round down, take back, complete with few machines
//	trim      give back what is superfluous
//
// The result is a function of the problem alone. All arithmetic is on integers, or
// on float64 in a fixed order; each product is converted explicitly, so no
// processor fuses it with an addition.
package cover
