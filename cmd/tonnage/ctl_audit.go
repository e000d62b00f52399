package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/shard"
)

const (
	// auditGap is how often a log that is followed is looked at.
	auditGap = 300 * time.Millisecond
	// auditTailDefault is how many records stand before those to come.
	auditTailDefault = 20
	// auditLineBytesMax bounds a record.
	auditLineBytesMax = 1 << 20
)

func (c *ctl) audit() *cobra.Command {
	var path string
	var follow bool
	var last int
	cmd := &cobra.Command{
		Use: "audit", Short: "Show the last records of a shard's audit log",
		Example: "  tonnage ctl audit --audit-log audit.jsonl -n 100\n  tonnage ctl audit --audit-log audit.jsonl --follow -o json", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := formatOf(c.streams, c.output)
			if err != nil {
				return err
			}
			if last < 0 {
				return badInput(fmt.Errorf("--lines cannot be negative, got %d; 0 shows only what comes (--follow)", last))
			}
			t := auditTail{out: c.out, err: c.err, path: path, asJSON: format == formatJSON}
			return t.run(cmd.Context(), last, follow)
		},
	}
	cmd.Flags().StringVar(&path, "audit-log", "", auditLogUsage+hereMark+"the one that the shard writes; required")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with records as they come")
	cmd.Flags().IntVarP(&last, "lines", "n", auditTailDefault, "how many records there are before")
	alsoCalled(cmd, "log", "audit-log")
	return required(cmd, "audit-log")
}

// auditTail shows the end of a log.
type auditTail struct {
	out, err io.Writer
	path     string
	asJSON   bool
}

// run shows the last records and, if asked, those to come. A log that is rotated
// meanwhile is read on.
func (t *auditTail) run(ctx context.Context, last int, follow bool) error {
	f, err := os.Open(t.path)
	if err != nil {
		return badInput(fmt.Errorf("--log: %w", err))
	}
	defer func() { f.Close() }()
	lines := &auditLines{in: bufio.NewReader(f)}
	var recent []auditText
	for line, ok := lines.next(); ok; line, ok = lines.next() {
		if line.number == 1 {
			if err := t.begins(line); err != nil {
				return err
			}
		}
		if recent = append(recent, line); len(recent) > last {
			recent = recent[1:]
		}
	}
	if lines.failed != nil {
		return badInput(fmt.Errorf("--log: %w; name the file that --audit-log of the shard names", lines.failed))
	}
	for _, line := range recent {
		t.show(line)
	}
	for follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditGap):
		}
		for line, ok := lines.next(); ok; line, ok = lines.next() {
			t.show(line)
		}
		if now, err := os.Stat(t.path); err == nil {
			if was, err := f.Stat(); err == nil && !os.SameFile(now, was) {
				if next, err := os.Open(t.path); err == nil {
					f.Close()
					f, lines = next, &auditLines{in: bufio.NewReader(next)}
				}
			}
		}
	}
	return nil
}

// begins refuses a file that does not begin as a log does.
func (t *auditTail) begins(first auditText) error {
	if _, err := first.record(); err != nil {
		return badInput(fmt.Errorf("--audit-log %s: line 1 is no record of an audit log: %w; name the file that --audit-log of the shard names", t.path, err))
	}
	return nil
}

// show writes a record. A shard that is killed may leave part of one, which is
// no reason to hide the others.
func (t *auditTail) show(line auditText) {
	r, err := line.record()
	switch {
	case err != nil:
		fmt.Fprintf(t.err, "%s: line %d is no record, and is left out: %v\n", t.path, line.number, err)
	case t.asJSON:
		fmt.Fprintln(t.out, line.text)
	default:
		fmt.Fprintln(t.out, terminal.Escape(auditLine(r)))
	}
}

// auditText is a line of a log, counted from 1.
type auditText struct {
	number int
	text   string
}

func (l auditText) record() (*shard.AuditRecord, error) {
	var r shard.AuditRecord
	if err := json.Unmarshal([]byte(l.text), &r); err != nil {
		return nil, err
	}
	if r.Disposition == "" {
		return nil, errors.New("it has no disposition")
	}
	return &r, nil
}

// auditLines reads whole lines of a file that grows.
type auditLines struct {
	in     *bufio.Reader
	part   strings.Builder
	count  int
	failed error // why the file cannot be read
}

func (l *auditLines) next() (auditText, bool) {
	text, err := l.in.ReadString('\n')
	if l.part.Len()+len(text) <= auditLineBytesMax {
		l.part.WriteString(text)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			l.failed = err
		}
		return auditText{}, false
	}
	l.count++
	line := auditText{l.count, strings.TrimSuffix(l.part.String(), "\n")}
	l.part.Reset()
	return line, true
}

// auditLine writes a record for people.
func auditLine(r *shard.AuditRecord) string {
	text := fmt.Sprintf("%s cycle %d %s %s %s", time.Unix(0, r.Time).UTC().Format("15:04:05.000"), r.Cycle, r.Disposition, r.Kind, r.Machine)
	if r.Cluster != "" {
		text += " cluster " + r.Cluster
	}
	if r.Need != nil {
		text += fmt.Sprintf(" for %s (rank %d, priority %d)", r.Need.Cluster, r.Need.Rank, r.Need.Priority)
	}
	text += " because " + r.Reason
	if r.Outcome != "" {
		text += ": " + r.Outcome
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}
