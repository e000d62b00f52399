package document

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tonnage/tonnage/engine/model"
)

// Reader decodes a tree. It knows the path to what is being read, and collects
// faults. The zero value is ready for use.
type Reader struct {
	// Of is the document that the tree is of; nil = faults do not say on which line they are.
	Of     *Document
	path   []step
	faults []Fault
	at     map[string]bool // paths that have a fault
	more   int             // faults beyond FaultsMax
	hints  []Hint
	unsaid int // hints beyond FaultsMax
	items  itemParser
}

// step is one part of a path: a key, or an index when key is absent.
type step struct {
	key   string
	index int // −1 for a key
}

// Faults returns the faults in the order in which they were found, and how
// many more there are than were kept.
func (r *Reader) Faults() ([]Fault, int) { return r.faults, r.more }

// Count returns how many faults there are, those beyond FaultsMax included.
func (r *Reader) Count() int { return len(r.faults) + r.more }

// Failed reports whether there is any fault.
func (r *Reader) Failed() bool { return len(r.faults) > 0 }

// Enter goes down to a key of the current object.
func (r *Reader) Enter(key string) { r.path = append(r.path, step{key, -1}) }

// EnterItem goes down to an item of the current list.
func (r *Reader) EnterItem(i int) { r.path = append(r.path, step{"", i}) }

// Leave goes back up.
func (r *Reader) Leave() { r.path = r.path[:len(r.path)-1] }

// Fault records a fault at the current path. If several faults have one path,
// the first is kept.
func (r *Reader) Fault(format string, args ...any) {
	r.FaultAt("", format, args...)
}

// FaultAt records a fault at a path below the current one, such as
// "requirements[0].operator" or "[3]".
func (r *Reader) FaultAt(below, format string, args ...any) {
	path := r.Path()
	switch {
	case path == "$" && below != "":
		path = below
	case below != "" && below[0] != '[':
		path += "." + below
	default:
		path += below
	}
	r.add(path, func() uint32 { return r.Of.find(append(slices.Clone(r.path), steps(below)...)) }, format, args)
}

// Hint is something in a document that is allowed, and worth a look.
type Hint struct {
	Fault
	// Note tells what is as it should be and may surprise; otherwise the hint is a warning: what
	// is written there is hardly what was meant.
	Note bool
}

// Warn records a warning at a key of the current object.
func (r *Reader) Warn(key, format string, args ...any) { r.hint(false, key, format, args) }

// Note records a note at the current path.
func (r *Reader) Note(format string, args ...any) { r.hint(true, "", format, args) }

func (r *Reader) hint(note bool, key, format string, args []any) {
	if len(r.hints) >= FaultsMax {
		r.unsaid++
		return
	}
	if key != "" {
		r.Enter(key)
		defer r.Leave()
	}
	var f Fault
	if r.Of != nil {
		f = r.Of.place(r.Of.find(r.path))
	}
	f.Path, f.Msg = r.Path(), fmt.Sprintf(format, args...)
	r.hints = append(r.hints, Hint{f, note})
}

// Hints returns the warnings and notes in the order in which they were found, and how many more
// there are than were kept.
func (r *Reader) Hints() ([]Hint, int) { return r.hints, r.unsaid }

// add records a fault at a path, unless there is one. Place says where it is, and is asked only
// then.
func (r *Reader) add(path string, place func() uint32, format string, args []any) {
	if r.at[path] {
		return
	}
	if r.at == nil {
		r.at = make(map[string]bool)
	}
	if len(r.faults) >= FaultsMax {
		r.more++
		return
	}
	r.at[path] = true
	var f Fault
	if r.Of != nil {
		f = r.Of.place(place())
	}
	f.Path, f.Msg = path, fmt.Sprintf(format, args...)
	r.faults = append(r.faults, f)
}

// faultOn records a fault at the key of an item of the current object.
func (r *Reader) faultOn(item *Node, format string, args ...any) {
	r.Enter(item.Key)
	r.add(r.Path(), func() uint32 { return item.keyAt }, format, args)
	r.Leave()
}

// FaultKey records a fault at a key of the current object.
func (r *Reader) FaultKey(key, format string, args ...any) {
	r.Enter(key)
	r.Fault(format, args...)
	r.Leave()
}

