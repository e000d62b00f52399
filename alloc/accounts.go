package alloc

// Usage is how much memory serves a purpose, in bytes. Reserved ≥ Used.
type Usage struct {
	Used     int64 // holds something that is still needed
	Reserved int64 // held, whether or not it is used
}

// Accounts adds up the memory of one owner, such as an engine, by purpose. The
// zero value is ready. It is used on the owner's goroutine, like the memory
// that it counts.
type Accounts struct {
	arenas  []*Arena
	holders []holder
}

type holder struct {
	purpose Purpose
	usage   func() Usage
}

// NewArena returns an arena that is counted from now on.
func (ac *Accounts) NewArena(p Purpose) *Arena {
	a := NewArena(p)
	ac.arenas = append(ac.arenas, a)
	return a
}

// Close gives the memory of all arenas back; see Arena.Close. Other holders keep
// theirs.
func (ac *Accounts) Close() {
	for _, a := range ac.arenas {
		a.Close()
	}
}

// Enter counts a holder of memory that is no arena: a column, a dictionary, an
// index. The function is called at every Usage.
func (ac *Accounts) Enter(p Purpose, usage func() Usage) {
	ac.holders = append(ac.holders, holder{p, usage})
}

// Usage returns the present use of every purpose.
func (ac *Accounts) Usage() [NumPurposes]Usage {
	var sum [NumPurposes]Usage
	for _, a := range ac.arenas {
		sum[a.purpose].Used += a.used
		sum[a.purpose].Reserved += a.reserved
	}
	for _, h := range ac.holders {
		u := h.usage()
		sum[h.purpose].Used += u.Used
		sum[h.purpose].Reserved += u.Reserved
	}
	return sum
}

// Total returns the sum over all purposes.
func (ac *Accounts) Total() Usage {
	var total Usage
	for _, u := range ac.Usage() {
		total.Used += u.Used
		total.Reserved += u.Reserved
	}
	return total
}
