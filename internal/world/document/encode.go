package document

import (
	"encoding/json"
	"fmt"
)

// AppendJSON appends a node as JSON, for who has a parser of their own for a part of the
// document. The order of keys stays. A number that is not finite becomes null: Reader.Any refuses it.
func AppendJSON(dst []byte, n *Node) []byte {
	switch n.Kind {
	case Bool:
		return append(dst, n.Text...)
	case Number:
		if !json.Valid([]byte(n.Text)) {
			return append(dst, "null"...)
		}
		return append(dst, n.Text...)
	case Text:
		return appendText(dst, n.Text)
	case List:
		dst = append(dst, '[')
		for i := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, &n.Items[i])
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(append(appendText(dst, n.Items[i].Key), ':'), &n.Items[i])
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

func appendText(dst []byte, s string) []byte {
	b, err := json.Marshal(s) // a text always can be
	if err != nil {
		panic(fmt.Sprintf("document: %v", err))
	}
	return append(dst, b...)
}

// Any checks what has no schema here: keys that occur twice and numbers that are not finite
// are faults.
func (r *Reader) Any(n *Node) {
	switch n.Kind {
	case Number:
		if !json.Valid([]byte(n.Text)) {
			r.Fault("must be a finite number, got %s", n.Text)
		}
	case List:
		r.List(n, func(_ int, n *Node) { r.Any(n) })
	case Object:
		seen := map[string]bool{}
		for i := range n.Items {
			it := &n.Items[i]
			if seen[it.Key] {
				r.FaultKey(it.Key, "the key occurs twice")
			}
			seen[it.Key] = true
			r.Enter(it.Key)
			r.Any(it)
			r.Leave()
		}
	}
}
