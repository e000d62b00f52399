package exec

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
)

// The verbs, as commands are told them.
const (
	verbCreate    = "create"
	verbConfigure = "configure"
	verbDrain     = "drain"
	verbDelete    = "delete"
	verbObserve   = "observe"
)

var verbs = []string{verbCreate, verbConfigure, verbDrain, verbDelete, verbObserve}

const (
	// timeoutMin is the shortest timeout that may be set.
	timeoutMin = time.Second
	// timeoutMax is the longest, and the default: after that the provider gives a call up itself.
	timeoutMax = min(driver.VerbTimeout, driver.ObserveTimeout)
	// concurrencyMax is how many verbs a provider has under way.
	concurrencyMax     = 32
	concurrencyDefault = 8
	// argumentsMax bounds a command, variablesMax its environment; both far below what the
	// kernel takes.
	argumentsMax = 64
	variablesMax = 64
	textBytesMax = 4 << 10
	// ownPrefix begins the variables that the driver sets itself.
	ownPrefix = "TONNAGE_"
)

// Settings say what is run.
type Settings struct {
	// Commands are what is run for each verb, without the verb itself.
	Commands map[string][]string
	// Timeouts are after how long a command is killed, by verb: 1 s to driver.VerbTimeout.
	Timeouts map[string]time.Duration
	// Concurrency is how many commands run at the same time at most, observe not counted: 1…32.
	Concurrency int
	// Env is set for each command beside the provider's own environment.
	Env map[string]string
}

// draft is a section as it is written.
type draft struct {
	command     []string
	commands    map[string][]string
	timeouts    map[string]time.Duration
	concurrency int64
	env         map[string]string
}

var schema = document.NewSchema(
	document.Field[draft]{Key: "command", Read: func(r *document.Reader, n *document.Node, d *draft) { readCommand(r, n, &d.command) }},
	document.Field[draft]{Key: "commands", Read: func(r *document.Reader, n *document.Node, d *draft) {
		perVerb(r, n, func(verb string, n *document.Node) {
			var argv []string
			readCommand(r, n, &argv)
			d.commands[verb] = argv
		})
	}},
	document.Field[draft]{Key: "timeouts", Read: func(r *document.Reader, n *document.Node, d *draft) {
		perVerb(r, n, func(verb string, n *document.Node) { d.timeouts[verb] = readTimeout(r, n) })
	}},
	document.Field[draft]{Key: "concurrency", Read: func(r *document.Reader, n *document.Node, d *draft) { r.Int(n, 1, concurrencyMax, &d.concurrency) }},
	document.Field[draft]{Key: "env", Read: readEnv},
)

// ParseSettings reads the config of a driver, which the pools file gives as JSON, whatever it is written in, and checks that the commands can
// be found. The error names every fault by its place in the section.
func ParseSettings(section []byte) (*Settings, error) {
	if len(section) == 0 {
		return nil, errors.New("config is missing; it says which command is run")
	}
	root, fault := document.Parse(section)
	if fault != nil {
		return nil, fault
	}
	var r document.Reader
	d := draft{commands: map[string][]string{}, timeouts: map[string]time.Duration{}, concurrency: concurrencyDefault, env: map[string]string{}}
	schema.Read(&r, root, &d)
	s := &Settings{Commands: map[string][]string{}, Timeouts: map[string]time.Duration{}, Concurrency: int(d.concurrency), Env: d.env}
	for _, verb := range verbs {
		s.Commands[verb] = d.command
		if argv := d.commands[verb]; argv != nil {
			s.Commands[verb] = argv
		}
		if len(s.Commands[verb]) == 0 && !r.Failed() {
			r.FaultAt("commands."+verb, "is missing, and there is no command for all verbs")
		}
		s.Timeouts[verb] = timeoutMax
		if t := d.timeouts[verb]; t != 0 {
			s.Timeouts[verb] = t
		}
	}
	faults, more := r.Faults()
	var all []error
	for i := range faults {
		all = append(all, &faults[i])
	}
	if more > 0 {
		all = append(all, fmt.Errorf("and %d more", more))
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return s, nil
}

// perVerb reads an object whose keys are verbs.
func perVerb(r *document.Reader, n *document.Node, item func(verb string, n *document.Node)) {
	r.Map(n, func(verb string, n *document.Node) {
		if !slices.Contains(verbs, verb) {
			hint := ""
			if near := document.Nearest(verb, verbs); near != "" {
				hint = "; did you mean " + near + "?"
			}
			r.Fault("is no verb; verbs are %s%s", strings.Join(verbs, ", "), hint)
			return
		}
		item(verb, n)
	})
}

// readCommand reads a program and its arguments, and looks whether there is such a program.
func readCommand(r *document.Reader, n *document.Node, into *[]string) {
	var argv []string
	r.List(n, func(_ int, n *document.Node) {
		var text string
		r.Text(n, &text)
		if readable(r, text) {
			argv = append(argv, text)
		}
	})
	switch {
	case n.Kind != document.List:
	case len(n.Items) == 0 || len(n.Items) > argumentsMax:
		r.Fault("must have 1 to %d items, the program and its arguments, got %d", argumentsMax, len(n.Items))
	case len(argv) == len(n.Items):
		if _, err := exec.LookPath(argv[0]); err != nil {
			r.FaultAt("[0]", "%v; write the path of a program that may be executed", err)
			return
		}
		*into = argv
	}
}

// readable refuses what no argument or variable may hold.
func readable(r *document.Reader, text string) bool {
	switch {
	case len(text) > textBytesMax:
		r.Fault("must be at most %d bytes long, got %d", textBytesMax, len(text))
	case strings.ContainsRune(text, 0):
		r.Fault("holds a zero byte")
	default:
		return true
	}
	return false
}

func readTimeout(r *document.Reader, n *document.Node) time.Duration {
	var t time.Duration
	before := r.Count()
	r.Duration(n, timeoutMax, &t)
	if t < timeoutMin && r.Count() == before {
		r.Fault("must be at least %v, got %v", timeoutMin, t)
	}
	return t
}

func readEnv(r *document.Reader, n *document.Node, d *draft) {
	r.Map(n, func(name string, n *document.Node) {
		switch {
		case strings.HasPrefix(name, ownPrefix):
			r.Fault("variables that begin with %s are set by the driver; choose another name", ownPrefix)
		case strings.Contains(name, "="):
			r.Fault("the name of a variable holds no =")
		case len(d.env) >= variablesMax:
			r.Fault("there are more than %d variables", variablesMax)
		default:
			var text string
			if r.Text(n, &text); readable(r, text) {
				d.env[name] = text
			}
		}
	})
}
