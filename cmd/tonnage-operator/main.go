// Command tonnage-operator is one cluster's side of the fleet: it reports what
// the cluster asks for and carries out what its shard says. It is a binary of its
// own, so that shards need nothing of Kubernetes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/commandline"
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
	root := newRoot(out, err)
	root.SetArgs(dashed(root, args))
	fault := root.ExecuteContext(ctx)
	if fault == nil {
		return exitOK
	}
	fmt.Fprintln(err, fault)
	if errors.Is(fault, errInput) {
		return exitBadInput
	}
	return exitInternal
}

// dashed lets long flags be given with one dash, as before.
func dashed(root *cobra.Command, args []string) []string {
	cmd, _, e := root.Find(args)
	if e != nil || cmd == nil {
		cmd = root
	}
	cmd.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	return commandline.TwoDashes(cmd.Flags(), args)
}

// newRoot returns the operator's command, and those below it.
func newRoot(out, err io.Writer) *cobra.Command {
	root := newOperate(err)
	root.Version = versionText()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate(versionLine())
	root.SetOut(out)
	root.SetErr(err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, e error) error {
		return badInput(fmt.Errorf("%w%s (see `%s --help`)", e, commandline.NearestFlag(cmd, e), cmd.CommandPath()))
	})
	root.AddCommand(newPods(err), &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, e := io.WriteString(cmd.OutOrStdout(), versionLine())
			return e
		},
	})
	return root
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if e := commandline.NoArguments(cmd, args); e != nil {
		return badInput(e)
	}
	return nil
}

// takeEnvironment sets the flags that the environment gives.
func takeEnvironment(cmd *cobra.Command, _ []string) error {
	if e := commandline.TakeEnvironment(cmd, nil); e != nil {
		return badInput(e)
	}
	return nil
}

func versionLine() string {
	return fmt.Sprintf("tonnage-operator %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
