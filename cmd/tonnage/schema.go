package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/internal/world/reference"
	"github.com/tonnage/tonnage/web"
)

const formatMarkdown = "markdown"

func newSchema(s streams) *cobra.Command {
	var format string
	kinds := append(world.Kinds(), "openapi", "all")
	cmd := &cobra.Command{
		Use:   "schema [" + strings.Join(kinds, "|") + "]",
		Short: "Write the format of files as JSON Schema",
		Long: `Schema writes what a kind of file may hold: as JSON Schema, which editors use to
complete and check, or as tables in Markdown (all kinds on one page). Both come from
the tables by which files are read. Of the kind openapi it writes the HTTP API of a running
shard as OpenAPI 3.1.`,
		Example: `  tonnage schema > world.schema.json
  tonnage schema run
  tonnage schema all -o markdown`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return noArguments(cmd, args[1:])
			}
			return nil
		},
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			kind := "world"
			if len(args) > 0 {
				kind = args[0]
			}
			return schema(s.out, kind, format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatJSON, outputUsage+hereMark+"only json and, for all, markdown")
	_ = cmd.Flags().SetAnnotation("output", annotationHereOnly, []string{"true"})
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatMarkdown}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func schema(out io.Writer, kind, format string) error {
	switch {
	case format == formatMarkdown && kind == "all":
		return reference.WritePage(out)
	case format == formatMarkdown:
		return badInput(errors.New("-o markdown is one page of all kinds: tonnage schema all -o markdown"))
	case kind == "openapi" && format == formatJSON:
		_, err := out.Write(web.OpenAPI())
		return err
	case format != formatJSON:
		return badInput(fmt.Errorf("unknown output format %q; use -o json or -o markdown", format))
	case !slices.Contains(world.Kinds(), kind):
		return badInput(fmt.Errorf("no JSON Schema is named %q; use one of %s", kind, strings.Join(world.Kinds(), ", ")))
	}
	return reference.WriteSchema(out, kind)
}

func newValidate(s streams) *cobra.Command {
	var file, output string
	var run bool
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a file and say all that is worth saying of it",
		Long: `Validate reads a world, or with --run a run, and says its faults, warnings and notes, a
line each: file:line:column: path: what is wrong, and what would be right. Nothing is
decided. The exit code is 2 when the file has faults, 0 otherwise. With -o json or yaml the
same is written as one object, for programs.`,
		Example: `  tonnage validate -f world.yaml
  tonnage validate -f world.yaml -o json
  tonnage validate --run -f run.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return untilDone(cmd.Context(), func() error { return validate(s, file, output, run) })
		},
	}
	fileFlag(cmd, &file, "the file")
	cmd.Flags().StringVarP(&output, "output", "o", formatTable, outputUsage+hereMark+"table = a line each")
	cmd.Flags().BoolVar(&run, "run", false, "the file is a run, as simulate reads it")
	return cmd
}

// validation is what validate says, for programs.
type validation struct {
	File     string       `json:"file"`
	Valid    bool         `json:"valid"`
	Faults   []fileRemark `json:"faults"`
	Warnings []fileRemark `json:"warnings"`
	Notes    []fileRemark `json:"notes"`
	More     int          `json:"more"` // faults, or warnings and notes, that are not listed
}

// fileRemark is one thing that is worth saying of a file.
type fileRemark struct {
	Line   int    `json:"line"` // from 1; 0 = not known
	Column int    `json:"column"`
	Path   string `json:"path"`
	Says   string `json:"says"`
}

func remarkOf(f *document.Fault) fileRemark { return fileRemark{f.Line, f.Column, f.Path, f.Msg} }

// writeValidation writes what there is to say of a file: what is wrong with it, or what is worth saying of the world in it.
func writeValidation(s streams, file string, w *world.World, fault error) error {
	v := validation{File: nameOf(file), Valid: fault == nil, Faults: []fileRemark{}, Warnings: []fileRemark{}, Notes: []fileRemark{}}
	if faults, ok := errors.AsType[*world.Faults](fault); ok {
		for i := range faults.List {
			v.Faults = append(v.Faults, remarkOf(&faults.List[i]))
		}
		v.More = faults.More
	}
	if w != nil {
		for i := range w.Hints {
			if h := &w.Hints[i]; h.Note {
				v.Notes = append(v.Notes, remarkOf(&h.Fault))
			} else {
				v.Warnings = append(v.Warnings, remarkOf(&h.Fault))
			}
		}
		v.More = w.HintsMore
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	if fault != nil {
		return faultsIn(fault, file)
	}
	return nil
}

func validate(s streams, file, output string, run bool) error {
	format, err := formatOf(s, output)
	if err != nil {
		return err
	}
	in, err := openFile(s, file)
	if err != nil {
		return err
	}
	defer in.Close()
	if format == formatJSON {
		if run {
			_, err := world.ReadRun(in)
			return writeValidation(s, file, nil, err)
		}
		w, err := world.Read(in)
		return writeValidation(s, file, w, err)
	}
	if run {
		scenario, err := world.ReadRun(in)
		if err != nil {
			return faultsIn(err, file)
		}
		fmt.Fprintf(s.out, "%s: a run of %d cycles with %d machines\n", nameOf(file), scenario.Cycles, len(scenario.Machines))
		return nil
	}
	w, err := world.Read(in)
	if err != nil {
		return faultsIn(err, file)
	}
	for i := range w.Hints {
		fmt.Fprintln(s.out, hintLine(&w.Hints[i], file))
	}
	if w.HintsMore > 0 {
		fmt.Fprintf(s.out, "%s: ... and %d more\n", nameOf(file), w.HintsMore)
	}
	fmt.Fprintf(s.out, "%s: a world with %d machines and %d needs, without faults\n", nameOf(file), len(w.Machines), len(w.Needs))
	return nil
}

// initWorld is the world that init writes.
//
//go:embed init.yaml
var initWorld string

func newInit(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a world with comments, to begin with",
		Long: `Init writes a small world in which every line has a comment, to a new file or to
standard output. A file that exists is left alone.`,
		Example: `  tonnage init world.yaml
  tonnage init | tonnage decide -f -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return noArguments(cmd, args[1:])
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-" {
				_, err := io.WriteString(s.out, initWorld)
				return err
			}
			return writeInit(s.out, args[0])
		},
	}
	return cmd
}

// writeInit writes the world to a file that does not exist yet.
func writeInit(out io.Writer, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, os.ErrExist):
		return badInput(fmt.Errorf("%s exists already; give another name", path))
	case err != nil:
		return badInput(err)
	}
	_, err = f.WriteString(initWorld)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	p := programName()
	fmt.Fprintf(out, "%s is written. Try:\n  %s decide -f %s\n  %s explain need -f %s training\n  %s up -f %s\n", path, p, path, p, path, p, path)
	return nil
}
