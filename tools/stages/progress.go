package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// silenceMax is how long the output stays silent before a line of progress.
	silenceMax = 8 * time.Second
	// tick is how often the silence is measured.
	tick = time.Second
	// namesMax is how many packages or programs a line of progress names.
	namesMax = 4
	// endBytesMax bounds the end of what a stage or a test that failed said.
	endBytesMax = 3000
	// nameCharactersMax bounds the name of a program: some write all their
	// arguments into it.
	nameCharactersMax = 60
)

// printer passes output on, and prints a line of progress when there has been
// none for silenceMax. It keeps the end of what was passed on, without progress. It is
// safe for several writers.
type printer struct {
	mu      sync.Mutex
	out     io.Writer
	last    time.Time
	midLine bool
	silence time.Duration
	end     []byte // since forget was called; may hold more than what is kept
}

func newPrinter(out io.Writer) *printer {
	return &printer{out: out, last: time.Now(), silence: silenceMax}
}

// Write passes text on.
func (p *printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end = append(p.end, text...); len(p.end) > 2*endBytesMax {
		p.end = append(p.end[:0], endOf(p.end)...)
	}
	return p.write(text)
}

// forget begins anew with what is kept.
func (p *printer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = p.end[:0]
}

// kept is the end of what was passed on.
func (p *printer) kept() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(endOf(p.end))
}

// endOf is the last endBytesMax bytes of a text, from the beginning of a line on.
func endOf(text []byte) []byte {
	if len(text) <= endBytesMax {
		return text
	}
	text = text[len(text)-endBytesMax:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return text
}

func (p *printer) write(text []byte) (int, error) {
	if len(text) > 0 {
		p.last = time.Now()
		p.midLine = !bytes.HasSuffix(text, []byte("\n"))
	}
	return p.out.Write(text)
}

// progress prints a line when the output has been silent at a time.
func (p *printer) progress(now time.Time, line func() string) {
	p.mu.Lock()
	silent := now.Sub(p.last) >= p.silence
	p.mu.Unlock()
	if !silent {
		return
	}
	text := line() // looks at processes, so not under the lock
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.midLine {
		text = "\n" + text
	}
	_, _ = p.write([]byte(text + "\n"))
}

// watch calls progress until stop is called.
func (p *printer) watch(line func() string) (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case now := <-t.C:
				p.progress(now, line)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// some joins the first names and counts the rest.
func some(names []string) string {
	if len(names) > namesMax {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMax], ", "), len(names)-namesMax)
	}
	return strings.Join(names, ", ")
}

// working says what the descendants of a process do: the programs that have no
// child of their own, with the package that a compiler or linker works on.
func working(root int) string {
	children, commands := map[int][]int{}, map[int][]string{}
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return ""
	}
	for _, file := range entries {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		command, err1 := os.ReadFile(file)
		stat, err2 := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		parent, ok := parentOf(string(stat))
		if err1 != nil || err2 != nil || !ok {
			continue // it has ended
		}
		children[parent] = append(children[parent], pid)
		commands[pid] = strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00")
	}
	var names []string
	var visit func(pid int)
	visit = func(pid int) {
		if len(children[pid]) == 0 && pid != root {
			if name := describe(commands[pid]); name != "" {
				names = append(names, name[:min(len(name), nameCharactersMax)])
			}
		}
		for _, child := range children[pid] {
			visit(child)
		}
	}
	visit(root)
	slices.Sort(names)
	return some(slices.Compact(names))
}

// parentOf reads the parent from /proc/PID/stat. The name before it is in
// parentheses and may hold anything.
func parentOf(stat string) (int, bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

// describe names what a command does.
func describe(command []string) string {
	if len(command) == 0 || command[0] == "" {
		return ""
	}
	program, _, _ := strings.Cut(command[0], " ")
	name := filepath.Base(program)
	i := slices.Index(command, "-p")
	switch {
	case name == "compile" && i > 0 && i+1 < len(command):
		return "compile " + command[i+1]
	case name == "link":
		if o := slices.Index(command, "-o"); o > 0 && o+1 < len(command) {
			if base := filepath.Base(command[o+1]); base != "a.out" {
				return "link " + base
			}
		}
	case name == "go" && len(command) > 1:
		return "go " + command[1]
	}
	return name
}
