package fleetview

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// MapMachinesMax is how many machines the map draws as squares of their own, and how many domains in place of
// machines where there are more.
const MapMachinesMax = 20_000

// grid is which square of the map is what. It does not change.
type grid struct {
	fleet      *fleet
	key, in    string // in = one domain alone
	aggregated bool   // squares are domains
	version    string
	groups     []gridGroup
	squares    []int32 // machines of the fleet by square; of an aggregated map by group
}

// gridGroup is one domain on the map.
type gridGroup struct {
	value    string
	from, to int // of squares
}

// LayoutAnswer says what the squares of the map are.
type LayoutAnswer struct {
	Version    string     `json:"version"` // another one = squares are other machines
	Key        string     `json:"key"`     // that machines are grouped by; empty = by nothing
	Keys       []string   `json:"keys"`
	Within     string     `json:"within,omitempty"`
	Aggregated bool       `json:"aggregated"` // a square is a domain
	Machines   int        `json:"machines"`
	Groups     []GroupRow `json:"groups"`
	IDs        []string   `json:"ids"` // by square; of domains none
}

// GroupRow is a domain and how many squares it has.
type GroupRow struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// CellsAnswer is what the squares show.
type CellsAnswer struct {
	Version    string   `json:"version"`
	Now        int64    `json:"now"`        // Unix milliseconds
	Owners     []string `json:"owners"`     // clusters; owner n of a square is the n-th, from 1
	Priorities []int32  `json:"priorities"` // ascending
	// Data are squares one after the other, little endian. A machine: state, place of its priority (1 byte each),
	// owner, gang (2 bytes each; 0 = none). A domain: machines, bound, idle, on their way, owner of most machines
	// (2 bytes each).
	Data []byte `json:"data"`
}

// grids keeps the last maps that were asked for.
type grids struct{ kept []*grid }

const gridsMax = 8

// gridOf returns the map by a key, of one domain if in is not empty.
func (v *View) gridOf(key, in string) (*grid, error) {
	f, err := v.copy()
	if err != nil {
		return nil, err
	}
	if key, err = f.keyOf(key); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range v.grids.kept {
		if g.fleet == f && g.key == key && g.in == in {
			return g, nil
		}
	}
	g := newGrid(f, key, in)
	v.grids.kept = append(v.grids.kept, g)
	v.grids.kept = slices.DeleteFunc(v.grids.kept, func(g *grid) bool { return g.fleet != f })
	v.grids.kept = v.grids.kept[max(0, len(v.grids.kept)-gridsMax):]
	return g, nil
}

// newGrid lays out the machines that have a host or are getting one, and failed ones, domain by
// domain, by id.
func newGrid(f *fleet, key, in string) *grid {
	g := &grid{fleet: f, key: key, in: in}
	column := f.domains[key]
	value := func(i int32) string {
		if column == nil {
			return ""
		}
		return f.values[column[i]]
	}
	for i := range f.ids {
		if f.state[i] != model.Speculative && (in == "" || value(int32(i)) == in) {
			g.squares = append(g.squares, int32(i))
		}
	}
	slices.SortStableFunc(g.squares, func(a, b int32) int { return cmp.Compare(value(a), value(b)) })
	hash := fnv.New64a()
	for k, i := range g.squares {
		if k == 0 || value(i) != g.groups[len(g.groups)-1].value {
			g.groups = append(g.groups, gridGroup{value: value(i), from: k})
			hash.Write([]byte(value(i)))
		}
		g.groups[len(g.groups)-1].to = k + 1
		hash.Write([]byte(f.ids[i]))
	}
	g.aggregated = len(g.squares) > MapMachinesMax && in == "" && key != ""
	if g.aggregated && len(g.groups) > MapMachinesMax {
		g.groups = g.groups[:MapMachinesMax]
	}
	g.version = fmt.Sprintf("%016x-%t", hash.Sum64(), g.aggregated)
	return g
}

// drawn returns the squares that are sent, at most MapMachinesMax.
func (g *grid) drawn() []int32 { return g.squares[:min(len(g.squares), MapMachinesMax)] }

