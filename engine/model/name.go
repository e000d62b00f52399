package model

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// NameBytesMax is the longest name in bytes: an id, key, host, cluster, instance
// type, zone, resource name or group.
const NameBytesMax = 512

// nameQuotedBytesMax is how much of a refused name an error repeats.
const nameQuotedBytesMax = 64

// IsControl reports whether r is a character that no name holds: the control
// characters of Unicode (C0, DEL and C1: U+0000–001F, U+007F–009F) and those that
// change the direction of text (U+061C, U+200E, U+200F, U+202A–202E, U+2066–2069).
// A terminal acts on the first, and shows a text with the second as another text.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || r >= firstBidi && unicode.Is(unicode.Bidi_Control, r)
}

// firstBidi is the smallest bidirectional control.
const firstBidi = 0x061c

// CheckName returns what is wrong with a name, nil when nothing is: a name has 1 to
// NameBytesMax bytes and passes CheckText. The error reads on from what the name is
// of, as in "cluster_id" + " " + error. This is the one rule for names: whatever
// accepts one applies it, so that whatever reads it later accepts it too.
func CheckName[T string | []byte](name T) error {
	if len(name) == 0 {
		return errNoName
	}
	return checkBounded(name)
}

// CheckOptionalName is CheckName for a name that may be left out: "" passes.
func CheckOptionalName[T string | []byte](name T) error {
	if len(name) == 0 {
		return nil
	}
	return checkBounded(name)
}

// CheckText returns what is wrong with a text that is compared with others, such as
// a label's value: it must be UTF-8 without characters for which IsControl holds.
// Its length is for others to bound; it may be empty. The error is as that of
// CheckName.
func CheckText[T string | []byte](text T) error {
	if plain(text) {
		return nil
	}
	return checkRunes(text)
}

// checkRunes is CheckText, character by character.
func checkRunes[T string | []byte](text T) error {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		switch {
		case r == utf8.RuneError && size <= 1:
			return &textError{i, -1, quoted(text)}
		case IsControl(r):
			return &textError{i, r, quoted(text)}
		}
		i += size
	}
	return nil
}

// plain reports whether a text is nothing but printable ASCII, as nearly all are. It
// looks at eight bytes at a time, and in the end at the last eight, some of them again.
func plain[T string | []byte](text T) bool {
	// The highest bit of a byte is set in odd for those below ' ', for DEL and above it.
	const ones = 0x0101010101010101
	odd := uint64(0)
	if len(text) < 8 {
		for i := range len(text) {
			x := uint64(text[i])
			odd |= (x - ' ') | x | (x + 1)
		}
		return odd&0x80 == 0
	}
	for i := 0; i < len(text); i += 8 {
		eight := text[min(i, len(text)-8):][:8]
		x := uint64(eight[0]) | uint64(eight[1])<<8 | uint64(eight[2])<<16 | uint64(eight[3])<<24 |
			uint64(eight[4])<<32 | uint64(eight[5])<<40 | uint64(eight[6])<<48 | uint64(eight[7])<<56
		odd |= (x - ' '*ones) | x | (x + ones)
	}
	return odd&(0x80*ones) == 0
}

func checkBounded[T string | []byte](name T) error {
	if len(name) > NameBytesMax {
		return &lengthError{len(name)}
	}
	return CheckText(name)
}

// quoted returns the beginning of a text, to be quoted.
func quoted[T string | []byte](text T) string {
	return string(text[:min(len(text), nameQuotedBytesMax)])
}

// textError says that a text holds what none may hold.
type textError struct {
	at   int  // byte
	r    rune // −1 = a byte that is not UTF-8
	text string
}

// Error quotes the text, so that the error itself can be shown anywhere.
func (e *textError) Error() string {
	if e.r < 0 {
		return fmt.Sprintf("is not valid UTF-8 at byte %d: %q", e.at, e.text)
	}
	return fmt.Sprintf("holds the control character %U at byte %d: %q; leave it out", e.r, e.at, e.text)
}

// lengthError says that a name is too long.
type lengthError struct{ bytes int }

func (e *lengthError) Error() string {
	return fmt.Sprintf("has %d bytes; at most %d are accepted", e.bytes, NameBytesMax)
}

var errNoName = errors.New("must not be empty")
