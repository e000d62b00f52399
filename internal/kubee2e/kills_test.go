package kubee2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// killPauseMax is the longest time between two kills of which nobody asks what they meet.
	killPauseMax = 6 * time.Second
	// changeWait is how long a kill waits for machines that change, changeMax how far into that it comes.
	changeWait, changeMax = 30 * time.Second, time.Second
)

// awaitMoment waits until a random moment for a kill. Every second one, by lot, comes while machines change: where a shard
// is killed every few seconds, it does not come to change any, and kills would meet a fleet at rest.
func awaitMoment(rng *rand.Rand, changes func() bool) {
	pause, meets := rng.Int64N(int64(killPauseMax)), rng.IntN(2) == 0
	if meets {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for begun := time.Now(); !changes() && time.Since(begun) < changeWait; {
			<-ticker.C
		}
		pause = pause * int64(changeMax) / int64(killPauseMax)
	}
	next := time.NewTimer(time.Duration(pause))
	<-next.C
}

// undertaker has a process of its own end all processes with a folder in their arguments as soon as this one has ended, however
// that comes about: machines of scripts have sessions of their own, so that they outlive everybody.
func undertaker(t *testing.T, dir string) {
	t.Helper()
	waits, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close()
	// The folder is not in its own arguments.
	u := osexec.Command("sh", "-c", `read -r _
for round in 1 2 3; do
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' <"$file" 2>/dev/null | grep -qF "$UNDERTAKEN/"; then
      pid=${file#/proc/}
      kill -9 "${pid%/cmdline}" 2>/dev/null
    fi
  done
done`)
	u.Env = append(os.Environ(), "UNDERTAKEN="+dir)
	u.Stdin, u.SysProcAttr = waits, &syscall.SysProcAttr{Setsid: true}
	if err := u.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = end.Close()
		_ = u.Wait()
	})
}

// undertakenVariable makes this program one that has a machine and is killed.
const undertakenVariable = "TONNAGE_TEST_UNDERTAKEN"

// TestTheUndertaker: a machine does not outlive a run that is killed.
func TestTheUndertaker(t *testing.T) {
	if dir := os.Getenv(undertakenVariable); dir != "" {
		undertaker(t, dir)
		machine := osexec.Command("sh", "-c", "echo up; exec 3<>machine; read -r _ <&3", dir+"/machine")
		machine.Dir, machine.Stdout, machine.SysProcAttr = dir, os.Stdout, &syscall.SysProcAttr{Setsid: true}
		if err := machine.Start(); err != nil {
			t.Fatal(err)
		}
		_ = machine.Wait()
		return
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := osexec.Command(os.Args[0], "-test.run", "TestTheUndertaker$")
	run.Env = append(os.Environ(), undertakenVariable+"="+dir)
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "up") {
		t.Fatalf("the machine says %q, %v", line, err)
	}
	if n := len(processesOf(t, dir+"/machine")); n != 1 {
		t.Fatalf("there are %d machines", n)
	}
	_ = run.Process.Kill()
	_ = run.Wait()
	eventually(t, time.Minute, "the machine is gone", func() string {
		if pids := processesOf(t, dir+"/machine"); len(pids) > 0 {
			return fmt.Sprint("there are ", pids)
		}
		return ""
	})
}
