package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/tonnage/tonnage/internal/measure"
)

// The files of `bench --profile`. The heap is written before the first measured
// cycle, too: what was allocated since then is the difference.
const (
	profileCPU        = "cpu.pprof"
	profileHeapBefore = "heap-before.pprof"
	profileHeap       = "heap.pprof"
	profileMutex      = "mutex.pprof"
	profileBlock      = "block.pprof"
)

// profileBlockNanos is from when on blocking is seen: one of a shorter wait is
// sampled in proportion.
const profileBlockNanos = int(time.Microsecond)

// benchProfiles are the profiles of a run, if any were asked for.
type benchProfiles struct {
	dir   string // empty = the processor's alone
	cpu   *os.File
	began bool  // measuring
	fault error // of the heap's profile at the beginning
}

// startProfiles begins a CPU profile in the file or the folder that is named.
// It ends with stop.
func startProfiles(cpuFile, dir string) (*benchProfiles, error) {
	p := &benchProfiles{dir: dir}
	if cpuFile == "" && dir == "" {
		return p, nil
	}
	flag := "--cpuprofile"
	if dir != "" {
		flag, cpuFile = "--profile", filepath.Join(dir, profileCPU)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, badInput(fmt.Errorf("%s: %w; name a folder that can be written", flag, err))
		}
	}
	var err error
	if p.cpu, err = os.Create(cpuFile); err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", flag, err))
	}
	if err := pprof.StartCPUProfile(p.cpu); err != nil {
		return nil, errors.Join(err, p.cpu.Close())
	}
	return p, nil
}

// progress notes when measuring begins: what waited and was allocated before is
// left out.
func (p *benchProfiles) progress(at measure.Progress) {
	if p.dir == "" || p.began || at.Stage != measure.StageMeasuring {
		return
	}
	p.began = true
	p.fault = p.write(profileHeapBefore, "heap")
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(profileBlockNanos)
}

// stop ends the profiles and writes them.
func (p *benchProfiles) stop() error {
	if p.cpu == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := errors.Join(p.fault, p.cpu.Close())
	if !p.began {
		return err
	}
	err = errors.Join(err, p.write(profileMutex, "mutex"), p.write(profileBlock, "block"), p.write(profileHeap, "heap"))
	runtime.SetMutexProfileFraction(0)
	runtime.SetBlockProfileRate(0)
	return err
}

// write writes one of the runtime's profiles. That of the heap is as of the
// last collection.
func (p *benchProfiles) write(file, profile string) error {
	f, err := os.Create(filepath.Join(p.dir, file))
	if err != nil {
		return err
	}
	if profile == "heap" {
		runtime.GC()
	}
	return errors.Join(pprof.Lookup(profile).WriteTo(f, 0), f.Close())
}
