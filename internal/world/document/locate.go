package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Locate returns where in a document a Fault's path leads: the line and the column of its
// value, from 1, or of what lies around it when the document does not have it. It reads the document
// again, so it is for faults and not for each value. ok is false when that is not possible.
func Locate(data []byte, path string) (line, column int, ok bool) {
	if len(data) > YAMLBytesMax {
		return 0, 0, false
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return 0, 0, false
	}
	n := doc.Content[0]
	at := n
	for rest := path; rest != "" && rest != "$"; {
		key, index, next, valid := firstStep(rest)
		if !valid {
			return 0, 0, false
		}
		rest = next
		under := child(n, key, index)
		if under == nil {
			break
		}
		n, at = under, under
	}
	return at.Line, at.Column, true
}

// firstStep cuts the first part off a path as Reader.Path writes it. index is −1 for a key.
func firstStep(path string) (key string, index int, rest string, ok bool) {
	if path[0] != '[' {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return path, -1, "", true
		}
		return path[:end], -1, strings.TrimPrefix(path[end:], "."), true
	}
	if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
		key, err := strconv.Unquote(quoted)
		rest, closed := strings.CutPrefix(path[1+len(quoted):], "]")
		return key, -1, strings.TrimPrefix(rest, "."), err == nil && closed
	}
	digits, rest, closed := strings.Cut(path[1:], "]")
	index, err := strconv.Atoi(digits)
	return "", index, strings.TrimPrefix(rest, "."), err == nil && closed && index >= 0
}

// child returns what lies in a node under a key or an index, nil = nothing.
func child(n *yaml.Node, key string, index int) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case index >= 0 && n.Kind == yaml.SequenceNode && index < len(n.Content):
		return n.Content[index]
	case index < 0 && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
