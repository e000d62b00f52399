//go:build !linux

package exec

import "syscall"

// processAttributes has a command lead a process group. That it is killed with this process is
// only to be had on Linux.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
