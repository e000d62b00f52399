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
// says with each fault on which line it is.
func ParseDocument(data []byte) (*Document, *Fault) { return parse(string(data), false) }

func parse(text string, large bool) (*Document, *Fault) {
	first := 0
	for first < len(text) && (text[first] == ' ' || text[first] == '\n' || text[first] == '\t' || text[first] == '\r') {
		first++
	}
	if first == len(text) {
		return nil, &Fault{Path: "$", Msg: "the file is empty"}
	}
	json, limit := text[first] == '{' || text[first] == '[', YAMLBytesMax
	if json {
		limit = JSONBytesMax
	}
	if len(text) > limit {
		return nil, tooLong(json)
	}
	if !utf8.ValidString(text) {
		return nil, &Fault{Path: "$", Msg: "the file is not valid UTF-8"}
	}
	d := &Document{text: text}
	var fault *Fault
	if json {
		d.Root, fault = parseJSON(text, large)
	} else {
		d.Root, fault = parseYAML([]byte(text))
	}
	if fault != nil {
		return nil, fault
	}
	return d, nil
}

// Load reads a document from r, and no more of it than is allowed.
func Load(r io.Reader) (*Document, *Fault, error) { return load(r, false) }

// LoadLarge is Load for what may be hundreds of megabytes, most of them in lists of the outermost object. Of JSON it keeps the
// text, and of such a list only where its items begin: Reader.List parses each item again when its turn comes. Whatever
// else reads nodes finds nothing in them. The tree would take four times the memory of the text.
func LoadLarge(r io.Reader) (*Document, *Fault, error) { return load(r, true) }

func load(r io.Reader, large bool) (*Document, *Fault, error) {
	text, err := textOf(io.LimitReader(r, JSONBytesMax+1))
	if err != nil {
		return nil, nil, err
	}
	d, fault := parse(text, large)
	return d, fault, nil
}

// textOf reads all of r. A text that grew as it is read would be copied several times over, and hundreds of megabytes take
// seconds each time; here they are copied once.
func textOf(r io.Reader) (string, error) {
	const most = 64 << 20
	var blocks [][]byte
	total := 0
	for size := 64 << 10; ; size = min(2*size, most) {
		block, n := make([]byte, size), 0
		var err error
		for n < size && err == nil { // io.ReadFull hides from a reader's end whether it was cut off
			var read int
			read, err = r.Read(block[n:])
			n += read
		}
		blocks, total = append(blocks, block[:n]), total+n
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	var text strings.Builder
	text.Grow(total)
	for i, block := range blocks {
		text.Write(block)
		blocks[i] = nil
	}
	return text.String(), nil
}

func tooLong(json bool) *Fault {
	if json {
		return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB", JSONBytesMax>>20)}
	}
	return &Fault{Path: "$", Msg: fmt.Sprintf("the file is longer than %d MiB, the limit of YAML; JSON may have %d MiB", YAMLBytesMax>>20, JSONBytesMax>>20)}
}
