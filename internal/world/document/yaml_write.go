package document

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// yamlIndent is how far what lies in something is indented.
const yamlIndent = 2

// WriteYAML writes a tree as a YAML document, keys in their order and numbers as they are written. Read
// again it is the same tree.
func WriteYAML(out io.Writer, n *Node) error {
	e := yaml.NewEncoder(out)
	e.SetIndent(yamlIndent)
	if err := e.Encode(toYAML(n)); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return e.Close()
}

// toYAML turns a tree into the YAML library's nodes.
func toYAML(n *Node) *yaml.Node {
	switch n.Kind {
	case Object:
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for i := range n.Items {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: n.Items[i].Key}
			out.Content = append(out.Content, key, toYAML(&n.Items[i]))
		}
		return out
	case List:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range n.Items {
			out.Content = append(out.Content, toYAML(&n.Items[i]))
		}
		return out
	case Number:
		tag := "!!float"
		if isWhole(n.Text) {
			tag = "!!int"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: n.Text}
	case Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: n.Text}
	case Text:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: n.Text}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

func isWhole(number string) bool {
	for i := range len(number) {
		if c := number[i]; c-'0' > 9 && (i > 0 || c != '-') {
			return false
		}
	}
	return true
}
