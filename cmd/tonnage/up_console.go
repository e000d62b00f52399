package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

const (
	statusGap        = 250 * time.Millisecond // on a terminal
	statusGapPlain   = 10 * time.Second       // elsewhere
	consoleWidthElse = 100                    // where the terminal does not tell its width
	eraseLine        = "\r\x1b[K"
)

// console writes lines and, on a terminal, one status line below them that is
// rewritten in place. Log lines go through it too, so that they do not run into
// the status.
type console struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	status   string // what stands on the last line
}

// liveLine returns the console of a terminal that has a status line alone; nil if w is none. A nil console shows nothing.
func liveLine(w io.Writer) *console {
	f := terminal.File(w)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &console{out: w, terminal: true}
}

// print writes a line above the status.
func (c *console) print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.above(c.out, fmt.Sprintf(format+"\n", args...))
}

// above takes the status away, writes, and puts the status back.
func (c *console) above(w io.Writer, text string) {
	if c.status == "" {
		io.WriteString(w, text)
		return
	}
	_ = terminal.Control(c.out, eraseLine)
	io.WriteString(w, text)
	io.WriteString(c.out, c.status)
}

// show replaces the status line; elsewhere than on a terminal it is a line
// like any other.
func (c *console) show(line string) {
	if c == nil {
		return
	}
	if !c.terminal {
		c.print("%s", line)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = fit(line, c.width()-1)
	_ = terminal.Control(c.out, eraseLine)
	io.WriteString(c.out, c.status)
}

// clear takes the status line away for good.
func (c *console) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != "" {
		_ = terminal.Control(c.out, eraseLine)
	}
	c.status = ""
}

func (c *console) width() int {
	if f := terminal.File(c.out); f != nil {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return consoleWidthElse
}

// fit cuts a line to a number of columns, at a separator where there is one.
func fit(line string, columns int) string {
	runes := []rune(line)
	if terminal.Width(line) <= columns {
		return line
	}
	short := string(runes[:max(columns, 0)])
	if i := strings.LastIndex(short, statusSeparator); i > 0 {
		return short[:i]
	}
	return short
}

// logWriter is where log lines go: above the status.
type logWriter struct {
	c *console
	w io.Writer
}

func (l logWriter) Write(b []byte) (int, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.above(l.w, string(b))
	return len(b), nil
}

const statusSeparator = " · "

// statusLine says in one line how things are, what matters most in front: a
// narrow terminal cuts the end.
func statusLine(f *web.Frame, q web.Quantiles, up time.Duration) string {
	if f.Cycle == 0 {
		return "waiting for the first cycle"
	}
	rate := 0
	for _, n := range f.Actions {
		rate += n
	}
	needs := "no demand yet"
	if f.Needs > 0 {
		needs = fmt.Sprintf("%s of %s Needs satisfied", grouped(int64(f.Satisfied)), grouped(int64(f.Needs)))
	}
	parts := []string{
		up.Round(time.Second).String(),
		needs,
		fmt.Sprintf("%s bound, %s idle", grouped(int64(f.Machines[3]+f.Machines[4])), grouped(int64(f.Machines[2]))),
		fmt.Sprintf("cycle %s (p99 %s)", millis(f.CycleMillis), millis(q.P99)),
		fmt.Sprintf("%s actions (%s in this cycle)", grouped(f.ActionsTotal), grouped(int64(rate))),
		dollars(f.Spend),
	}
	if f.Progress != "" {
		parts = append(parts, f.Progress)
	}
	if f.Mode != web.ModeRunning {
		parts = append([]string{string(f.Mode)}, parts...)
	}
	return strings.Join(parts, statusSeparator)
}

// grouped writes 225000 as 225,000.
func grouped(v int64) string {
	digits := fmt.Sprint(v)
	sign := ""
	if v < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// millis writes a duration in milliseconds with three digits that matter.
func millis(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func dollars(spend [len(web.CapacityTypes)]float64) string {
	var sum float64
	for _, v := range spend {
		sum += v
	}
	if sum < 100 {
		return fmt.Sprintf("$%.2f/h", sum)
	}
	return fmt.Sprintf("$%s/h", grouped(int64(sum+0.5)))
}
