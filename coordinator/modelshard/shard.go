package modelshard

import (
	"maps"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

// Machine is one machine that the provider lists.
type Machine struct {
	ID       string
	Domain   coordinator.Domain
	Offer    coordinator.Offer // its kind; Count and Machines are filled in
	Priority int32             // of what runs there, Configured only
}

// Provider is what all shards see: machines, with their states. Shards share it.
type Provider struct {
	Name     string
	Machines map[string]*Machine
}

// Disk is what a shard keeps. Nothing else survives a crash.
type Disk struct {
	Epoch    int64
	Given    map[string]string // machine → move
	Received map[string]string // machine → move
	Released map[string]coordinator.HandOver
	Adopted  map[string]bool // moves whose machines were taken over or taken back
	Domains  map[coordinator.Domain]bool
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{
		Given: map[string]string{}, Received: map[string]string{}, Released: map[string]coordinator.HandOver{},
		Adopted: map[string]bool{}, Domains: map[coordinator.Domain]bool{},
	}
}

// Crash is what a crash point panics with.
type Crash struct{ At string }

// Shard is one process of a shard.
type Shard struct {
	ID       string
	Disk     *Disk
	Provider *Provider
	// Point is called at each step that a crash may come at; it panics with Crash
	// to have one.
	Point func(name string)
	// Short says what the shard is short of with its next report; nil = nothing.
	Short func() []coordinator.Shortfall

	cycle int64
	term  int64
	acks  []coordinator.Ack
}

// Start is a process of the shard on its disk.
func Start(id string, disk *Disk, provider *Provider) *Shard {
	disk.Epoch++
	return &Shard{ID: id, Disk: disk, Provider: provider, Point: func(string) {}}
}

// Owns tells whether the shard would use a machine.
func (s *Shard) Owns(machine string) bool { return s.Disk.Owns(s.Provider, machine) }

// Owns tells whether a shard with this disk would use a machine.
func (d *Disk) Owns(p *Provider, machine string) bool {
	if d.Given[machine] != "" {
		return false
	}
	if d.Received[machine] != "" {
		return true
	}
	m := p.Machines[machine]
	return m != nil && d.Domains[m.Domain]
}

// Report is the next report. Answers that were not delivered are in it again.
func (s *Shard) Report(now int64) *coordinator.Report {
	s.cycle++
	n := int32(0)
	for id := range s.Provider.Machines {
		if s.Owns(id) {
			n++
		}
	}
	var needs []coordinator.Shortfall
	if s.Short != nil {
		needs = s.Short()
	}
	return &coordinator.Report{
		Shard: s.ID, Address: s.ID + ":7780", Epoch: s.Disk.Epoch, Cycle: s.cycle, Stamp: now,
		Summary:    &coordinator.Summary{Machines: n, ProviderAddress: s.Provider.Name},
		Shortfalls: needs, Acks: slices.Clone(s.acks),
	}
}

// Offering is what goes with a report: kinds of machines that are not in use,
// and hand-overs that are not settled.
func (s *Shard) Offering() *coordinator.Offering {
	o := &coordinator.Offering{Shard: s.ID, Epoch: s.Disk.Epoch}
	at := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(s.Provider.Machines)) {
		m := s.Provider.Machines[id]
		if !s.Owns(id) {
			continue
		}
		kind := m.Offer.InstanceType + m.Offer.Zone + m.Offer.State.String()
		i, ok := at[kind]
		if !ok {
			i = len(o.Offers)
			at[kind] = i
			offer := m.Offer
			offer.Priority = m.Priority
			o.Offers = append(o.Offers, offer)
		}
		o.Offers[i].Count++
		if len(o.Offers[i].Machines) < coordinator.OfferedMachinesMax {
			o.Offers[i].Machines = append(o.Offers[i].Machines, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Disk.Released)) {
		o.HandOvers = append(o.HandOvers, s.Disk.Released[id])
	}
	return o
}

// Answered takes the coordinator's answer to a report: the acknowledgements in
// it have arrived, and the instructions are carried out.
func (s *Shard) Answered(term int64, report *coordinator.Report, instructions []coordinator.Instruction) {
	if term < s.term {
		return
	}
	s.term = term
	s.acks = s.acks[len(report.Acks):]
	for _, i := range instructions {
		outcome, reason := s.carryOut(i)
		s.acks = append(s.acks, coordinator.Ack{ID: i.ID, Outcome: outcome, Reason: reason})
	}
}

// Settled takes the answer to an offering.
func (s *Shard) Settled(moves []string) {
	s.Point("settle")
	for _, id := range moves {
		delete(s.Disk.Released, id)
	}
}

func (s *Shard) carryOut(i coordinator.Instruction) (coordinator.Outcome, string) {
	move, _, _ := strings.Cut(i.ID, "/")
	switch i.Verb {
	case coordinator.VerbAssign:
		s.Disk.Domains[i.Domain] = true
	case coordinator.VerbUnassign:
		if s.lent(i.Domain) {
			return coordinator.Failed, "machines of the domain are with other shards"
		}
		delete(s.Disk.Domains, i.Domain)
	case coordinator.VerbRelease, coordinator.VerbReleaseSpeculative, coordinator.VerbDrain:
		return s.release(move, i)
	case coordinator.VerbAdopt:
		return s.adopt(move, i)
	}
	return coordinator.Accepted, ""
}

// lent tells whether machines of a domain were given away.
func (s *Shard) lent(d coordinator.Domain) bool {
	for id := range s.Disk.Given {
		if m := s.Provider.Machines[id]; m != nil && m.Domain == d && s.Disk.Domains[d] {
			return true
		}
	}
	return false
}

func (s *Shard) release(move string, i coordinator.Instruction) (coordinator.Outcome, string) {
	if _, ok := s.Disk.Released[move]; ok || s.Disk.Adopted[move] {
		return coordinator.Accepted, "duplicate-redelivery"
	}
	want := model.Idle
	if i.Verb == coordinator.VerbReleaseSpeculative {
		want = model.Speculative
	}
	var ids []string
	for _, id := range i.Machines {
		m := s.Provider.Machines[id]
		if m == nil || !s.Owns(id) {
			continue
		}
		if i.Verb == coordinator.VerbDrain && m.Offer.State == model.Configured && m.Priority < i.PreemptorPriority {
			m.Offer.State = model.Idle // drained
		}
		if m.Offer.State == want {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return coordinator.RejectedInvalid, "none of the machines is mine to give"
	}
	s.Point("before release")
	for _, id := range ids {
		s.Disk.Given[id] = move
		delete(s.Disk.Received, id)
	}
	s.Disk.Released[move] = coordinator.HandOver{Move: move, To: i.To, Machines: ids}
	s.Point("after release")
	return coordinator.Accepted, ""
}

func (s *Shard) adopt(move string, i coordinator.Instruction) (coordinator.Outcome, string) {
	key := move
	if i.To == s.ID && s.Disk.Released[move].Move != "" {
		key = move + " back"
	}
	if s.Disk.Adopted[key] {
		return coordinator.Accepted, "duplicate-redelivery"
	}
	s.Point("before adopt")
	for _, id := range i.Machines {
		delete(s.Disk.Given, id)
		s.Disk.Received[id] = move
	}
	s.Disk.Adopted[key] = true
	delete(s.Disk.Released, move)
	s.Point("after adopt")
	return coordinator.Accepted, ""
}
