package fleetview

// Awaited tells whether a question waits for a cycle of the shard.
func (p *Recorder) Awaited() bool { return p.gate.passed.Load() != nil }
