package exec

import "syscall"

// processAttributes has a command lead a process group, and be killed when this process is.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
