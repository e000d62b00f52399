package rollup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// groupBytesMax is the longest group that is written out; a longer one is named
// by its hash.
const groupBytesMax = 256

// operatorOf maps the operators that shards know.
func operatorOf(o corev1.NodeSelectorOperator) (bigfleet.NodeSelectorRequirement_Operator, bool) {
	switch o {
	case corev1.NodeSelectorOpIn:
		return bigfleet.NodeSelectorRequirement_OPERATOR_IN, true
	case corev1.NodeSelectorOpNotIn:
		return bigfleet.NodeSelectorRequirement_OPERATOR_NOT_IN, true
	case corev1.NodeSelectorOpExists:
		return bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS, true
	case corev1.NodeSelectorOpDoesNotExist:
		return bigfleet.NodeSelectorRequirement_OPERATOR_DOES_NOT_EXIST, true
	}
	return bigfleet.NodeSelectorRequirement_OPERATOR_UNSPECIFIED, false
}

// keyWriter writes the canonical form of what makes a request's row. What it
// found out about one request is kept until the next.
type keyWriter struct {
	buf          []byte
	requirements []api.Requirement // the request's own where they are canonical, else sorted
	sorted       []api.Requirement
	spread       []api.TopologySpread
	interruption model.Bucket
	reclamation  model.Bucket
	group        []byte
	coLocation   string   // the group's topology key, "" = there is no group
	keys         []string // scratch of selectors
	from, to     int      // where buf has the requirements
	sizeFrom     int      // where buf has the size
}

// write makes buf the request's canonical form. size says how large it is; a group is one
// row whatever its members ask for.
func (w *keyWriter) write(request *api.CapacityRequest, size *sizing) error {
	spec := &request.Spec
	w.buf = binary.BigEndian.AppendUint32(w.buf[:0], uint32(spec.Priority))
	w.interruption, w.reclamation = bucket(spec.InterruptionPenalty), bucket(spec.ReclamationPenalty)
	w.buf = append(w.buf, byte(w.interruption), byte(w.reclamation))
	w.group, w.coLocation = w.group[:0], ""
	if c := spec.CoLocation; c != nil && c.TopologyKey != "" {
		w.coLocation = c.TopologyKey
		w.writeGroup(request.Namespace, c)
	}
	w.number(len(w.group))
	w.buf = append(w.buf, w.group...)
	w.from = len(w.buf)
	if err := w.writeRequirements(spec); err != nil {
		return err
	}
	w.to = len(w.buf)
	w.writeSpread(spec)
	w.sizeFrom = len(w.buf)
	if len(w.group) == 0 {
		w.buf = binary.AppendUvarint(binary.BigEndian.AppendUint64(w.buf, size.kind()), size.class)
	}
	if len(w.buf) > ProfileBytesMax {
		return fmt.Errorf("%w: its requirements and spread take %d bytes, at most %d are reported", ErrLarge, len(w.buf), ProfileBytesMax)
	}
	return nil
}

// softSpread counts a request's terms of topology spread that writeSpread leaves out.
func softSpread(request *api.CapacityRequest) (n int) {
	for i := range request.Spec.TopologySpread {
		if request.Spec.TopologySpread[i].WhenUnsatisfiable != corev1.DoNotSchedule {
			n++
		}
	}
	return n
}

func (w *keyWriter) writeRequirements(spec *api.CapacityRequestSpec) error {
	w.requirements = spec.Requirements
	canonical := true
	for i := range w.requirements {
		r := &w.requirements[i]
		if _, known := operatorOf(r.Operator); !known {
			return fmt.Errorf("requirement on %q: %s: %w", r.Key, r.Operator, ErrOperator)
		}
		canonical = canonical && ascending(r.Values) && (i == 0 || compareRequirements(&w.requirements[i-1], r) < 0)
	}
	if !canonical {
		w.sortRequirements()
	}
	w.number(len(w.requirements))
	for i := range w.requirements {
		r := &w.requirements[i]
		w.text(r.Key)
		w.text(string(r.Operator))
		w.number(len(r.Values))
		for _, v := range r.Values {
			w.text(v)
		}
	}
	return nil
}

// sortRequirements puts a canonical copy in place of the request's own.
func (w *keyWriter) sortRequirements() {
	w.sorted = w.sorted[:0]
	for _, r := range w.requirements {
		w.sorted = append(w.sorted, api.Requirement{Key: r.Key, Operator: r.Operator, Values: canonicalValues(r.Values)})
	}
	slices.SortFunc(w.sorted, func(a, b api.Requirement) int { return compareRequirements(&a, &b) })
	w.requirements = slices.CompactFunc(w.sorted, func(a, b api.Requirement) bool { return compareRequirements(&a, &b) == 0 })
}

func (w *keyWriter) writeSpread(spec *api.CapacityRequestSpec) {
	w.spread = w.spread[:0]
	if len(spec.TopologySpread) == 0 {
		w.number(0)
		return
	}
	for _, s := range spec.TopologySpread {
		if s.WhenUnsatisfiable == corev1.DoNotSchedule {
			w.spread = append(w.spread, s)
		}
	}
	slices.SortFunc(w.spread, func(a, b api.TopologySpread) int {
		if c := strings.Compare(a.TopologyKey, b.TopologyKey); c != 0 {
			return c
		}
		return int(a.MaxSkew) - int(b.MaxSkew)
	})
	w.number(len(w.spread))
	for i := range w.spread {
		w.text(w.spread[i].TopologyKey)
		w.number(int(w.spread[i].MaxSkew))
	}
}

