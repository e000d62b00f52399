package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// place returns the line and the column of a byte of the text.
func (d Document) place(at uint32) Fault {
	before := d.text[:min(int(at), len(d.text))]
	return Fault{
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]),
	}
}

// find returns the byte at which the value of a path begins; of a key that an object does not
// have, where the object begins.
func (d *Document) find(path []step) uint32 {
	n := &d.Root
	for _, s := range path {
		switch {
		case s.index >= 0 && n.Kind == List && s.index < len(n.Items):
			if n = &n.Items[s.index]; n.unread {
				n = (&itemParser{}).parse(d, n)
			}
		case s.index < 0 && n.Kind == Object && find(n.Items, s.key) != nil:
			n = find(n.Items, s.key)
		default:
			return n.at
		}
	}
	return n.at
}

// steps reads a path below the current one, such as "requirements[0].operator", as far as it is
// one.
func steps(below string) (out []step) {
	for below != "" {
		if rest, ok := strings.CutPrefix(below, "["); ok {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return out
			}
			index, err := strconv.Atoi(rest[:end])
			if err != nil || index < 0 {
				return out
			}
			out, below = append(out, step{index: index}), rest[end+1:]
			continue
		}
		below = strings.TrimPrefix(below, ".")
		end := strings.IndexAny(below, ".[")
		if end < 0 {
			end = len(below)
		}
		if end == 0 {
			return out
		}
		out, below = append(out, step{below[:end], -1}), below[end:]
	}
	return out
}
