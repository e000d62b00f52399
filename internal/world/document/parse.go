package document

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path is where: needs[3].requirements[0].operator, or a line for what is
	// no document at all.
	Path string
	Msg  string
}

// Error returns "path: message", one line.
func (f *Fault) Error() string { return f.Path + ": " + f.Msg }

// Parse reads a JSON or YAML document: what begins with { or [ is JSON.
func Parse(data []byte) (*Node, *Fault) {
	first := 0
	for first < len(data) && (data[first] == ' ' || data[first] == '\n' || data[first] == '\t' || data[first] == '\r') {
		first++
	}
	if first == len(data) {
		return nil, &Fault{Path: "$", Msg: "the file is empty"}
	}
	json, limit := data[first] == '{' || data[first] == '[', YAMLBytesMax
	if json {
		limit = JSONBytesMax
	}
	if len(data) > limit {
		return nil, tooLong(json)
	}
	if !utf8.Valid(data) {
		return nil, &Fault{Path: "$", Msg: "the file is not valid UTF-8"}
	}
	var root Node
	var fault *Fault
	if json {
		root, fault = parseJSON(string(data))
	} else {
		root, fault = parseYAML(data)
	}
	if fault != nil {
		return nil, fault
	}
	return &root, nil
}

// Load reads a document from r, and no more of it than is allowed.
func Load(r io.Reader) (*Node, *Fault, error) {
	data, err := io.ReadAll(io.LimitReader(r, JSONBytesMax+1))
	if err != nil {
		return nil, nil, err
	}
	root, fault := Parse(data)
	return root, fault, nil
}

func tooLong(json bool) *Fault {
	if json {
		return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB", JSONBytesMax>>20)}
	}
	return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB, the limit of YAML; JSON may have %d MiB", YAMLBytesMax>>20, JSONBytesMax>>20)}
}
