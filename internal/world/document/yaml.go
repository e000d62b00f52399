package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseYAML reads one YAML document. Aliases and merge keys are expanded;
// what they expand to is bounded.
func parseYAML(data []byte) (Node, *Fault) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return Node{}, &Fault{Path: "$", Msg: "the file is empty"}
	case err != nil:
		return Node{}, yamlFault(data, err)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return Node{}, &Fault{Path: fmt.Sprintf("line %d", second.Line), Msg: "a second YAML document begins here; a file holds one", Line: second.Line}
	case !errors.Is(err, io.EOF):
		return Node{}, yamlFault(data, err)
	}
	var root Node
	c := yamlConverter{lines: linesOf(data), text: data}
	c.convert(&doc, &root, 0)
	return root, c.fault
}

// yamlFault turns "yaml: line 3: text" into a fault of that line. The library
// names no line when it is the first, nor for an unknown anchor and a control
// character; these are looked for.
func yamlFault(data []byte, err error) *Fault {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if at, rest, ok := strings.Cut(msg, ": "); ok && strings.HasPrefix(at, "line ") {
		line, _ := strconv.Atoi(strings.TrimPrefix(at, "line "))
		return &Fault{Path: at, Msg: rest, Line: line}
	}
	at := 0
	if anchor, ok := strings.CutPrefix(msg, "unknown anchor '"); ok {
		name, _, _ := strings.Cut(anchor, "'")
		at = bytes.Index(data, []byte("*"+name))
	} else if strings.HasPrefix(msg, "control characters") {
		at = bytes.IndexFunc(data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) })
	}
	line := 1 + bytes.Count(data[:max(at, 0)], []byte{'\n'})
	return &Fault{Path: fmt.Sprintf("line %d", line), Msg: msg, Line: line}
}

// yamlLine is where a line of a file begins, and whether characters of it are bytes.
type yamlLine struct {
	at    uint32
	ascii bool
}

func linesOf(data []byte) []yamlLine {
	lines := make([]yamlLine, 0, bytes.Count(data, []byte{'\n'})+1)
	for from := 0; from <= len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[from:], '\n'); i >= 0 {
			end = from + i
		}
		ascii := true
		for _, c := range data[from:end] {
			ascii = ascii && c < utf8.RuneSelf
		}
		lines = append(lines, yamlLine{uint32(from), ascii})
		from = end + 1
	}
	return lines
}

// columnsMax bounds how far a column is looked for in a line with characters of several bytes;
// further ones are taken for bytes.
const columnsMax = 4096

// offset returns where a node begins, in bytes.
func (c *yamlConverter) offset(n *yaml.Node) uint32 {
	if n.Line < 1 || n.Line > len(c.lines) {
		return 0
	}
	line, column := c.lines[n.Line-1], max(n.Column-1, 0)
	at := int(line.at)
	if !line.ascii {
		for range min(column, columnsMax) {
			if at < len(c.text) {
				_, size := utf8.DecodeRune(c.text[at:])
				at += size
			}
			column--
		}
	}
	return uint32(min(at+column, len(c.text)))
}

// yamlConverter turns the YAML library's nodes into ours.
type yamlConverter struct {
	lines   []yamlLine
	text    []byte
	fault   *Fault
	aliases int // how many aliases lie around the current node
	nodes   int // nodes that come from aliases
}

func (c *yamlConverter) fail(n *yaml.Node, format string, args ...any) {
	if c.fault == nil {
		c.fault = &Fault{Path: fmt.Sprintf("line %d, column %d", n.Line, n.Column), Msg: fmt.Sprintf(format, args...), Line: n.Line, Column: n.Column}
	}
}

func (c *yamlConverter) convert(from *yaml.Node, n *Node, depth int) {
	if c.fault != nil {
		return
	}
	if c.aliases > 0 {
		if c.nodes++; c.nodes > AliasNodesMax {
			c.fail(from, "aliases expand to more than %d nodes; write the values out", AliasNodesMax)
			return
		}
	}
	// An alias that lies in its own anchor ends here too.
	if depth > DepthMax {
		c.fail(from, "more than %d levels deep", DepthMax)
		return
	}
	n.at = c.offset(from)
	switch from.Kind {
	case yaml.DocumentNode:
		c.convert(from.Content[0], n, depth)
	case yaml.AliasNode:
		c.aliases++
		c.convert(from.Alias, n, depth+1)
		c.aliases--
	case yaml.SequenceNode:
		n.Kind = List
		n.Items = make([]Node, len(from.Content))
		for i, item := range from.Content {
			c.convert(item, &n.Items[i], depth+1)
		}
	case yaml.MappingNode:
		n.Kind = Object
		c.mapping(from, n, depth)
	case yaml.ScalarNode:
		c.scalar(from, n)
	default:
		c.fail(from, "a node of an unknown kind")
	}
}

// mapping converts the pairs of a mapping. What a merge key brings comes after
// the mapping's own keys, and only where these do not have it.
func (c *yamlConverter) mapping(from *yaml.Node, n *Node, depth int) {
	n.Items = make([]Node, 0, len(from.Content)/2)
	var merged []Node
	for i := 0; i+1 < len(from.Content) && c.fault == nil; i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		var item Node
		c.convert(value, &item, depth+1)
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
			c.fail(key, "a key must be plain text")
			return
		case key.ShortTag() == "!!merge":
			merged = c.merge(value, merged, &item)
		default:
			item.Key, item.keyAt = key.Value, c.offset(from.Content[i])
			n.Items = append(n.Items, item)
		}
	}
	for _, m := range merged {
		if find(n.Items, m.Key) == nil {
			n.Items = append(n.Items, m)
		}
	}
}

// merge adds what a merge key names: a mapping, or a list of mappings of which
// the earlier win.
func (c *yamlConverter) merge(at *yaml.Node, merged []Node, item *Node) []Node {
	sources := []Node{*item}
	if item.Kind == List {
		sources = item.Items
	}
	for _, s := range sources {
		if s.Kind != Object {
			c.fail(at, "a merge key << takes an object or a list of objects")
			return nil
		}
		for _, m := range s.Items {
			if find(merged, m.Key) == nil {
				merged = append(merged, m)
			}
		}
	}
	return merged
}

// Find returns the value of a key of an object; nil = it has none.
func Find(n *Node, key string) *Node { return find(n.Items, key) }

func find(items []Node, key string) *Node {
	for i := range items {
		if items[i].Key == key {
			return &items[i]
		}
	}
	return nil
}

func (c *yamlConverter) scalar(from *yaml.Node, n *Node) {
	n.Text = from.Value
	switch tag := from.ShortTag(); tag {
	case "!!str", "!!timestamp":
		n.Kind = Text
	case "!!null":
		n.Kind = Null
	case "!!bool":
		n.Kind = Bool
		n.Text = strings.ToLower(from.Value)
	case "!!int", "!!float":
		n.Kind = Number
		if numberEnd(n.Text, 0) != len(n.Text) {
			n.Text = c.number(from)
		}
	default:
		c.fail(from, "the tag %s has no meaning here", Quote(tag))
	}
}

// number writes a number that YAML spells in its own way (0x10, 1_000, +1,
// .5, .inf) as JSON does.
func (c *yamlConverter) number(from *yaml.Node) string {
	var v any
	if err := from.Decode(&v); err != nil {
		c.fail(from, "%s is not a number", Quote(from.Value))
	}
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		switch {
		case v != v:
			return "NaN"
		case v-v != 0 && v > 0:
			return "Infinity"
		case v-v != 0:
			return "-Infinity"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return from.Value
}
