package fleetview

// Awaited tells whether a question waits for a cycle of the shard.
func (p *Recorder) Awaited() bool { return p.gate.passed.Load() != nil }

// Overlaps is how many cycles of the shard began while a part of a question was computed.
func (p *Recorder) Overlaps() int { return int(p.gate.overlaps.Load()) }
