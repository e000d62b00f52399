package victims

// Phase 2 passes over Needs for which it can find nothing, and over domains and machines that cannot make a difference. An
// explanation tells of those, too. So nothing is passed over for the Needs that Explain asks about.

// Explains reports whether Explain asks about a Need.
func (t *Told) Explains(need int32) bool { return t.all || t.only[need] }

// findExplained notes the Needs that Explain asks about: all, or those of Input.ExplainOnly.
func findExplained(p *Pass) {
	if !p.Opts.Explain {
		return
	}
	if p.Input.ExplainOnly == nil {
		p.Told.all = true
		return
	}
	p.Told.only = make(map[int32]bool, len(p.Input.ExplainOnly))
	for _, x := range p.Input.ExplainOnly {
		c := p.Snap.ClusterByName(x.Cluster)
		if c < 0 || p.Sources[c].Block == nil || x.Row < 0 || x.Row >= p.Sources[c].Block.Len() {
			continue
		}
		p.Told.only[p.NeedOf(p.Sources[c].Base+int32(x.Row))] = true
	}
}

// LooksFor reports whether a Need has its turn although nothing may be left for its kind: Explain asks about the Need, and its
// kind had victims.
func LooksFor(p *Pass, need int32) bool {
	return p.Told.Explains(need) && p.Candidates.PoolOf[p.Lines[need].Kind] != p.Candidates.noVictims
}

// markExplained gives turns to the Needs that Explain asks about.
func (t *Turns) markExplained(p *Pass) {
	if !p.Opts.Explain {
		return
	}
	for rank, need := range p.Order {
		if p.IsShort(rank) && LooksFor(p, need) {
			t.Marks[rank] |= HasTurn
		}
	}
}
