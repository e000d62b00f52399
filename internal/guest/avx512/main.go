// Command guest is the first process of the emulated machine of tools/avx512.
// It runs every test program under /tests, says what came of it, and turns the
// machine off.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernels are the tests of the vector kernels and of the packages that they
// use.
const kernels = "Kernel|Filter|Counts|Dense|Choose|Available|Environment"

func main() {
	verdict := "PASSED"
	if err := run(); err != nil {
		fmt.Println("guest:", err)
		verdict = "FAILED"
	}
	fmt.Println("guest:", verdict)
	// What is printed is on its way still; without this the end would be lost.
	if err := unix.IoctlSetInt(1, unix.TCSBRK, 1); err != nil {
		fmt.Println("guest:", err)
	}
	if err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART); err != nil {
		fmt.Println("guest:", err)
	}
}

func run() error {
	for dir, kind := range map[string]string{"/proc": "proc", "/dev": "devtmpfs"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(kind, dir, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	tests, err := filepath.Glob("/tests/*.test")
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("no test programs")
	}
	for _, test := range tests {
		fmt.Println("guest:", test)
		cmd := exec.Command(test, "-test.short", "-test.v", "-test.run", kernels)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", test, err)
		}
	}
	return nil
}
