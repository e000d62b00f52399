// Command tonnage-provider keeps records of real machines and has drivers make, bind, drain
// and delete them, as shards ask over the provider protocol. It is a binary of its own, so that shards
// need nothing of what drivers link.
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

// errInput marks what the caller has to mend.
var errInput = errors.New("bad input")

func badInput(err error) error { return fmt.Errorf("%w: %w", errInput, err) }

// streams are a command's surroundings, passed in so that tests can run it.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// run executes one command line and returns its exit code. Control characters in
// errors and in the log are escaped.
func run(ctx context.Context, args []string, s streams) int {
	safe := terminal.NewWriter(s.err)
	defer safe.Close()
	s.err = safe
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInput):
		fmt.Fprintln(s.err, err)
		return exitBadInput
	}
	fmt.Fprintln(s.err, err)
	return exitInternal
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "tonnage-provider",
		Short: "Real machines behind the provider protocol",
		Long: `Tonnage-provider offers what a file of pools says, keeps a durable record of each
machine, and has drivers make, bind, drain and delete the machines as shards ask.

A flag that the command line does not give is taken from the environment: --pools from
TONNAGE_POOLS.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(fmt.Sprintf("tonnage-provider %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(fmt.Errorf("%w%s (see `%s --help`)", err, commandline.NearestFlag(cmd, err), cmd.CommandPath()))
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := commandline.TakeEnvironment(cmd, nil); err != nil {
			return badInput(err)
		}
		return nil
	}
	root.AddCommand(newServe(s), newPools(s), newOffers(s), newOrphans(s))
	return root
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := commandline.NoArguments(cmd, args); err != nil {
		return badInput(err)
	}
	return nil
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
