// Package wire reads a provider's listing as it comes over the wire, a
// bigfleet.v1alpha1.MachineList, without making objects of it.
//
// # Two steps
//
// A fleet of half a million machines is listed in full again and again, and few
// records have changed. So Parse reads of every record only what it takes to
// find that out: it finds where the record begins, its id, and a digest of what
// it says, into columns, without allocation. The shard keeps with each machine
// the digest of the record that it last took over, passes over the records whose
// digest it knows, and has Record read the others.
//
// # Digest
//
// Encoders write the entries of a map in any order, another one each time. The
// digest is therefore a sum over the entries of maps (resources, allocatable,
// labels, shard_metadata), and over the runs of fields between them, which have
// an order. Two records with one digest are equal except with a probability of
// 2⁻⁶⁴, with one exception: a map that has a key twice, whose last entry
// counts. An encoder does not write that.
//
// # What a record shares
//
// Resources, labels and metadata repeat among machines. A set that was met
// before is found by its digest, compared entry by entry, and shared, up to
// SetsMax of a kind; where there are few, they are kept for the next listing.
//
// A record that says behind its id, byte by byte, what the one before it says, as free slots of one offer do, takes over what was found
// out of that one.
//
// The strings of a Record that are the machine's own (id, host, cluster …) are
// parts of the message. They stay valid, but keep the message in memory, or
// the piece of it that they lie in: a caller that keeps one copies it.
//
// # Faults
//
// A message that is cut off, or is no protobuf, is refused as a whole. A record
// that is, or that holds a number or text that means nothing, is refused by
// itself: Record returns the error, which wraps model.ErrStructural, and the
// other records are as good as before.
package wire
