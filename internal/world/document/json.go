package document

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parseJSON reads one JSON value. Besides JSON's own grammar it knows the
// numbers NaN, Infinity and -Infinity, which several writers emit, so that the
// Reader can refuse them by their path.
func parseJSON(text string, large bool) (Node, *Fault) {
	p := jsonParser{text: text, large: large}
	p.space()
	at := p.pos
	root, ok := p.value(0)
	root.at = uint32(at)
	if ok {
		if p.space(); p.pos < len(p.text) {
			p.fail("something follows the end of the document")
		}
	}
	return root, p.fault
}

// jsonParser is a recursive-descent parser over one string. Texts without
// escapes share the input's memory.
type jsonParser struct {
	text  string
	pos   int
	fault *Fault
	large bool // items of the lists in the outermost object are checked, and not kept
	// stack holds the finished items of the lists and objects that are still
	// open, each of them above the mark where it began.
	stack []Node
	slab  []Node
}

// fail records a syntax fault at the current position.
func (p *jsonParser) fail(format string, args ...any) bool {
	if p.fault == nil {
		f := Document{text: p.text}.place(uint32(p.pos))
		f.Path, f.Msg = fmt.Sprintf("line %d, column %d", f.Line, f.Column), fmt.Sprintf(format, args...)
		p.fault = &f
	}
	return false
}

func (p *jsonParser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\n', '\t', '\r':
			p.pos++
		default:
			return
		}
	}
}

// found describes the current character for a message.
func (p *jsonParser) found() string {
	if p.pos >= len(p.text) {
		return "the end of the file"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return fmt.Sprintf("%q", r)
}

// value reads one value. Nodes go by value here: a pointer would put each of
// them on the heap.
func (p *jsonParser) value(depth int) (Node, bool) {
	if p.pos >= len(p.text) {
		return Node{}, p.fail("the file ends in the middle of a value")
	}
	switch p.text[p.pos] {
	case '{':
		items, ok := p.object(depth + 1)
		return Node{Kind: Object, Items: items}, ok
	case '[':
		items, ok := p.list(depth + 1)
		return Node{Kind: List, Items: items}, ok
	case '"':
		text, ok := p.str()
		return Node{Kind: Text, Text: text}, ok
	case 't', 'f', 'n', 'N', 'I', '-':
		for _, w := range jsonWords {
			if strings.HasPrefix(p.text[p.pos:], w.text) {
				p.pos += len(w.text)
				return Node{Kind: w.kind, Text: w.text}, true
			}
		}
	}
	start := p.pos
	if p.pos = numberEnd(p.text, start); p.pos == start {
		return Node{}, p.fail("a value cannot begin with %s; a file that begins with { or [ is read as JSON", p.found())
	}
	return Node{Kind: Number, Text: p.text[start:p.pos]}, true
}

var jsonWords = [...]struct {
	text string
	kind Kind
}{{"true", Bool}, {"false", Bool}, {"null", Null}, {"NaN", Number}, {"Infinity", Number}, {"-Infinity", Number}}

// numberEnd returns the end of the JSON number that begins at i, i when there
// is none.
func numberEnd(s string, i int) int {
	start := i
	if i < len(s) && s[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(s) && s[i]-'0' <= 9 {
			i++
		}
		return i > from
	}
	first := i
	if !digits() || (s[first] == '0' && i > first+1) {
		return start
	}
	if i < len(s) && s[i] == '.' {
		if i++; !digits() {
			return start
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return start
		}
	}
	return i
}

// largeDepth is the depth of the lists in the outermost object.
const largeDepth = 2

// list reads a list and returns its items.
func (p *jsonParser) list(depth int) ([]Node, bool) {
	if depth > DepthMax {
		return nil, p.fail("more than %d levels deep", DepthMax)
	}
	mark := len(p.stack)
	p.pos++
	if p.space(); p.eat(']') {
		return nil, true
	}
	for {
		at, kept := p.pos, len(p.slab)
		item, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		item.at = uint32(at)
		if p.large && depth == largeDepth && item.Kind >= List {
			if item.Items, item.unread = nil, true; kept > len(p.slab) {
				kept = 0 // it has begun a slab of its own
			}
			p.slab = p.slab[:kept]
		}
		p.stack = append(p.stack, item)
		p.space()
		switch {
		case p.eat(','):
			p.space()
		case p.eat(']'):
			return p.keep(mark), true
		default:
			return nil, p.fail("expected , or ] in a list, found %s", p.found())
		}
	}
}

// object reads an object and returns its values with their keys.
func (p *jsonParser) object(depth int) ([]Node, bool) {
	if depth > DepthMax {
		return nil, p.fail("more than %d levels deep", DepthMax)
	}
	mark := len(p.stack)
	p.pos++
	if p.space(); p.eat('}') {
		return nil, true
	}
	for {
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return nil, p.fail("expected a key in double quotes, found %s", p.found())
		}
		keyAt := p.pos
		key, ok := p.str()
		if !ok {
			return nil, false
		}
		if p.space(); !p.eat(':') {
			return nil, p.fail("expected : after the key %s, found %s", Quote(key), p.found())
		}
		p.space()
		at := p.pos
		item, ok := p.value(depth)
		if !ok {
			return nil, false
		}
		item.Key, item.at, item.keyAt = key, uint32(at), uint32(keyAt)
		p.stack = append(p.stack, item)
		p.space()
		switch {
		case p.eat(','):
			p.space()
		case p.eat('}'):
			return p.keep(mark), true
		default:
			return nil, p.fail("expected , or } in an object, found %s", p.found())
		}
	}
}

