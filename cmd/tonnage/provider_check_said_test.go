package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// told is a stream that is looked at while it is written.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen func(all string)
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	n, err := w.text.Write(p)
	all := w.text.String()
	w.mu.Unlock()
	if w.seen != nil {
		w.seen(all)
	}
	return n, err
}

func (w *told) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestProviderCheckSaysHowFarItIs: a row is printed when its check ends, and is there when the run is interrupted; while a machine is
// waited for, a line says so.
func TestProviderCheckSaysHowFarItIs(t *testing.T) {
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-speculative", "3", "--latency", "1s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs, atWait := &told{}, &told{}, ""
	errs.seen = func(all string) {
		if atWait == "" && strings.Contains(all, "waits for machine slot-") {
			atWait = out.String()
			cancel()
		}
	}
	cmd, c := providerCheckCommand(streams{out: out, err: errs})
	c.said = 100 * time.Millisecond
	cmd.SetArgs([]string{"--addr", p.address, "--yes", "-o", "table", "--only", "get.listed,get.unknown,create.begins"})
	err := cmd.ExecuteContext(ctx)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v, want that it was interrupted\n%s", err, errs)
	}
	if !strings.Contains(atWait, "get.listed") || !strings.Contains(atWait, "get.unknown") || strings.Contains(atWait, "create.begins") {
		t.Errorf("while a machine is waited for, these rows are there:\n%s", atWait)
	}
	if got := out.String(); !strings.HasPrefix(got, "CHECK          RESULT   TIME\n") || !strings.Contains(got, "2 passed, 0 failed, 0 skipped") {
		t.Errorf("in the end:\n%s", got)
	}
	if !strings.Contains(errs.String(), ", Creating since ") {
		t.Errorf("it is not said what is waited for: %s", errs)
	}
}