// layout answers with what the squares of the map are: key groups them, within is one domain.
func (v *View) layout(_ context.Context, q url.Values) (any, error) {
	g, err := v.gridOf(q.Get("key"), q.Get("within"))
	if err != nil {
		return nil, err
	}
	out := LayoutAnswer{Version: g.version, Key: g.key, Keys: g.fleet.keys, Within: g.in, Aggregated: g.aggregated, Machines: len(g.squares), Groups: []GroupRow{}, IDs: []string{}}
	if out.Keys == nil {
		out.Keys = []string{}
	}
	left := MapMachinesMax
	for _, group := range g.groups {
		n := group.to - group.from
		if !g.aggregated {
			n = min(n, left)
			left -= n
		}
		if n > 0 {
			out.Groups = append(out.Groups, GroupRow{group.value, n})
		}
	}
	if !g.aggregated {
		for _, i := range g.drawn() {
			out.IDs = append(out.IDs, g.fleet.ids[i])
		}
	}
	return out, nil
}

// cells answers with what the squares show now.
func (v *View) cells(_ context.Context, q url.Values) (any, error) {
	g, err := v.gridOf(q.Get("key"), q.Get("within"))
	if err != nil {
		return nil, err
	}
	out := CellsAnswer{Version: g.version, Now: g.fleet.now / 1e6, Owners: []string{}, Priorities: []int32{}}
	owners := newOwners(g, &out)
	if g.aggregated {
		out.Data = g.domainCells(owners)
		return out, nil
	}
	out.Data = g.machineCells(owners, &out)
	return out, nil
}

// owners numbers the clusters of an answer, by name: numbers stay as long as no cluster comes or goes, so
// that a page sees what really changed.
type owners struct{ of []uint16 } // by name of the fleet

func newOwners(g *grid, answer *CellsAnswer) *owners {
	f := g.fleet
	o := &owners{of: make([]uint16, len(f.names))}
	var there []uint32
	for _, i := range g.squares {
		if c := f.cluster[i]; c != 0 && o.of[c] == 0 {
			o.of[c] = 1
			there = append(there, c)
		}
	}
	slices.SortFunc(there, func(a, b uint32) int { return cmp.Compare(f.names[a], f.names[b]) })
	for n, c := range there {
		o.of[c] = 0
		if n < math.MaxUint16 {
			answer.Owners = append(answer.Owners, f.names[c])
			o.of[c] = uint16(n + 1)
		}
	}
	return o
}

// gangNumber tells gangs that stand side by side apart; it is never 0, and another gang may have the same.
func (g *grid) gangNumber(i int32) uint16 {
	f := g.fleet
	if f.group[i] == 0 {
		return 0
	}
	hash := fnv.New64a()
	hash.Write([]byte(f.names[f.cluster[i]]))
	hash.Write([]byte{0})
	hash.Write([]byte(f.names[f.group[i]]))
	return uint16(hash.Sum64()^f.fingerprint[i]) | 1
}

// machineCells writes a cell for each machine.
func (g *grid) machineCells(o *owners, out *CellsAnswer) []byte {
	f, drawn := g.fleet, g.drawn()
	seen := map[int32]bool{}
	for _, i := range drawn {
		if f.cluster[i] != 0 {
			seen[f.priority[i]] = true
		}
	}
	for p := range seen {
		out.Priorities = append(out.Priorities, p)
	}
	slices.Sort(out.Priorities)
	data := make([]byte, 0, 6*len(drawn))
	for _, i := range drawn {
		place := 0
		if f.cluster[i] != 0 {
			place, _ = slices.BinarySearch(out.Priorities, f.priority[i])
		}
		data = append(data, byte(f.state[i]), byte(min(place, math.MaxUint8)))
		data = binary.LittleEndian.AppendUint16(data, o.of[f.cluster[i]])
		data = binary.LittleEndian.AppendUint16(data, g.gangNumber(i))
	}
	return data
}

// domainCells writes a cell for each domain.
func (g *grid) domainCells(o *owners) []byte {
	f := g.fleet
	data := make([]byte, 0, 10*len(g.groups))
	byOwner := map[uint32]int{}
	for _, group := range g.groups {
		row := DomainRow{}
		clear(byOwner)
		for _, i := range g.squares[group.from:group.to] {
			row.count(f.state[i], 0)
			byOwner[f.cluster[i]]++
		}
		most := uint32(0)
		delete(byOwner, 0)
		for c, n := range byOwner {
			if n > byOwner[most] || n == byOwner[most] && c < most {
				most = c
			}
		}
		for _, n := range [...]int{group.to - group.from, row.Bound, row.Idle, row.Moving} {
			data = binary.LittleEndian.AppendUint16(data, uint16(min(n, math.MaxUint16)))
		}
		data = binary.LittleEndian.AppendUint16(data, o.of[most])
	}
	return data
}
