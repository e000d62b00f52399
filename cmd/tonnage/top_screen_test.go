package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/web"
)

// pty opens a pseudo-terminal of a size.
func pty(t *testing.T, columns, lines uint16) (master, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("there are no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	resize(t, master, columns, lines)
	return master, tty
}

func resize(t *testing.T, master *os.File, columns, lines uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}); err != nil {
		t.Fatal(err)
	}
}

// readUntil reads what a terminal shows until it has a text.
func readUntil(t *testing.T, master *os.File, want string) string {
	t.Helper()
	var got bytes.Buffer
	part := make([]byte, 4096)
	for !strings.Contains(got.String(), want) {
		n, err := master.Read(part)
		if got.Write(part[:n]); err != nil {
			t.Fatalf("%v; it shows %q, want %q", err, got.String(), want)
		}
	}
	return got.String()
}

func topFeed() *web.Feed {
	feed := web.NewFeed(web.Info{})
	feed.Publish(web.Frame{
		Cycle: 7, At: 1, Needs: 2, Satisfied: 1, Reasons: []web.ReasonCount{{Reason: "parked\x1b[2J", Count: 1}},
		Did: []web.Action{{Kind: "Preempt", Machine: "m-1", Cluster: "more"}},
	})
	return feed
}

// TestTopOnATerminal: top uses colours, fills the window, redraws when the window is resized, and stops on q.
func TestTopOnATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	server := httptest.NewServer(web.New(web.Config{Feed: topFeed()}))
	defer server.Close()
	master, tty := pty(t, 60, 5)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"top", "--shard", server.URL}, streams{in: tty, out: tty, err: tty, terminal: true})
	}()
	small := readUntil(t, master, clearRest)
	if !strings.Contains(small, styleBold+"cycle 7 at ") || strings.Contains(small, "Preempt") || strings.Contains(small, "took       0.00 ms (reconcile 0.00 ms, snapread 0.00 ms, phase1") {
		t.Errorf("on a window of 5 lines and 60 columns it shows %q", small)
	}
	resize(t, master, 200, 40)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	large := readUntil(t, master, clearRest)
	for _, want := range []string{clearScreen, "needs      1 of 2", styleYellow + "Preempt", styleRed + "             1 unmet: parked"} {
		if !strings.Contains(large, want) {
			t.Errorf("on a larger window it shows %q; want %q", large, want)
		}
	}
	if strings.Contains(large, "parked\x1b") {
		t.Error("what the shard says moves the cursor")
	}
	if _, err := master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitOK {
		t.Errorf("q ends it with %d", code)
	}
	if after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal is not put back: %v", err)
	}
}

func TestTopColours(t *testing.T) {
	server := httptest.NewServer(web.New(web.Config{Feed: topFeed()}))
	defer server.Close()
	for _, c := range []struct {
		flag, noColor string
		colour        bool
	}{{"auto", "", true}, {"auto", "1", false}, {"always", "1", true}, {"never", "", false}} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", "xterm")
		got := call("", true, "top", "--once", "--shard", server.URL, "--color", c.flag)
		if got.code != exitOK || strings.Contains(got.out, styleBold) != c.colour {
			t.Errorf("%+v: exit %d: %q %s", c, got.code, got.out, got.err)
		}
	}
	if got := call("", true, "top", "--color", "red"); got.code != exitBadInput || !strings.Contains(got.err, "--color must be auto, always or never") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
