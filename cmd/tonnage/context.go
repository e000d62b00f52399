package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/contexts"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/terminal"
)

// contextFlag names the context of a command that asks what is running.
const contextFlag = "context"

func newContext(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Keep addresses and certificates of fleets under names",
		Long: `A context is a set of addresses, with the certificates and the token that are to be shown
there and the format of answers. Commands that ask what is running take it from --context,
else from TONNAGE_CONTEXT, else the current one. A flag or a variable of the environment
counts more than a context. Certificates and tokens of a context are shown to no address
that a flag or a variable gives.

Contexts are kept in a file that TONNAGE_CONTEXTS names, else in tonnage/config.yaml in the
user's folder of configurations. Names of files in it are found from its folder.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(contextList(s), contextUse(s), contextSet(s), contextDelete(s))
	return cmd
}

// loadContexts reads the file of contexts.
func loadContexts() (*contexts.Config, error) {
	path, err := contexts.Path()
	if err != nil {
		return nil, badInput(err)
	}
	c, err := contexts.Load(path)
	if err != nil {
		return nil, badInput(err)
	}
	return c, nil
}

// changeContexts reads the file, changes it and writes it.
func changeContexts(change func(*contexts.Config) error) error {
	c, err := loadContexts()
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return badInput(err)
	}
	return c.Save()
}

// contextNames completes the name of a context.
func contextNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.Names(), cobra.ShellCompDirectiveNoFileComp
}

// contextRow is a context as it is listed.
type contextRow struct {
	Name    string           `json:"name"`
	Current bool             `json:"current"`
	Values  contexts.Context `json:"values"`
}

func contextList(s streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts", Example: "  tonnage context list", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			c, err := loadContexts()
			if err != nil {
				return err
			}
			rows := []contextRow{}
			for _, name := range c.Names() {
				rows = append(rows, contextRow{name, name == c.Current, c.Contexts[name]})
			}
			return printRows(s, output, rows, "CURRENT NAME SHARD SHARD_ADDR COORDINATOR", func(t *terminal.Table) {
				for _, r := range rows {
					mark := ""
					if r.Current {
						mark = "*"
					}
					t.Row(mark, r.Name, orNone(r.Values["shard"]), orNone(r.Values["shard-addr"]), orNone(r.Values["coordinator"]))
				}
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func contextUse(s streams) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Example: "  tonnage context use lab", Args: oneArgument("NAME"),
		ValidArgsFunction: contextNames,
		RunE: func(_ *cobra.Command, args []string) error {
			err := changeContexts(func(c *contexts.Config) error { return c.Use(args[0]) })
			if err == nil {
				fmt.Fprintf(s.out, "%s is the current context\n", args[0])
			}
			return err
		},
	}
}

func contextDelete(s streams) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Remove a context", Example: "  tonnage context delete lab", Args: oneArgument("NAME"),
		ValidArgsFunction: contextNames,
		RunE: func(_ *cobra.Command, args []string) error {
			err := changeContexts(func(c *contexts.Config) error { return c.Delete(args[0]) })
			if err == nil {
				fmt.Fprintf(s.out, "%s is removed\n", args[0])
			}
			return err
		},
	}
}

func contextSet(s streams) *cobra.Command {
	var shard, sessions, coordinator, output, token string
	var tls mtls.Files
	cmd := &cobra.Command{
		Use: "set NAME [flags]", Short: "Make a context, or change what it says",
		Long: `Set makes a context of the flags that are given, or changes these in one that is there. A
flag with an empty value is removed from it. The first context becomes the current one. The
environment gives nothing here.`,
		Example: `  tonnage context set lab --shard 127.0.0.1:8080
  tonnage context set production --shard https://shard-0.example.com:8781 --tls-cert me.pem --tls-key me.key --tls-ca ca.pem
  tonnage context set production --output json`,
		Args: oneArgument("NAME"), ValidArgsFunction: contextNames,
	}
	flags := cmd.Flags()
	shardFlag(cmd, &shard, "")
	flags.StringVar(&sessions, "shard-addr", "", shardAddrUsage)
	flags.StringVar(&coordinator, "coordinator", "", coordinatorUsage)
	flags.StringVar(&token, "token-file", "", tokenUsage)
	tlsFlags(cmd, &tls)
	outputFlag(cmd, &output)
	for _, setting := range contexts.Settings {
		_ = flags.SetAnnotation(setting.Flag, annotationHereOnly, []string{"true"})
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		values := contexts.Context{}
		for _, setting := range contexts.Settings {
			if flag := cmd.Flags().Lookup(setting.Flag); flag.Changed {
				values[setting.Flag] = flag.Value.String()
			}
		}
		if err := checkContext(values); err != nil {
			return err
		}
		err := changeContexts(func(c *contexts.Config) error { return c.Set(args[0], values) })
		if err == nil {
			fmt.Fprintf(s.out, "%s is kept\n", args[0])
		}
		return err
	}
	return cmd
}

// checkContext refuses what the commands would refuse.
func checkContext(values contexts.Context) error {
	if address := values["shard"]; address != "" {
		if _, err := pageURL("shard", address); err != nil {
			return err
		}
	}
	switch output := values["output"]; output {
	case "", formatJSON, formatYAML, formatTable:
		return nil
	default:
		return badInput(fmt.Errorf("unknown output format %q; use -o json, -o yaml or -o table", output))
	}
}

// printRows writes rows as a table, or a value as JSON. The head names the columns, with spaces between.
func printRows(s streams, output string, value any, head string, rows func(*terminal.Table)) error {
	format, err := formatOf(s, output)
	if err != nil {
		return err
	}
	if format == formatJSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(value)
	}
	t := terminal.NewTable(strings.Fields(head)...)
	rows(t)
	return t.Write(s.out)
}
