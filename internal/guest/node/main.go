// Command node is the first and only process of the virtual machines of deploy/exec/qemu. It asks
// what it is to do, as user data of a cloud are asked for, and does what a kubelet would:
// with the credentials that it is given it makes its Node and its Lease, keeps both, and says of
// pods that were put on it that they run. No container is started.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The network that QEMU's user mode gives a guest.
const (
	device   = "eth0"
	address  = "10.0.2.15"
	netmask  = "255.255.255.0"
	metadata = "10.0.2.100:80"
)

const (
	// askEvery is how often it is asked what is to be done.
	askEvery = time.Second
	// modulesDir holds the kernel's modules, in the order of their names.
	modulesDir = "/modules"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "node is the first process of a virtual machine; deploy/exec/qemu starts it there")
		os.Exit(2)
	}
	if err := prepare(); err != nil {
		fmt.Println("node: this machine cannot be used:", err)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		select {} // the first process must not end
	}
	fmt.Println("node: up")
	a := &agent{said: saysIdle, log: func(text string) { fmt.Println("node:", text) }}
	for tick := time.NewTicker(askEvery); ; <-tick.C {
		a.round(context.Background(), metadata)
	}
}

// prepare loads the drivers and brings the network up.
func prepare() error {
	for _, m := range []struct{ dir, kind string }{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	files, err := filepath.Glob(modulesDir + "/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		if err := load(file); err != nil {
			return fmt.Errorf("module %s: %w", file, err)
		}
	}
	for _, name := range []string{"lo", device} {
		if err := up(name); err != nil {
			return fmt.Errorf("network %s: %w", name, err)
		}
	}
	return nil
}

func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// up gives a network device its address and switches it on.
func up(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	set := func(request uint, to string) error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := r.SetInet4Addr(ip4(to)); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, request, r)
	}
	if name == device {
		if err := set(unix.SIOCSIFADDR, address); err != nil {
			return err
		}
		if err := set(unix.SIOCSIFNETMASK, netmask); err != nil {
			return err
		}
	}
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}
