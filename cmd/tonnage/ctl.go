package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/terminal"
)

// The defaults of ctl's flags.
const (
	ctlCoordinatorDefault = "127.0.0.1:7790"
	ctlTimeoutDefault     = 10 * time.Second
)

// noTime stands in tables where there is no time.
const noTime = "—"

// ctl is what all its commands share.
type ctl struct {
	streams
	coordinator string
	timeout     time.Duration
	output      string
	tls         mtls.Files
	page        pageClient // for the commands that ask a shard's page
}

// newCtl returns the root of the commands that talk to what is running.
func newCtl(s streams) *cobra.Command {
	c := &ctl{streams: s}
	c.page.tls = &c.tls
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Look at and change what is running",
		Long: `Ctl talks to the coordinator (--coordinator): any of its replicas, they name the
leader. With TLS, the certificate must be that of an admin; lists also take one that
may only read.`,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.check() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&c.coordinator, "coordinator", ctlCoordinatorDefault, coordinatorUsage)
	flags.DurationVar(&c.timeout, "timeout", ctlTimeoutDefault, timeoutUsage)
	flags.StringVarP(&c.output, "output", "o", "", outputUsage)
	tlsFlagsIn(flags, &c.tls)
	c.page.registerToken(cmd, true)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML, formatTable}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(
		c.listShards(), c.listDomains(), c.assignDomain(), c.unassignDomain(), c.removeShard(),
		c.shortfalls(), c.rebalance(), c.members(), c.removeMember(), c.snapshot(),
	)
	cmd.AddCommand(c.fleetCommands()...)
	return cmd
}

// check refuses what no command can do, before anybody is asked anything.
func (c *ctl) check() error {
	var faults []error
	if c.timeout <= 0 {
		faults = append(faults, fmt.Errorf("--timeout must be positive, got %v; give one such as %v", c.timeout, ctlTimeoutDefault))
	}
	if _, err := formatOf(c.streams, c.output); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return badInput(errors.Join(faults...))
	}
	return nil
}

// call makes one call on the leader, within --timeout.
func (c *ctl) call(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.callUntil(ctx, do)
}

// callUntil makes one call on the leader, for as long as ctx lasts.
func (c *ctl) callUntil(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error {
	material, err := mtls.Load(c.tls, nil)
	if err != nil {
		return badInput(err)
	}
	replicas, err := client.New(c.coordinator, material.DialOptionsTo(mtls.CoordinatorServer())...)
	if err != nil {
		return badInput(fmt.Errorf("--coordinator: %w", err))
	}
	defer replicas.Close()
	err = replicas.Call(ctx, do)
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(strings.ToLower(s.Code().String()) + ": " + terminal.Escape(s.Message()))
	}
	return err
}

// removal makes a call that removes something. NotFound ends it well after a try
// that reached a replica and was not answered: that one has removed it. After one
// that reached nobody it is an error, as at the first try.
func (c *ctl) removal(ctx context.Context, do func(context.Context, grpc.ClientConnInterface, ...grpc.CallOption) error) error {
	unanswered := false
	return c.call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		var reached peer.Peer
		err := do(ctx, conn, grpc.Peer(&reached))
		if unanswered && status.Code(err) == codes.NotFound {
			return nil
		}
		unanswered = unanswered || status.Code(err) == codes.Unavailable && reached.Addr != nil
		return err
	})
}

// print writes rows as a table, or value as JSON. The head names the columns, with
// spaces between.
func (c *ctl) print(value any, head string, rows func(*terminal.Table)) error {
	return printRows(c.streams, c.output, value, head, rows)
}

// stamp writes a time of the wire.
func stamp(nanos int64) string {
	if nanos == 0 {
		return noTime
	}
	return time.Unix(0, nanos).UTC().Format(time.RFC3339)
}

// orNone writes a text that may be empty.
func orNone(text string) string {
	if text == "" {
		return noTime
	}
	return text
}

// checkNames refuses values of flags that no name can be; "" is for others to judge.
// A command that removes something does not ask: what an earlier version let in must
// go out.
func checkNames(cmd *cobra.Command, flags ...string) error {
	var faults []error
	for _, name := range flags {
		if err := model.CheckOptionalName(cmd.Flags().Lookup(name).Value.String()); err != nil {
			faults = append(faults, fmt.Errorf("--%s %w", name, err))
		}
	}
	if len(faults) > 0 {
		return badInput(errors.Join(faults...))
	}
	return nil
}

// required has a command refuse to run without some flags.
func required(cmd *cobra.Command, names ...string) *cobra.Command {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name) // completion offers them first
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		var faults []error
		for _, name := range names {
			if flag := cmd.Flags().Lookup(name); flag.Value.String() == "" {
				faults = append(faults, fmt.Errorf("--%s is missing (see `%s --help`)", name, cmd.CommandPath()))
			}
		}
		if len(faults) > 0 {
			return badInput(errors.Join(faults...))
		}
		return nil
	}
	return cmd
}
