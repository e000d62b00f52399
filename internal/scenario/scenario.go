package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Scenario is one file.
type Scenario struct {
	Name    string          `json:"name"`
	Area    string          `json:"area"`
	Says    string          `json:"says"`
	Command string          `json:"command"` // decide or simulate
	Input   json.RawMessage `json:"input"`
	// InputText is sent as it stands, in place of Input.
	InputText string `json:"inputText"`
	Expect    Expect `json:"expect"`
}

// Expect is a block of expectations by key.
type Expect map[string]json.RawMessage

// Output is what a command gave.
type Output struct {
	Exit   int
	Stdout string
	Stderr string
}

// Runner runs a command on an input.
type Runner func(command string, input []byte) Output

// Load reads one file.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	s := new(Scenario)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if len(s.Input) == 0 && s.InputText == "" {
		return nil, fmt.Errorf("%s: neither input nor inputText", filepath.Base(path))
	}
	return s, nil
}

// Check runs the scenario and returns what differs from its expectations.
func (s *Scenario) Check(run Runner) []string {
	input := []byte(s.InputText)
	if s.InputText == "" {
		input = s.Input
	}
	c := checker{scenario: s, run: run, out: run(s.Command, input)}
	c.block(s.Expect)
	return c.faults
}

// checker holds one output against blocks of expectations.
type checker struct {
	scenario *Scenario
	run      Runner
	out      Output
	faults   []string
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// block checks one block: the exit code first, because without it the rest
// says nothing.
func (c *checker) block(e Expect) {
	exit := 0
	if raw, ok := e["exit"]; ok {
		exit = value[int](c, "exit", raw)
	}
	if c.out.Exit != exit {
		c.fault("exit %d, want %d; stderr: %s", c.out.Exit, exit, clip(strings.TrimSpace(c.out.Stderr)))
		return
	}
	var check func(key string, raw json.RawMessage) bool
	if exit == 0 {
		if check = c.output(); check == nil {
			return
		}
	}
	for _, key := range sortedKeys(e) {
		raw := e[key]
		switch key {
		case "exit":
		case "stderrContains":
			for _, text := range value[[]string](c, key, raw) {
				if !strings.Contains(c.out.Stderr, text) {
					c.fault("stderr lacks %q: %s", text, clip(c.out.Stderr))
				}
			}
		case "repeatWith":
			c.repeatWith(value[map[string][]json.RawMessage](c, key, raw))
		case "shuffle":
			c.shuffle(value[int](c, key, raw))
		case "anyOf":
			c.anyOf(value[[]Expect](c, key, raw))
		default:
			if check == nil || !check(key, raw) {
				c.fault("no check for the key %q of %s", key, c.scenario.Command)
			}
		}
	}
}

// output parses the output and returns the checks of the command; nil when it
// cannot be parsed.
func (c *checker) output() func(string, json.RawMessage) bool {
	if c.scenario.Command == "simulate" {
		t, err := parseTrace(c.out.Stdout)
		if err != nil {
			c.fault("%v", err)
			return nil
		}
		return (&traceCheck{c, t}).check
	}
	p, err := parsePlan(c.out.Stdout, c.scenario.Input)
	if err != nil {
		c.fault("%v", err)
		return nil
	}
	d := &planCheck{c, p}
	d.oneActionEach()
	return d.check
}

// anyOf passes when one of the blocks holds.
func (c *checker) anyOf(blocks []Expect) {
	var reasons []string
	for _, b := range blocks {
		alt := checker{scenario: c.scenario, run: c.run, out: c.out}
		alt.block(b)
		if len(alt.faults) == 0 {
			return
		}
		reasons = append(reasons, strings.Join(alt.faults, "; "))
	}
	c.fault("none of the alternatives holds: %s", strings.Join(reasons, " | "))
}

// repeatWith runs the scenario with other values at a path of its input; the
// output must be the same but for the durations.
func (c *checker) repeatWith(values map[string][]json.RawMessage) {
	want, err := withoutDurations(c.out.Stdout)
	if err != nil {
		c.fault("%v", err)
		return
	}
	for path, list := range values {
		for _, v := range list {
			input, err := patched(c.scenario.Input, strings.Split(path, "."), v)
			if err != nil {
				c.fault("cannot set %s: %v", path, err)
				continue
			}
			out := c.run(c.scenario.Command, input)
			got, err := withoutDurations(out.Stdout)
			if err != nil || out.Exit != c.out.Exit || !bytes.Equal(got, want) {
				c.fault("the output differs with %s = %s: exit %d %s", path, v, out.Exit, clip(out.Stderr))
			}
		}
	}
}

// shuffle runs the scenario n times with its lists in another order; the plan
// must be the same but for the order of the file.
func (c *checker) shuffle(n int) {
	want, err := byName(c.out.Stdout)
	if err != nil {
		c.fault("%v", err)
		return
	}
	for k := range n {
		input, err := shuffled(c.scenario.Input, uint64(k))
		if err != nil {
			c.fault("cannot shuffle the input: %v", err)
			return
		}
		out := c.run(c.scenario.Command, input)
		got, err := byName(out.Stdout)
		if err != nil || out.Exit != c.out.Exit || !bytes.Equal(got, want) {
			c.fault("another plan when machines and needs are listed in another order (shuffle %d): exit %d %s", k, out.Exit, clip(out.Stderr))
			return
		}
	}
}

// patched returns a document with a value set at a path of keys.
func patched(doc json.RawMessage, path []string, v json.RawMessage) (json.RawMessage, error) {
	if len(path) == 0 {
		return v, nil
	}
	object := map[string]json.RawMessage{}
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &object); err != nil {
			return nil, err
		}
	}
	inner, err := patched(object[path[0]], path[1:], v)
	if err != nil {
		return nil, err
	}
	object[path[0]] = inner
	return json.Marshal(object)
}

