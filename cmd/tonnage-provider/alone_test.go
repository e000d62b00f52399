package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAnImageOfTheProgramAlone: the program serves pools where there is no other file, for a user who may write to its data
// folder and nowhere else.
func TestAnImageOfTheProgramAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make another folder the root of a process")
	}
	root, err := os.MkdirTemp("", "image") //nolint:usetesting // another user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	const nobody = 65534
	data := filepath.Join(root, "data")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(root, 0o755))
	must(os.Mkdir(data, 0o700))
	must(os.Chown(data, nobody, nobody))
	put(t, root, "pools.yaml", crashPools)
	must(os.Chmod(filepath.Join(root, "pools.yaml"), 0o644))
	build := exec.Command("go", "build", "-o", filepath.Join(root, "tonnage-provider"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as the page says
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	var said strings.Builder
	cmd := exec.Command("/tonnage-provider", "serve", "--pools", "/pools.yaml", "--data-dir", "/data", "--listen", "127.0.0.1:0", "--metrics-addr", "0")
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"HOME=/"}, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(err)
	if err := cmd.Start(); err != nil {
		t.Skipf("this machine lets no folder be the root of a process: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, " so far, on ") {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the program says %q (%v)\n%s", line, err, said.String())
	}
	_, address, _ := strings.Cut(line, " so far, on ")
	address, _, _ = strings.Cut(strings.TrimSpace(address), ",")
	slotsOf(t, dialed(t, address), 24)
	must(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v\n%s", err, said.String())
	}
}
