package plan

// HashStart is the offset basis of FNV-1a.
const HashStart = 14695981039346656037

// Hash is a variant of FNV-1a over words of 64 bits.
type Hash uint64

// Add hashes words, in order.
func (h *Hash) Add(words ...uint64) {
	for _, w := range words {
		*h = (*h ^ Hash(w)) * 1099511628211
		*h ^= *h >> 29
	}
}
