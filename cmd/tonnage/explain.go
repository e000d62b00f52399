package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/internal/world/document"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	source worldFlags
	output string
	help   bool // what would help
	// verbose adds what the engine counted.
	verbose bool
}

func newExplain(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain (need|machine) NAME...",
		Short: "Say why a need or a machine is as it is",
		Long: `Explain decides about a world and says why: whether a need is satisfied and what
stands against it, which machines are left at which step, whose they are, and what each
domain could give it; who claims a machine, what is to be done with it, and what one that
can be bought costs whom when interruptions are counted in. --verbose adds what the engine
counted.

The world is a file as decide reads it, or that of a running shard (--shard, the
address of its page or metrics). Needs of a running shard are named by cluster
and row of the roll-up, from 0: web-prod/0. Of a running shard explain also
says what its last cycle held back and why, and what keeps it from carrying
anything out.

With --help-me it computes what would satisfy a need that is short: the least extra
machines of a type that exists, the lowest priority and who would pay for it, the
requirement without which it would be satisfied. Each is a decision that was really
made.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newExplainOf(s, "need NAME...", "Say why needs are satisfied or not", `  tonnage explain need -f world.yaml web
  tonnage explain need -f world.yaml --help-me web
  tonnage explain need --shard http://127.0.0.1:8080 hopper`,
			func(names map[string]bool) *world.Subjects { return &world.Subjects{Needs: names} }),
		newExplainOf(s, "machine ID...", "Say what is done with machines, and why", `  tonnage explain machine -f world.yaml m-1 m-2
  tonnage explain machine --shard http://127.0.0.1:8080 gpu-v100-r3-01 -o json`,
			func(names map[string]bool) *world.Subjects { return &world.Subjects{Machines: names} }),
	)
	return cmd
}

func newExplainOf(s streams, use, short, example string, subjects func(map[string]bool) *world.Subjects) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badInput(fmt.Errorf("name at least one (see `%s --help`)", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			names := make(map[string]bool, len(args))
			for _, name := range args {
				names[name] = true
			}
			return untilDone(cmd.Context(), func() error { return explain(cmd.Context(), s, &f, subjects(names)) })
		},
	}
	f.source.add(cmd)
	outputFlag(cmd, &f.output)
	if strings.HasPrefix(use, "need") {
		cmd.Flags().BoolVar(&f.verbose, "verbose", false, "also say what the engine counted: each machine by what it is to the need, each domain by how it was weighed")
		cmd.Flags().BoolVar(&f.help, "help-me", false, "compute what would satisfy the needs: more machines, a higher priority, a requirement less")
	}
	return cmd
}

func explain(ctx context.Context, s streams, f *explainFlags, of *world.Subjects) error {
	format, err := formatOf(s, f.output)
	if err != nil {
		return err
	}
	w, err := f.source.read(ctx, s)
	if err != nil {
		return err
	}
	decided := f.source.deciding(s, w)
	answer, err := w.Explain(of)
	decided()
	if err != nil {
		return badInput(err)
	}
	if f.help {
		return explainAndHelp(ctx, s, w, answer, format, f)
	}
	if format == formatTable {
		if err := answer.WriteExplanation(s.out, w, f.verbose); err != nil || f.verbose {
			return err
		}
		return hintHelp(s, answer, f)
	}
	return answer.WriteExplanationJSON(s.out)
}

const (
	// worldPath is where a running shard serves its world.
	worldPath = "/api/world"
	// worldTimeout bounds how long a running shard may take to send it.
	worldTimeout = 10 * time.Minute
	// worldBytesMax bounds what is read of it: a byte more than a world may have.
	worldBytesMax = document.JSONBytesMax + 1
)

// worldFlags say where a world comes from.
type worldFlags struct {
	file  string
	shard string
	flag  string // that gives shard
	page  *pageClient
}

func (f *worldFlags) add(cmd *cobra.Command) {
	f.flag = "shard"
	fileFlag(cmd, &f.file, "the world")
	shardFlag(cmd, &f.shard, "")
	f.page = &pageClient{}
	f.page.register(cmd)
}

// flags returns the flags that name the same world on a command line.
func (f *worldFlags) flags() string {
	if f.shard != "" {
		return "--" + f.flag + " " + f.shard
	}
	return "-f " + f.file
}

// read reads the world from the file or the running shard.
func (f *worldFlags) read(ctx context.Context, s streams) (*world.World, error) {
	if f.shard != "" && f.file != "" {
		return nil, badInput(errors.New("give one of -f and --shard, not both"))
	}
	ctx, cancel := context.WithTimeout(ctx, worldTimeout)
	defer cancel()
	progress := f.progressOn(s)
	defer progress.clear()
	progress.show("waiting for the world of " + f.shard)
	in, err := f.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w, err := world.Read(&countedReader{in: in, progress: progress})
	switch {
	case err != nil && f.shard != "":
		return nil, f.noWorld(err)
	case err != nil:
		return nil, faultsIn(err, f.file)
	}
	if f.file != "" {
		warnOf(s, f.file, w)
	}
	return w, nil
}

// noWorld says of an answer what Read says of a file.
func (f *worldFlags) noWorld(err error) error {
	why := err.Error()
	if faults, ok := errors.AsType[*world.Faults](err); ok {
		first := &faults.List[0]
		if why = first.Error(); first.Path == "$" {
			why = strings.Replace(first.Msg, "the file", "it", 1)
		}
	}
	return badInput(fmt.Errorf("--%s %s: what the shard sent is no world: %s; is this the address of its page?", f.flag, f.shard, why))
}

func (f *worldFlags) open(ctx context.Context, s streams) (io.ReadCloser, error) {
	if f.shard != "" {
		return f.fetch(ctx)
	}
	if f.file == "" {
		return nil, badInput(fmt.Errorf("no world given; give --%s URL (the page of a running shard) or -f FILE, or -f - for standard input", f.flag))
	}
	return openFile(s, f.file)
}

// fetch asks a running shard for its world.
func (f *worldFlags) fetch(ctx context.Context) (io.ReadCloser, error) {
	u, err := pageURL(f.flag, f.shard)
	if err != nil {
		return nil, err
	}
	res, err := f.page.do(ctx, http.MethodGet, u.JoinPath(worldPath))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, refusal(u, res)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, worldBytesMax), res.Body}, nil
}
