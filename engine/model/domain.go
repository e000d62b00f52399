package model

import "github.com/cespare/xxhash/v2"

// DomainSum stands for a set of topology domains: two sets with the same sum are taken
// for the same. Hash is the sum, modulo 2^64, of the XXH64 of key NUL value of each.
type DomainSum struct {
	Count int
	Hash  uint64
}

// Add adds a domain that the set does not have yet.
func (s *DomainSum) Add(key, value string) {
	s.Count++
	s.Hash += xxhash.Sum64String(key + "\x00" + value)
}
