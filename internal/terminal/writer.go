package terminal

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// Writer passes text on to a terminal, or a file in place of one, with control
// characters escaped; line feeds and tabs pass. It holds back at most three bytes,
// the beginning of a character of which the rest has not been written yet; Close
// escapes and writes them. Safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	out  io.Writer
	part []byte // the beginning of a character
	buf  []byte
}

// NewWriter returns a Writer to out; out itself if it is a Writer already.
func NewWriter(out io.Writer) *Writer {
	if w, ok := out.(*Writer); ok {
		return w
	}
	return &Writer{out: out}
}

// Write escapes and writes text. The length that it returns counts the text as it
// was given.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := text
	if len(w.part) > 0 {
		b = slices.Concat(w.part, text)
		w.part = nil
	}
	if n := cutOff(b); n > 0 {
		w.part = bytes.Clone(b[len(b)-n:])
		b = b[:len(b)-n]
	}
	if err := w.write(b); err != nil {
		return 0, err
	}
	return len(text), nil
}

// write escapes and writes whole characters.
func (w *Writer) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if at := firstUnsafe(b, true); at < len(b) {
		w.buf = appendEscaped(append(w.buf[:0], b[:at]...), b[at:], true)
		b = w.buf
	}
	_, err := w.out.Write(b)
	if cap(w.buf) > keptBytesMax {
		w.buf = nil
	}
	return err
}

// keptBytesMax is how much memory a Writer keeps between two writes.
const keptBytesMax = 64 << 10

// cutOff returns how many bytes at the end are the beginning of a character.
func cutOff(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; c >= utf8.RuneSelf && utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		} else if c < utf8.RuneSelf {
			return 0
		}
	}
	return 0
}

// Control writes a control sequence of the process itself to w, as it is, also when w
// is a Writer.
func Control(w io.Writer, sequence string) error {
	if x, ok := w.(*Writer); ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err := x.flush(); err != nil {
			return err
		}
		w = x.out
	}
	_, err := io.WriteString(w, sequence)
	return err
}

// Close writes what is held back. The target stays open, and the Writer can be used
// on.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	b := w.part
	w.part = nil
	return w.write(b)
}

// File returns the file that w writes to, directly or as a Writer; nil if that is
// none.
func File(w io.Writer) *os.File {
	if x, ok := w.(*Writer); ok {
		w = x.out
	}
	if x, ok := w.(interface{ File() *os.File }); ok {
		return x.File()
	}
	f, _ := w.(*os.File)
	return f
}
