package main

import (
	"strings"
	"testing"
)

// TestFailedCommandsShowBothEnds: of a command that fails with much output, the error has the beginning and the end.
func TestFailedCommandsShowBothEnds(t *testing.T) {
	_, err := output(t.Context(), t.TempDir(), nil, "sh", "-c", "echo fatal error: why; seq 10000; echo exit; exit 2")
	if err == nil {
		t.Fatal("a command that exits with 2 has not failed")
	}
	for _, want := range []string{"fatal error: why", "[...]", "exit\n", "exit status 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if n := len(err.Error()); n > 3*endBytes {
		t.Errorf("the error has %d bytes", n)
	}
}