// Path writes out the current path: needs[3].labels["a/b"]; "$" for the
// document itself.
func (r *Reader) Path() string {
	if len(r.path) == 0 {
		return "$"
	}
	var b []byte
	for _, s := range r.path {
		switch {
		case s.index >= 0:
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(s.index), 10)
			b = append(b, ']')
		case !plain(s.key):
			b = append(b, '[')
			b = append(b, Quote(s.key)...)
			b = append(b, ']')
		default:
			if len(b) > 0 {
				b = append(b, '.')
			}
			b = append(b, s.key...)
		}
	}
	return string(b)
}

// plain reports whether a key can stand in a path without quotes.
func plain(key string) bool {
	for i := range len(key) {
		c := key[i]
		if !(c == '_' || c == '-' || c-'0' <= 9 || c|0x20-'a' < 26) {
			return false
		}
	}
	return key != "" && len(key) <= QuotedBytesMax
}

// Quote returns a text in quotes on one line, cut when it is long.
func Quote(s string) string {
	if len(s) <= QuotedBytesMax {
		return strconv.Quote(s)
	}
	cut := QuotedBytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// Describe says what a node is, for messages: text "abc", a list.
func Describe(n *Node) string {
	switch n.Kind {
	case Text:
		return "the text " + Quote(n.Text)
	case Number, Bool:
		return n.Text
	}
	return n.Kind.String()
}

// want records a fault unless the node is of the kind.
func (r *Reader) want(n *Node, kind Kind) bool {
	if n.Kind == kind {
		return true
	}
	hint := ""
	if kind == Text && (n.Kind == Number || n.Kind == Bool) {
		hint = "; put it in quotes"
	}
	if kind == Number && n.Kind == Text && numberEnd(n.Text, 0) == len(n.Text) && n.Text != "" {
		hint = "; leave the quotes out"
	}
	if kind == Bool {
		hint = "; write true or false"
	}
	r.Fault("must be %s, got %s%s", kind, Describe(n), hint)
	return false
}

// Text reads a text, which may be empty.
func (r *Reader) Text(n *Node, into *string) {
	if r.want(n, Text) {
		*into = n.Text
	}
}

// Plain reads a text that is compared with others and may be empty; it must pass
// model.CheckText.
func (r *Reader) Plain(n *Node, into *string) {
	r.checked(n, into, model.CheckText[string])
}

// Name reads a text that identifies something; it must pass model.CheckName.
func (r *Reader) Name(n *Node, into *string) {
	r.checked(n, into, model.CheckName[string])
}

// OptionalName reads a name that may be empty; it must pass
// model.CheckOptionalName.
func (r *Reader) OptionalName(n *Node, into *string) {
	r.checked(n, into, model.CheckOptionalName[string])
}

// checked reads a text that must pass check.
func (r *Reader) checked(n *Node, into *string, check func(string) error) {
	if !r.want(n, Text) {
		return
	}
	if err := check(n.Text); err != nil {
		r.Fault("%v", err)
		return
	}
	*into = n.Text
}

// Bool reads true or false.
func (r *Reader) Bool(n *Node, into *bool) {
	if r.want(n, Bool) {
		*into = n.Text == "true"
	}
}

// Int reads a whole number within bounds. 1e3 and 2.0 are whole numbers.
func (r *Reader) Int(n *Node, low, high int64, into *int64) {
	if !r.want(n, Number) {
		return
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil {
		const exact = 1 << 53
		f, _ := strconv.ParseFloat(n.Text, 64)
		if f != math.Trunc(f) {
			r.Fault("must be a whole number, got %s", Quote(n.Text))
			return
		}
		if !(f >= -exact && f <= exact) {
			r.Fault("must be between %d and %d, got %s", low, high, n.Text)
			return
		}
		v = int64(f)
	}
	if v < low || v > high {
		r.Fault("must be between %d and %d, got %d", low, high, v)
		return
	}
	*into = v
}

// Float reads a finite number, at least low and at most high (+Inf: no bound).
func (r *Reader) Float(n *Node, low, high float64, into *float64) {
	if !r.want(n, Number) {
		return
	}
	v, err := strconv.ParseFloat(n.Text, 64)
	switch {
	case err != nil && !math.IsInf(v, 0), math.IsNaN(v), math.IsInf(v, 0):
		r.Fault("must be a finite number, got %s", n.Text)
	case v < low && math.IsInf(high, 1):
		r.Fault("must be at least %v, got %s", low, n.Text)
	case v < low || v > high:
		r.Fault("must be between %v and %v, got %s", low, high, n.Text)
	default:
		*into = v
	}
}

// timeMax is the last moment whose Unix nanoseconds fit into an int64.
var timeMax = time.Unix(0, math.MaxInt64).UTC()

// Time reads an RFC 3339 time into Unix nanoseconds, 1970 to 2262.
func (r *Reader) Time(n *Node, into *int64) {
	if !r.want(n, Text) {
		return
	}
	t, err := time.Parse(time.RFC3339Nano, n.Text)
	switch {
	case err != nil:
		r.Fault("is not a time, got %s; write it as 2026-06-01T00:00:00Z", Quote(n.Text))
	case t.Unix() < 0 || t.After(timeMax):
		r.Fault("must be between 1970 and %d, got %s", timeMax.Year(), Quote(n.Text))
	default:
		*into = t.UnixNano()
	}
}

// Duration reads a time span that is not negative: "10m", "1h30m", or a number
// of seconds.
func (r *Reader) Duration(n *Node, longest time.Duration, into *time.Duration) {
	var d time.Duration
	switch n.Kind {
	case Number:
		var seconds float64
		before := len(r.faults) + r.more
		r.Float(n, 0, longest.Seconds(), &seconds)
		if len(r.faults)+r.more != before {
			return
		}
		d = time.Duration(seconds * float64(time.Second))
	case Text:
		var err error
		if d, err = time.ParseDuration(n.Text); err != nil {
			r.Fault("is not a time span, got %s; write it as 90s, 10m or 1h30m", Quote(n.Text))
			return
		}
	default:
		r.Fault("must be a time span such as 10m, got %s", Describe(n))
		return
	}
	if d < 0 || d > longest {
		r.Fault("must be between 0 and %v, got %s", longest, Quote(n.Text))
		return
	}
	*into = d
}

// List reads a list and calls item for each of its items, one level down. item must not keep the node.
func (r *Reader) List(n *Node, item func(i int, n *Node)) {
	if !r.want(n, List) {
		return
	}
	for i := range n.Items {
		r.EnterItem(i)
		at := &n.Items[i]
		if at.unread {
			at = r.items.parse(r.Of, at)
		}
		item(i, at)
		r.Leave()
	}
}

// Names reads a list of different names.
func (r *Reader) Names(n *Node, into *[]string) {
	seen := make(map[string]int)
	r.List(n, func(i int, n *Node) {
		var name string
		if r.Name(n, &name); name == "" {
			return
		}
		if first, ok := seen[name]; ok {
			r.Fault("%s is listed twice, first as [%d]", Quote(name), first)
			return
		}
		seen[name] = i
		*into = append(*into, name)
	})
}

// Map reads an object with free keys and calls item for each of its values,
// one level down. A key that does not pass model.CheckName and one that occurs
// twice are faults.
func (r *Reader) Map(n *Node, item func(key string, n *Node)) {
	r.mapOf(n, model.CheckName[string], item)
}

// OptionalMap is Map for keys that may be empty.
func (r *Reader) OptionalMap(n *Node, item func(key string, n *Node)) {
	r.mapOf(n, model.CheckOptionalName[string], item)
}

func (r *Reader) mapOf(n *Node, check func(key string) error, item func(key string, n *Node)) {
	if !r.want(n, Object) {
		return
	}
	// Nearly every map is short, and then looking back is faster than hashing.
	const short = 16
	var seen map[string]bool
	if len(n.Items) > short {
		seen = make(map[string]bool, len(n.Items))
	}
	for i := range n.Items {
		it := &n.Items[i]
		twice := seen[it.Key]
		if seen == nil {
			twice = find(n.Items[:i], it.Key) != nil
		} else {
			seen[it.Key] = true
		}
		r.Enter(it.Key)
		switch err := check(it.Key); {
		case err != nil:
			r.add(r.Path(), func() uint32 { return it.keyAt }, "the key %v", []any{err})
		case twice:
			r.add(r.Path(), func() uint32 { return it.keyAt }, "the key occurs twice", nil)
		default:
			item(it.Key, it)
		}
		r.Leave()
	}
}
