package terminal

import (
	"fmt"
	"unicode/utf8"

	"github.com/tonnage/tonnage/engine/model"
)

// Escape returns the text on one line and with nothing in it that a terminal acts
// on: control characters, those of text direction, the separators of lines and
// paragraphs, and bytes that are not UTF-8 are replaced by \n, \t, \x1b, \u009b and
// the like. Backslashes stay as they are: the result is for people.
func Escape(s string) string {
	if at := firstUnsafe(s, false); at < len(s) {
		return string(appendEscaped(append(make([]byte, 0, len(s)+16), s[:at]...), s[at:], false))
	}
	return s
}

// unsafe tells whether a rune is escaped. Where lines are kept, line feeds and tabs
// are not.
func unsafe(r rune, lines bool) bool {
	switch r {
	case '\n', '\t':
		return !lines
	case 0x2028, 0x2029:
		return true
	}
	return model.IsControl(r)
}

// firstUnsafe returns where the first character is that is escaped, the length when
// there is none.
func firstUnsafe[T string | []byte](s T, lines bool) int {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f || lines && (c == '\n' || c == '\t') {
			i++
			continue
		}
		r, size := decode(s[i:])
		if r == utf8.RuneError && size == 1 || unsafe(r, lines) {
			return i
		}
		i += size
	}
	return len(s)
}

// decode returns the first rune of a text that is not empty.
func decode[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

// appendEscaped appends the text with everything escaped that must be.
func appendEscaped[T string | []byte](b []byte, s T, lines bool) []byte {
	for len(s) > 0 {
		r, size := decode(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\x%02x`, s[0])
		case !unsafe(r, lines):
			b = append(b, s[:size]...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ':
			b = fmt.Appendf(b, `\x%02x`, r)
		default: // as JSON has it; all of them have four digits
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		s = s[size:]
	}
	return b
}