// check refuses what no shard takes: of a request whose canonical form is new.
func (w *keyWriter) check() error {
	for i := range w.requirements {
		r := &w.requirements[i]
		if err := model.CheckName(r.Key); err != nil {
			return fmt.Errorf("%w: the key of a requirement %w", ErrName, err)
		}
		for _, v := range r.Values {
			if err := model.CheckText(v); err != nil {
				return fmt.Errorf("%w: a value of the requirement on %q %w", ErrName, r.Key, err)
			}
		}
	}
	for i := range w.spread {
		if err := model.CheckName(w.spread[i].TopologyKey); err != nil {
			return fmt.Errorf("%w: the key of a spread %w", ErrName, err)
		}
	}
	if w.coLocation != "" {
		if err := model.CheckName(w.coLocation); err != nil {
			return fmt.Errorf("%w: the key of the co-location %w", ErrName, err)
		}
	}
	return nil
}

// setSeed makes the hashes of this process its own, so that nobody can choose requirements
// that have one hash.
var setSeed = maphash.MakeSeed()

// setHash returns the hash of the requirements, with that of the co-location.
func (w *keyWriter) setHash() uint64 {
	var h maphash.Hash
	h.SetSeed(setSeed)
	_, _ = h.Write(w.buf[w.from:w.to])
	_, _ = h.WriteString(w.coLocation)
	return h.Sum64()
}

func (w *keyWriter) number(n int) { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }

func (w *keyWriter) text(s string) {
	w.number(len(s))
	w.buf = append(w.buf, s...)
}

// need makes the message of a new row, without amounts.
func (w *keyWriter) need(request *api.CapacityRequest) *bigfleet.CapacityNeed {
	need := &bigfleet.CapacityNeed{
		Priority:                  request.Spec.Priority,
		InterruptionPenaltyBucket: bigfleet.PenaltyBucket(w.interruption),
		ReclamationPenaltyBucket:  bigfleet.PenaltyBucket(w.reclamation),
		Group:                     string(w.group),
	}
	for _, r := range w.requirements {
		operator, _ := operatorOf(r.Operator)
		need.Requirements = append(need.Requirements, &bigfleet.NodeSelectorRequirement{
			Key: r.Key, Operator: operator, Values: slices.Clone(r.Values),
		})
	}
	if len(w.group) > 0 {
		need.Requirements = append(need.Requirements, &bigfleet.NodeSelectorRequirement{
			Key: request.Spec.CoLocation.TopologyKey, Operator: bigfleet.NodeSelectorRequirement_OPERATOR_SAME,
		})
	}
	for _, s := range w.spread {
		need.Spread = append(need.Spread, &bigfleet.TopologySpread{
			TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew,
			WhenUnsatisfiable: bigfleet.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE,
		})
	}
	return need
}

// bucket is the step of a penalty: unspecified when it is not given.
func bucket(penalty *resource.Quantity) model.Bucket {
	if penalty == nil {
		return model.BucketUnspecified
	}
	return model.BucketForDollars(penalty.AsApproximateFloat64())
}

// ascending tells whether values are sorted, each once.
func ascending(values []string) bool {
	for i := 1; i < len(values); i++ {
		if values[i-1] >= values[i] {
			return false
		}
	}
	return true
}

// canonicalValues returns the values sorted, each once. The slice may be the one given.
func canonicalValues(values []string) []string {
	if ascending(values) {
		return values
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

func compareRequirements(a, b *api.Requirement) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.Operator), string(b.Operator)); c != 0 {
		return c
	}
	return slices.Compare(a.Values, b.Values)
}

// writeGroup makes group the name of a co-location's group within the cluster:
// namespace, key and selector in canonical form. Equal selectors in two
// namespaces are two groups.
func (w *keyWriter) writeGroup(namespace string, c *api.CoLocation) {
	w.group = append(append(w.group, namespace...), 0)
	w.group = append(append(w.group, c.TopologyKey...), 0)
	if c.LabelSelector != nil {
		w.writeSelector(c.LabelSelector)
	}
	if len(w.group) > groupBytesMax {
		sum := sha256.Sum256(w.group)
		w.group = append(append(w.group[:0], namespace...), "\x00sha256:"...)
		w.group = hex.AppendEncode(w.group, sum[:])
	}
}

// writeSelector writes a selector so that equal ones are equal text:
// k=v, for each label; then key operator v1,v2; for each expression.
func (w *keyWriter) writeSelector(s *metav1.LabelSelector) {
	w.keys = w.keys[:0]
	for k := range s.MatchLabels {
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys)
	for _, k := range w.keys {
		w.group = append(append(w.group, k...), '=')
		w.group = append(append(w.group, s.MatchLabels[k]...), ',')
	}
	if len(s.MatchExpressions) == 0 {
		return
	}
	w.keys = w.keys[:0]
	for _, e := range s.MatchExpressions {
		w.keys = append(w.keys, e.Key+" "+string(e.Operator)+" "+strings.Join(canonicalValues(e.Values), ",")+";")
	}
	slices.Sort(w.keys)
	w.group = append(w.group, ';')
	for _, e := range w.keys {
		w.group = append(w.group, e...)
	}
}
