package session

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// The header of a session in which a shard tells what the rows of the cluster are
// lowered to. A shard without a policy, or of another make, sends none of them.
const (
	headerPriority     = "tonnage-max-priority"
	headerInterruption = "tonnage-max-interruption-penalty"
	headerReclamation  = "tonnage-max-reclamation-penalty"
)

// The header in which it tells what a roll-up may have, and, in lines with a name, = and
// an amount, the largest that one machine has of each resource.
const (
	headerRows    = "tonnage-max-rows"
	headerGangs   = "tonnage-max-gangs"
	headerSets    = "tonnage-max-requirement-sets"
	headerKeys    = "tonnage-max-keys"
	headerOffered = "tonnage-offered-bin"
)

// aboveNamedMax is how many of the rows that are lowered are named in the log.
const aboveNamedMax = 5

// limits are the highest values that the shard accepts of the cluster's rows.
type limits struct{ priority, interruption, reclamation int32 }

// above notes which rows are above the limits of the cluster.
type above struct {
	limits atomic.Pointer[limits] // nil = the shard has told of none
	said   string                 // as last logged; only send looks at it
}

// learn takes over what the shard tells in the header of the session.
func (s *live) learn() {
	with, ok := s.stream.(interface {
		Header() (metadata.MD, error)
	})
	if !ok {
		return
	}
	header, err := with.Header()
	if err != nil {
		return // the stream is over, which others see as well
	}
	s.above.learn(header, s.cfg.Log)
	number := func(key string) int {
		if values := header.Get(key); len(values) == 1 {
			if n, err := strconv.Atoi(values[0]); err == nil && n > 0 {
				return n
			}
		}
		return 0
	}
	s.cfg.Demand.Limit(number(headerRows), number(headerGangs), number(headerSets), number(headerKeys), offered(header))
}

// offered reads the lines of the header that says what machines offer.
func offered(header metadata.MD) map[string]string {
	values := header.Get(headerOffered)
	if len(values) != 1 {
		return nil
	}
	out := map[string]string{}
	for line := range strings.Lines(values[0]) {
		line = strings.TrimSuffix(line, "\n")
		if at := strings.LastIndexByte(line, '='); at > 0 {
			out[line[:at]] = line[at+1:]
		}
	}
	return out
}

// learn reads the limits that rows are lowered to.
func (a *above) learn(header metadata.MD, log *slog.Logger) {
	l, some := limits{math.MaxInt32, math.MaxInt32, math.MaxInt32}, false
	for key, into := range map[string]*int32{headerPriority: &l.priority, headerInterruption: &l.interruption, headerReclamation: &l.reclamation} {
		if values := header.Get(key); len(values) == 1 {
			if v, err := strconv.ParseInt(values[0], 10, 32); err == nil {
				*into, some = int32(v), true
			}
		}
	}
	if some {
		a.limits.Store(&l)
		log.Info("the shard's policy limits this cluster", "limits", l.String())
	}
}

// String names the limits that there are.
func (l *limits) String() string {
	var all []string
	for _, x := range [...]struct {
		name string
		most int32
	}{{"priority", l.priority}, {"interruption penalty bucket", l.interruption}, {"reclamation penalty bucket", l.reclamation}} {
		if x.most != math.MaxInt32 {
			all = append(all, fmt.Sprintf("%s at most %d", x.name, x.most))
		}
	}
	return strings.Join(all, ", ")
}

// look counts the rows that the shard lowers, and logs when these are others than
// before.
func (a *above) look(rows []*bigfleet.CapacityNeed, metrics *telemetry.Metrics, log *slog.Logger) {
	l := a.limits.Load()
	if l == nil {
		metrics.Lowered(0)
		return
	}
	count, named := 0, make([]string, 0, aboveNamedMax)
	for _, n := range rows {
		if n.GetPriority() <= l.priority && int32(n.GetInterruptionPenaltyBucket()) <= l.interruption && int32(n.GetReclamationPenaltyBucket()) <= l.reclamation {
			continue
		}
		if count++; len(named) < cap(named) {
			named = append(named, fmt.Sprintf("priority %d, group %q", n.GetPriority(), n.GetGroup()))
		}
	}
	metrics.Lowered(count)
	says := fmt.Sprint(count, named)
	if says == a.said || count == 0 && a.said == "" {
		return
	}
	a.said = says
	if count == 0 {
		log.Info("no row is lowered by the shard's policy any more")
		return
	}
	log.Warn("the shard lowers rows to its policy", "rows", count, "limits", l.String(), "such as", named)
}
