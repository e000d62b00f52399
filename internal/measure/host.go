package measure

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/tonnage/tonnage/internal/cpu"
)

// Host is the machine that a figure was measured on.
type Host struct {
	CPU     string  // model; the architecture where the system does not tell
	GOAMD64 string  // what the binary was built for; empty on other architectures
	SIMD    string  // which kernels run
	Load1   float64 // load average over a minute, 0 where the system does not tell
}

// host looks at the machine.
func host() Host {
	return Host{CPU: cpuModel(), GOAMD64: buildSetting("GOAMD64"), SIMD: cpu.SIMD(), Load1: load1()}
}

// cpuModel returns the model of the first processor.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// buildSetting returns a setting that the binary was built with.
func buildSetting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// load1 returns the system's load average over a minute.
func load1() float64 {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// rssBytes returns what of the process is in memory; 0 where the system does
// not tell.
func rssBytes() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