// itemParser parses items that a document does not keep, one at a time, in the memory of the one before.
type itemParser struct {
	p    jsonParser
	node Node
}

// parse returns an item with what lies in it, until the next call.
func (x *itemParser) parse(d *Document, n *Node) *Node {
	x.p = jsonParser{text: d.text, pos: int(n.at), stack: x.p.stack[:0], slab: x.p.slab[:0]}
	x.node, _ = x.p.value(largeDepth) // LoadLarge has checked it
	x.node.at = n.at
	return &x.node
}

func (p *jsonParser) eat(c byte) bool {
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// keep moves the nodes above the mark off the stack into memory of their own.
func (p *jsonParser) keep(mark int) []Node {
	items := p.stack[mark:]
	const slabNodes = 4096
	if len(p.slab)+len(items) > cap(p.slab) {
		p.slab = make([]Node, 0, max(slabNodes, len(items)))
	}
	from := len(p.slab)
	p.slab = append(p.slab, items...)
	p.stack = p.stack[:mark]
	return p.slab[from:len(p.slab):len(p.slab)]
}

// str reads a text in double quotes.
func (p *jsonParser) str() (string, bool) {
	from := p.pos + 1
	for i := from; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			p.pos = i + 1
			return p.text[from:i], true
		case c == '\\':
			p.pos = i
			return p.escaped(from)
		case c < ' ':
			p.pos = i
			return "", p.fail("a control character inside a text; write it as \\u%04x", c)
		}
	}
	p.pos = len(p.text)
	return "", p.fail("the file ends inside a text")
}

// escaped reads the rest of a text that holds escapes, from the first on.
func (p *jsonParser) escaped(from int) (string, bool) {
	b := []byte(p.text[from:p.pos])
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(b), true
		case c < ' ':
			return "", p.fail("a control character inside a text; write it as \\u%04x", c)
		case c != '\\':
			b = append(b, c)
			p.pos++
			continue
		}
		r, length := unescape(p.text[p.pos:])
		if length == 0 {
			return "", p.fail("no such escape; a backslash is written \\\\")
		}
		b = utf8.AppendRune(b, r)
		p.pos += length
	}
	return "", p.fail("the file ends inside a text")
}

// unescape reads the escape that s begins with and returns its length, 0 when
// it is none. Half of a surrogate pair becomes the replacement character.
func unescape(s string) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := hex4(s[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// hex4 reads \uXXXX.
func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for i := 2; i < 6; i++ {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 || (d < 10 && s[i]-'0' > 9) {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}
