package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/tonnage/tonnage/internal/terminal"
)

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// colorOf settles whether there are colours.
func colorOf(s streams, flag string) (bool, error) {
	switch flag {
	case colorAlways:
		return true, nil
	case colorNever:
		return false, nil
	case colorAuto:
		return s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", nil
	}
	return false, badInput(fmt.Errorf("--color must be auto, always or never, got %q", flag))
}

// Sequences of terminals.
const (
	clearScreen = "\x1b[H\x1b[2J"
	goHome      = "\x1b[H"
	clearRest   = "\x1b[J"
	clearLine   = "\x1b[K"
	styleEnd    = "\x1b[0m"
	styleBold   = "\x1b[1m"
	styleRed    = "\x1b[31m"
	styleGreen  = "\x1b[32m"
	styleYellow = "\x1b[33m"
)

// Sizes of a terminal that does not tell its own.
const (
	topLinesElse   = 40
	topColumnsElse = 120
)

// topScreen shows text: on a terminal a picture that takes the place of the one before, elsewhere one after the other.
type topScreen struct {
	out   io.Writer
	color bool
	whole bool // all lines, one picture after the other

	mu   sync.Mutex
	text string // the last picture
}

// show shows a picture.
func (t *topScreen) show(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = text
	t.draw(goHome)
}

// again redraws the last cycle after the window was resized.
func (t *topScreen) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draw(clearScreen)
}

// draw writes the picture. What is to be seen is escaped here, since the terminal's sequences are not.
func (t *topScreen) draw(begin string) {
	lines := strings.Split(strings.TrimSuffix(t.text, "\n"), "\n")
	end, columns := "\n", 0
	var b strings.Builder
	if !t.whole {
		var height int
		columns, height = t.size()
		lines = lines[:min(len(lines), max(height-1, 1))]
		end = clearLine + "\r\n" // a terminal that hands over keys at once ends lines in both ways
		b.WriteString(begin)
	}
	for i, line := range lines {
		if columns > 0 {
			line = cutLine(line, columns)
		}
		style := ""
		if t.color {
			style = styleOf(i, line)
		}
		b.WriteString(style + terminal.Escape(line))
		if style != "" {
			b.WriteString(styleEnd)
		}
		b.WriteString(end)
	}
	if !t.whole {
		b.WriteString(clearRest)
	}
	_ = terminal.Control(t.out, b.String())
}

// size returns columns and lines of the terminal.
func (t *topScreen) size() (columns, lines int) {
	if f := terminal.File(t.out); f != nil {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return topColumnsElse, topLinesElse
}

// say writes a message below the picture.
func (t *topScreen) say(err io.Writer, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.whole {
		fmt.Fprintln(err, text)
		return
	}
	_ = terminal.Control(t.out, terminal.Escape(text)+"\r\n")
}

// cutLine cuts a line to a number of columns.
func cutLine(line string, columns int) string {
	if terminal.Width(line) <= columns {
		return line
	}
	runes := []rune(line)
	for len(runes) > 0 && terminal.Width(string(runes)) > columns {
		runes = runes[:len(runes)-1]
	}
	return string(runes)
}

// styleOf chooses the style of a line: what needs attention is yellow, what is short red, what is well green.
func styleOf(i int, line string) string {
	first, _, _ := strings.Cut(line, " ")
	switch {
	case i == 0 && strings.HasSuffix(line, "]"):
		return styleYellow
	case i == 0, first == "SHORT", first == "ACTION":
		return styleBold
	case strings.HasPrefix(line, "  needs") && strings.Contains(line, "(100.0 %)"):
		return styleGreen
	case strings.HasPrefix(line, "  needs") && !strings.Contains(line, "nothing is asked for"):
		return styleYellow
	case strings.HasPrefix(line, "  ") && strings.Contains(line, " unmet: "):
		return styleRed
	case first == "Preempt", first == "Reclaim":
		return styleYellow
	}
	return ""
}

// open clears the screen, has keys handed over at once, and follows the window's size. q, Q and Ctrl-C call quit. What
// it returns puts the terminal back.
func (t *topScreen) open(ctx context.Context, in io.Reader, quit func()) (restore func()) {
	_ = terminal.Control(t.out, clearScreen)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-resized:
				t.again()
			}
		}
	}()
	restore = func() { signal.Stop(resized) }
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return restore
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return restore
	}
	go func() { // ends with the process, or with the input
		key := make([]byte, 1)
		for {
			if _, err := f.Read(key); err != nil || strings.ContainsRune("qQ\x03", rune(key[0])) {
				quit()
				return
			}
		}
	}()
	return func() {
		signal.Stop(resized)
		_ = term.Restore(int(f.Fd()), before)
	}
}
