package exec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
)

const (
	// faultsMax is how many faults of an answer are named.
	faultsMax = 5
	// faultyLinesMax is after how many faulty lines an answer is not read any further.
	faultyLinesMax = 100
)

var phaseNames = func() (out []string) {
	for p := driver.Creating; p <= driver.Failed; p++ {
		out = append(out, p.String())
	}
	return out
}()

// answerSchema is what create, configure, drain and delete may answer.
var answerSchema = document.NewSchema(
	document.Field[string]{Key: "reason", Read: func(r *document.Reader, n *document.Node, into *string) { r.Text(n, into) }},
)

// parseAnswer reads what a change has written: nothing, or an object with a reason.
func parseAnswer(out []byte) (reason string, err error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return "", nil
	}
	err = parseObject(out, func(r *document.Reader, n *document.Node) { answerSchema.Read(r, n, &reason) })
	return oneLine(reason), err
}

// parseObject reads one JSON object.
func parseObject(text []byte, read func(r *document.Reader, n *document.Node)) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return fmt.Errorf("must be a JSON object, got %s", document.Quote(string(text)))
	}
	root, fault := document.Parse(text)
	if fault != nil {
		return fault
	}
	var r document.Reader
	read(&r, root)
	faults, _ := r.Faults()
	var all []error
	for i := range faults {
		all = append(all, &faults[i])
	}
	return errors.Join(all...)
}

// machineSchema is a line of observe's answer.
var machineSchema = document.NewSchema(
	document.Field[driver.Observation]{Key: "record", Required: true, Read: func(r *document.Reader, n *document.Node, o *driver.Observation) {
		var text string
		if r.Text(n, &text); text == "" {
			return
		}
		if err := readRecord(text, o); err != nil {
			r.Fault("%v", err)
		}
	}},
	document.Field[driver.Observation]{Key: "phase", Required: true, Read: readPhase},
	document.Field[driver.Observation]{Key: "ref", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) { r.OptionalName(n, &o.Ref) }},
	document.Field[driver.Observation]{Key: "node", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) { r.OptionalName(n, &o.Node) }},
	document.Field[driver.Observation]{Key: "reason", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) {
		r.Text(n, &o.Reason)
		o.Reason = oneLine(o.Reason)
	}},
	document.Field[driver.Observation]{Key: "outOfStock", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) { r.Bool(n, &o.OutOfStock) }},
	document.Field[driver.Observation]{Key: "taken", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) { r.Bool(n, &o.Taken) }},
	document.Field[driver.Observation]{Key: "incomplete", Read: func(r *document.Reader, n *document.Node, o *driver.Observation) { r.Bool(n, &o.Incomplete) }},
	document.Field[driver.Observation]{Key: "allocatable", Read: readAllocatable},
	document.Field[driver.Observation]{Key: "labels", Read: readLabels},
	document.Field[driver.Observation]{Key: "taints", Read: readTaints},
).Refuse("machine", "is told by the record; give that back as it was").
	Refuse("generation", "is told by the record; give that back as it was").
	Refuse("state", "is called phase")

func readPhase(r *document.Reader, n *document.Node, o *driver.Observation) {
	var text string
	before := r.Count()
	if r.Text(n, &text); r.Count() > before {
		return
	}
	phase, ok := driver.ParsePhase(text)
	if !ok {
		hint := ""
		if near := document.Nearest(text, phaseNames); near != "" {
			hint = "; did you mean " + near + "?"
		}
		r.Fault("is one of %s, got %s%s", strings.Join(phaseNames, ", "), document.Quote(text), hint)
		return
	}
	o.Phase = phase
}

func readAllocatable(r *document.Reader, n *document.Node, o *driver.Observation) {
	amounts := []model.Amount{}
	r.Map(n, func(name string, n *document.Node) {
		if n.Kind != document.Text && n.Kind != document.Number {
			r.Fault("must be a quantity such as 4, 500m or 16Gi, got %s", document.Describe(n))
			return
		}
		v, err := model.ParseQuantity(name, n.Text)
		if err != nil {
			r.Fault("%s %v", document.Quote(n.Text), err)
			return
		}
		amounts = append(amounts, model.Amount{Name: name, Value: v})
	})
	// No amount at all is something that is known, unlike nil.
	if o.Allocatable = model.NewResources(amounts...); o.Allocatable == nil {
		o.Allocatable = model.Resources{}
	}
}

