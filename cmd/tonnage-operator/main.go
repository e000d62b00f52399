// Command tonnage-operator is one cluster's side of the fleet: it reports what
// the cluster asks for and carries out what its shard says. It is a binary of its
// own, so that shards need nothing of Kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/tonnage/tonnage/internal/terminal"
)

// The exit codes.
const (
	exitOK       = 0
	exitInternal = 1
	exitBadInput = 2 // a bad flag, file or argument
)

// version is set when a release is built.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code. Control characters in
// errors and in the log are escaped.
func run(ctx context.Context, args []string, out, err io.Writer) int {
	safe := terminal.NewWriter(err)
	defer safe.Close()
	err = safe
	command := operate
	if len(args) > 0 {
		switch args[0] {
		case "pods":
			command, args = watchPods, args[1:]
		case "version", "--version", "-version":
			fmt.Fprintf(out, "tonnage-operator %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return exitOK
		}
	}
	fault := command(ctx, args, err)
	switch {
	case fault == nil || errors.Is(fault, flag.ErrHelp):
		return exitOK
	case errors.Is(fault, errInput):
		fmt.Fprintln(err, fault)
		return exitBadInput
	}
	fmt.Fprintln(err, fault)
	return exitInternal
}

// versionText returns the release, or the revision that was built.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && s.Value != "" {
				return "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "devel"
}
