package document

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	// Path is where: needs[3].requirements[0].operator, or a line for what is
	// no document at all.
	Path string
	Msg  string
	// Line and Column are where it is in the text, from 1, the column in characters; 0 = not
	// known.
	Line, Column int
}

// Error returns "path: message", one line.
func (f *Fault) Error() string { return f.Path + ": " + f.Msg }

// In returns what Error does, after the place in a file as compilers write it:
// "world.yaml:12:5: needs[3].cluster: is missing". Without a name it is Error.
func (f *Fault) In(file string) string {
	if file == "" {
		return f.Error()
	}
	at, path := file, f.Path+": "
	if f.Line > 0 {
		at += ":" + strconv.Itoa(f.Line)
		if strings.HasPrefix(path, "line ") {
			path = "" // it says the same
		}
	}
	if f.Column > 0 {
		at += ":" + strconv.Itoa(f.Column)
	}
	return at + ": " + path + f.Msg
}

// Document is a JSON or YAML file that was read.
type Document struct {
	Root Node
	text string
}

// Parse reads a JSON or YAML document: what begins with { or [ is JSON.
func Parse(data []byte) (*Node, *Fault) {
	d, fault := ParseDocument(data)
	if fault != nil {
		return nil, fault
	}
	return &d.Root, nil
}

// ParseDocument is Parse, and remembers where everything stands: a Reader of the document
// says with each fault on which line it is. The data must not be modified after it.
func ParseDocument(data []byte) (*Document, *Fault) {
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
	d := &Document{text: string(data)}
	var fault *Fault
	if json {
		d.Root, fault = parseJSON(d.text)
	} else {
		d.Root, fault = parseYAML(data)
	}
	if fault != nil {
		return nil, fault
	}
	return d, nil
}

// Load reads a document from r, and no more of it than is allowed.
func Load(r io.Reader) (*Document, *Fault, error) {
	data, err := io.ReadAll(io.LimitReader(r, JSONBytesMax+1))
	if err != nil {
		return nil, nil, err
	}
	d, fault := ParseDocument(data)
	return d, fault, nil
}

func tooLong(json bool) *Fault {
	if json {
		return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB", JSONBytesMax>>20)}
	}
	return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB, the limit of YAML; JSON may have %d MiB", YAMLBytesMax>>20, JSONBytesMax>>20)}
}