func readLabels(r *document.Reader, n *document.Node, o *driver.Observation) {
	o.Labels = map[string]string{}
	r.Map(n, func(key string, n *document.Node) {
		var text string
		r.Plain(n, &text)
		o.Labels[key] = text
	})
}

var taintSchema = document.NewSchema(
	document.Field[driver.Taint]{Key: "key", Required: true, Read: func(r *document.Reader, n *document.Node, t *driver.Taint) { r.Name(n, &t.Key) }},
	document.Field[driver.Taint]{Key: "value", Read: func(r *document.Reader, n *document.Node, t *driver.Taint) { r.Plain(n, &t.Value) }},
	document.Field[driver.Taint]{Key: "effect", Required: true, Read: func(r *document.Reader, n *document.Node, t *driver.Taint) { r.Name(n, &t.Effect) }},
	document.Field[driver.Taint]{Key: "timeAdded", Read: func(*document.Reader, *document.Node, *driver.Taint) {}}, // a node says it, and it does not matter
)

func readTaints(r *document.Reader, n *document.Node, o *driver.Observation) {
	o.Taints = []driver.Taint{}
	r.List(n, func(_ int, n *document.Node) {
		var t driver.Taint
		taintSchema.Read(r, n, &t)
		o.Taints = append(o.Taints, t)
	})
}

// known is one making of a machine.
type known struct {
	id         string
	generation uint64
}

// parseObserved calls yield for each machine of observe's answer, one JSON object a line. A line
// with a fault is left out; the error names the line and the field, and says that the answer is
// not whole.
func parseObserved(out []byte, yield func(*driver.Observation)) error {
	var faults []error
	more := 0
	fault := func(line int, err error) {
		if len(faults) == faultsMax {
			more++
			return
		}
		faults = append(faults, fmt.Errorf("line %d: %w", line, err))
	}
	seen := map[known]int{}
	line := 0
	for text := range bytes.Lines(out) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var o driver.Observation
		err := parseObject(text, func(r *document.Reader, n *document.Node) {
			machineSchema.Read(r, n, &o)
			if r.Failed() {
				return
			}
			complete(r, &o)
		})
		if err == nil {
			first, twice := seen[known{o.ID, o.Generation}]
			if twice {
				err = fmt.Errorf("record: machine %s of generation %d is in line %d already", document.Quote(o.ID), o.Generation, first)
			}
		}
		if err != nil {
			if fault(line, err); more == faultyLinesMax-faultsMax {
				break
			}
			continue
		}
		seen[known{o.ID, o.Generation}] = line
		if o.Phase == driver.Idle { // the record is that of the last configure; it is in no cluster since
			o.Cluster, o.Metadata = "", nil
		}
		yield(&o)
	}
	if more > 0 {
		faults = append(faults, fmt.Errorf("and %d more lines up to line %d", more, line))
	}
	return errors.Join(faults...)
}

// complete refuses what lacks something that its phase needs.
func complete(r *document.Reader, o *driver.Observation) {
	switch {
	case o.ID == "":
		r.FaultKey("record", "is empty")
	case o.Ref == "" && (o.Phase == driver.Idle || o.Phase == driver.Configured || o.Phase == driver.Draining):
		r.FaultKey("ref", "is missing; a machine that is %v has one, from Configured on the providerID of its node", o.Phase)
	case o.Node == "" && o.Phase == driver.Configured:
		r.FaultKey("node", "is missing; a machine that is Configured has a node")
	case o.Reason == "" && o.Phase == driver.Failed:
		r.FaultKey("reason", "is missing; a machine that is Failed says why")
	case o.OutOfStock && o.Phase != driver.Failed:
		r.FaultKey("outOfStock", "is said of machines that are Failed, got %v", o.Phase)
	case o.Taken && o.Phase != driver.Failed:
		r.FaultKey("taken", "is said of machines that are Failed, got %v", o.Phase)
	}
}