// shuffled returns a world with its lists in another order.
func shuffled(doc json.RawMessage, seed uint64) (json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(doc, &object); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, key := range []string{"machines", "needs", "reported"} {
		var list []json.RawMessage
		if len(object[key]) == 0 {
			continue
		}
		if err := json.Unmarshal(object[key], &list); err != nil {
			return nil, err
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		var err error
		if object[key], err = json.Marshal(list); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// withoutDurations returns the documents of an output, in canonical form,
// without the figures that may differ between equal runs.
func withoutDurations(text string) ([]byte, error) {
	var out []byte
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	for dec.More() {
		var doc any
		if err := dec.Decode(&doc); err != nil {
			return nil, fmt.Errorf("the output is not JSON: %w", err)
		}
		b, err := json.Marshal(strip(doc))
		if err != nil {
			return nil, err
		}
		out = append(append(out, b...), '\n')
	}
	return out, nil
}

// strip takes the …Micros figures out of a document.
func strip(doc any) any {
	switch doc := doc.(type) {
	case map[string]any:
		for key, v := range doc {
			if strings.HasSuffix(key, "Micros") {
				delete(doc, key)
			} else {
				doc[key] = strip(v)
			}
		}
	case []any:
		for i := range doc {
			doc[i] = strip(doc[i])
		}
	}
	return doc
}

// byName returns a plan without durations, with Needs and shortfalls sorted by
// name; actions keep their order.
func byName(text string) ([]byte, error) {
	plain, err := withoutDurations(text)
	if err != nil {
		return nil, err
	}
	var plan map[string]any
	if err := json.Unmarshal(plain, &plan); err != nil {
		return nil, err
	}
	for key, name := range map[string]string{"needs": "name", "shortfalls": "need"} {
		rows, _ := plan[key].([]any)
		slices.SortStableFunc(rows, func(a, b any) int { return strings.Compare(text1(a, name), text1(b, name)) })
	}
	return json.Marshal(plan)
}

// text1 returns a text field of a decoded object.
func text1(object any, key string) string {
	m, _ := object.(map[string]any)
	s, _ := m[key].(string)
	return s
}

// value decodes an expectation.
func value[T any](c *checker, key string, raw json.RawMessage) T {
	var v T
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		c.fault("the expectation %s cannot be read: %v", key, err)
	}
	return v
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
