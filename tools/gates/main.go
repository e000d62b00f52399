package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// errWorse is the verdict of a gate; what is worse has been printed.
var errWorse = errors.New("slower than it was")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: instructions, compare, binaries OLD NEW, or benchmarks BINARY")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	switch args[0] {
	case "instructions":
		g := instructionsGate{root: root, out: os.Stdout}
		flags.BoolVar(&g.update, "update", false, "write what is counted as what is expected")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return g.run(ctx)
	case "compare":
		g := compareGate{root: root, out: os.Stdout, counts: countsDefault}
		flags.StringVar(&g.base, "base", os.Getenv(baseEnv), "revision to compare with; empty chooses one")
		flags.IntVar(&g.counts, "counts", g.counts, "figures of each side")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return g.run(ctx)
	case "binaries":
		b := binaries{out: os.Stdout, counts: countsDefault}
		flags.StringVar(&b.rungs, "rungs", "5k,50k", "rungs, comma separated")
		flags.StringVar(&b.regimes, "regimes", "cold,steady,contended", "regimes, comma separated")
		flags.IntVar(&b.counts, "counts", b.counts, "runs of each binary")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 2 {
			return errors.New("binaries wants two of them, as in: gates binaries build/old/tonnage bin/tonnage")
		}
		return b.run(ctx, flags.Arg(0), flags.Arg(1))
	case "benchmarks":
		t := benchmarks{out: os.Stdout, log: os.Stderr}
		flags.StringVar(&t.rungs, "rungs", "5k,50k,500k,500k-rows", "rungs, comma separated")
		flags.StringVar(&t.regimes, "regimes", "cold,steady,burst,shrink,contended", "regimes, comma separated")
		flags.StringVar(&t.workers, "workers", "1,2", "workers, comma separated")
		flags.IntVar(&t.cycles, "cycles", 60, "cycles of each run")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return errors.New("benchmarks wants a binary, as in: gates benchmarks bin/tonnage")
		}
		return t.run(ctx, flags.Arg(0))
	}
	return fmt.Errorf("there is no gate named %q", args[0])
}

// moduleRoot returns the folder of the module that is gated: the one above the
// working directory that holds benches.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, pinnedFile)); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no %s in %s or above it; run it within the checkout", pinnedFile, dir)
		}
	}
}

// output runs a command in a folder and returns what it prints; the error
// carries the end of what it says.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = env // nil = this process's
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, ends(said.String()+out.String()))
	}
	return out.String(), nil
}

// endBytes is how much of a failed command's output is shown from each end.
const endBytes = 2000

// ends returns the beginning and the end of a text. A process that crashes says why at the beginning, a test that fails at the end.
func ends(s string) string {
	if len(s) <= 2*endBytes {
		return s
	}
	return s[:endBytes] + "\n[...]\n" + s[len(s)-endBytes:]
}
