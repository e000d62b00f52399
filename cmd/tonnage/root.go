package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tonnage/tonnage/internal/commandline"
	"github.com/tonnage/tonnage/internal/cpu"
	"github.com/tonnage/tonnage/internal/terminal"
)

// The exit codes of every command.
const (
	exitOK        = 0
	exitInternal  = 1 // nothing that the caller could mend
	exitBadInput  = 2 // a bad file, flag or argument
	exitInvariant = 3 // simulate: something happened that must never happen
)

// exitError is an error that names its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// badInput marks an error as the caller's to mend.
func badInput(err error) error { return &exitError{exitBadInput, err} }

// streams are a command's surroundings, passed in so that tests can run it.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	// terminal tells whether out is one.
	terminal bool
	sink     *yamlSink // below out; nil = there is no YAML
}

func processStreams() streams {
	return streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stdout.Fd()))}
}

// run executes one command line and returns its exit code. Errors go to the
// error stream as they are: for a bad file, one line for each fault. Both streams
// escape control characters, wherever they come from.
func run(ctx context.Context, args []string, s streams) int {
	s.sink = &yamlSink{out: s.out}
	out, err := terminal.NewWriter(s.sink), terminal.NewWriter(s.err)
	defer func() { _, _ = out.Close(), err.Close() }() // at most a torn character is left
	s.out, s.err = out, err
	code := execute(ctx, args, s)
	if failed := errors.Join(out.Close(), s.sink.Close()); failed != nil && code == exitOK {
		fmt.Fprintln(s.err, failed)
		return exitInternal
	}
	return code
}

func execute(ctx context.Context, args []string, s streams) int {
	if w := cpu.Warning(); w != "" {
		fmt.Fprintln(s.err, "tonnage:", w)
	}
	root := newRoot(s)
	root.SetArgs(twoDashes(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(s.err, err)
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return exitInternal
}

// untilDone does what looks at no context: reads standard input, or decides. A signal ends
// the command all the same, since nothing has to be put in order then.
func untilDone(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}

// twoDashes lets the servers' long flags be given with one dash.
func twoDashes(root *cobra.Command, args []string) []string {
	if len(args) == 0 || args[0] != "shard" && args[0] != "coordinator" {
		return args
	}
	cmd, _, err := root.Find(args[:1])
	if err != nil {
		return args
	}
	return commandline.TwoDashes(cmd.Flags(), args)
}

// newRoot returns the whole command tree.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "tonnage",
		Short: "Match the demand of many Kubernetes clusters with one pool of machines",
		Long: `Tonnage compares what many Kubernetes clusters need with one pool of machines,
and decides which machines to bind, buy, preempt, reclaim and give back.

A flag that the command line does not give is taken from the environment: --shard from
TONNAGE_SHARD, --data-dir from TONNAGE_DATA_DIR. Commands that ask what is running take
addresses and certificates from a context after that (tonnage context).`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionLine())
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(fmt.Errorf("%w%s (see `%s --help`)", err, commandline.NearestFlag(cmd, err), cmd.CommandPath()))
	})
	root.AddCommand(commands(s)...)
	group(root)
	fromEnvironment(root)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args, cmd.RunE = noArguments, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Args = noArguments
		}
	}
	return root
}

// commands lists the commands; each has a file of its own.
func commands(s streams) []*cobra.Command {
	return []*cobra.Command{
		newInit(s), newValidate(s), newSchema(s), newDecide(s), newSimulate(s), newWhatIf(s), newExplain(s), newTop(s), newUp(s), newDemand(s),
		newShard(s), newCoordinator(s), newCtl(s), newProvider(s), newBench(s), newVersion(s), newContext(s), newFleet(s), newMCP(s),
	}
}

// group sorts the commands for the help.
func group(root *cobra.Command) {
	for _, g := range []struct{ id, title, commands string }{
		{"world", "Ask about a world, in a file or of a running shard:", "init validate schema decide simulate what-if explain"},
		{"running", "Look at and change what is running:", "top fleet ctl demand context mcp"},
		{"run", "Run:", "up shard coordinator provider"},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for name := range strings.FieldsSeq(g.commands) {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = g.id
				}
			}
		}
	}
}

// newHelp is cobra's help, but for a command that does not exist, which is an
// error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", Example: "  tonnage help what-if",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return badInput(err)
			}
			if err := noArguments(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := commandline.NoArguments(cmd, args); err != nil {
		return badInput(err)
	}
	return nil
}

// fileFlag adds -f to a command.
func fileFlag(cmd *cobra.Command, path *string, what string) {
	cmd.Flags().StringVarP(path, "file", "f", "", fileUsage+hereMark+what)
	_ = cmd.MarkFlagFilename("file", "json", "yaml", "yml")
}

// openFile opens what -f names.
func openFile(s streams, path string) (io.ReadCloser, error) {
	switch path {
	case "":
		return nil, badInput(errors.New("no file given; name one with -f FILE, or - for standard input"))
	case "-":
		return io.NopCloser(s.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, badInput(fmt.Errorf("cannot open the file: %w", err))
	}
	return f, nil
}

// The output formats.
const (
	formatJSON  = "json"
	formatTable = "table"
)

// outputFlag adds -o to a command.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", outputUsage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML, formatTable}, cobra.ShellCompDirectiveNoFileComp))
}

// formatOf settles the output format.
func formatOf(s streams, format string) (string, error) {
	switch {
	case format == formatJSON || format == formatTable:
		return format, nil
	case format == formatYAML && s.sink != nil:
		s.sink.switchOn()
		return formatJSON, nil // which comes out as YAML
	case format != "":
		return "", badInput(fmt.Errorf("unknown output format %q; use -o json, -o yaml or -o table", format))
	case s.terminal:
		return formatTable, nil
	}
	return formatJSON, nil
}
