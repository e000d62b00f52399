package measure

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Checksum is the xxh64 of everything in a plan that somebody acts on, in terms
// of ids: actions in their order, and for each row what it claims and lacks. It
// depends on no row number, and so on neither machine nor process nor on how
// the tables were filled. A string is written with its length before it.
func Checksum(plan *engine.Plan, machines *supply.Table) uint64 {
	return checksum(plan, plan.Need, machines)
}

// checksum is Checksum of a plan whose rows need tells, one after the other.
func checksum(plan *engine.Plan, need func(i int) engine.NeedResult, machines *supply.Table) uint64 {
	s := sum{digest: xxhash.New(), machines: machines}
	s.number(int64(len(plan.Actions)))
	for i := range plan.Actions {
		a := &plan.Actions[i]
		s.machine(a.Machine)
		s.number(int64(a.Kind), int64(a.Reason), int64(a.GraceSeconds), int64(a.PreemptorPriority))
		if a.Need >= 0 {
			cluster, row := plan.Identity(int(a.Need))
			s.text(cluster)
			s.number(int64(row))
		}
		s.flush()
	}
	s.number(int64(plan.Len()))
	for i := range plan.Len() {
		n := need(i)
		s.need(i, &n)
	}
	s.rows(plan.Ended)
	s.flush()
	return s.digest.Sum64()
}

// sum gathers the bytes of one entry before it hashes them.
type sum struct {
	digest   *xxhash.Digest
	machines *supply.Table
	buf      []byte
}

func (s *sum) flush() {
	_, _ = s.digest.Write(s.buf)
	s.buf = s.buf[:0]
}

func (s *sum) number(values ...int64) {
	for _, v := range values {
		s.buf = binary.AppendVarint(s.buf, v)
	}
}

func (s *sum) text(v string) {
	s.number(int64(len(v)))
	s.buf = append(s.buf, v...)
}

func (s *sum) machine(r columnar.Row) { s.text(s.machines.ID(r)) }

func (s *sum) rows(rows []columnar.Row) {
	s.number(int64(len(rows)))
	for _, r := range rows {
		s.machine(r)
	}
}

func (s *sum) vector(v model.Resources) {
	s.number(int64(len(v)))
	for _, a := range v {
		s.text(a.Name)
		s.number(a.Value)
	}
}

// need writes a row of the demand. Members of a fold share what they claim; it
// is written once.
func (s *sum) need(i int, n *engine.NeedResult) {
	s.text(n.Cluster)
	s.number(int64(n.Row), int64(n.Fold), int64(n.Rank), int64(n.Unmet))
	if int(n.Fold) == i {
		s.rows(n.Claimed)
		s.vector(n.Deficit)
		s.vector(n.InFlight)
		s.text(n.Domain)
	}
	s.flush()
}

// chain is the checksum of plans in turn.
func chain(so, next uint64) uint64 {
	b := binary.BigEndian.AppendUint64(nil, so)
	return xxhash.Sum64(binary.BigEndian.AppendUint64(b, next))
}
