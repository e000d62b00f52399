package session

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/policy"
)

// The header of a session that tells an operator what a roll-up of its cluster may have,
// and what machines offer, as of the session's beginning: of every resource that some
// machine has a line with its name, =, and the largest amount that one has.
const (
	headerRows    = "tonnage-max-rows"
	headerGangs   = "tonnage-max-gangs"
	headerSets    = "tonnage-max-requirement-sets"
	headerKeys    = "tonnage-max-keys"
	headerOffered = "tonnage-offered-bin"
)

// offeredBytesMax keeps the header within what proxies let through. A longer list is left
// out, which an operator takes for not known.
const offeredBytesMax = 4 << 10

// header tells the operator of a cluster all that it is told so.
func (s *Server) header(lowered policy.Limits) metadata.MD {
	h, limits := limitsHeader(lowered), &s.intake.uses.limits
	for key, n := range map[string]int{headerRows: limits.Rows, headerGangs: limits.Gangs, headerSets: limits.RequirementSets, headerKeys: limits.Keys} {
		h.Set(key, strconv.Itoa(n))
	}
	if s.offered == nil {
		return h
	}
	if offered, known := s.offered(); known {
		if text := offeredText(offered); len(text) <= offeredBytesMax {
			h.Set(headerOffered, text)
		}
	}
	return h
}

func offeredText(offered []model.Amount) string {
	var b strings.Builder
	for _, a := range offered {
		b.WriteString(a.Name + "=" + model.FormatQuantity(a.Name, a.Value) + "\n")
	}
	return b.String()
}
