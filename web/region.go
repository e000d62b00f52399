package web

// Limits of what an event says of several shards.
const (
	MaxShards = 8
	MaxMoves  = 10
)

// Region is what the page shows where several shards run in one process.
type Region struct {
	Shards []RegionShard `json:"shards"`
	Moves  []RegionMove  `json:"moves"` // newest first
	Moved  int           `json:"moved"` // machines that have another shard than at the start
}

// RegionShard is one of the shards.
type RegionShard struct {
	Name      string `json:"name"`
	Machines  int    `json:"machines"`
	Idle      int    `json:"idle"`
	Needs     int    `json:"needs"`
	Satisfied int    `json:"satisfied"`
}

// RegionMove is machines on their way from one shard to another, or arrived.
type RegionMove struct {
	At    int64  `json:"at"` // Unix milliseconds
	From  string `json:"from"`
	To    string `json:"to"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Tier  string `json:"tier"`
	Phase string `json:"phase"`
}

// bound cuts lists and strings to the limits; nil stays nil.
func (r *Region) bound() *Region {
	if r == nil {
		return nil
	}
	out := &Region{Shards: head(r.Shards, MaxShards), Moves: head(r.Moves, MaxMoves), Moved: r.Moved}
	for i := range out.Shards {
		out.Shards[i].Name = cut(out.Shards[i].Name, NameBytesMax/2)
	}
	for i := range out.Moves {
		m := &out.Moves[i]
		m.From, m.To, m.Kind = cut(m.From, NameBytesMax/2), cut(m.To, NameBytesMax/2), cut(m.Kind, NameBytesMax)
		m.Tier, m.Phase = cut(m.Tier, NameBytesMax/4), cut(m.Phase, NameBytesMax/4)
	}
	return out
}
