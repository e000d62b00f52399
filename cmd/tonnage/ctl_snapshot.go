package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/coordinator/node"
)

func (c *ctl) snapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Save and restore the coordinator's state", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.snapshotSave(), c.snapshotRestore())
	return cmd
}

func (c *ctl) snapshotSave() *cobra.Command {
	return &cobra.Command{
		Use: "save FILE", Short: "Save a snapshot as a tar of meta.json and state",
		Example: "  tonnage ctl snapshot save coordinator.tar",
		Args:    oneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.call(cmd.Context(), 0, func(ctx context.Context, conn grpc.ClientConnInterface) error {
				return saveSnapshot(ctx, conn, args[0])
			})
		},
	}
}

// saveSnapshot writes a file that is whole or not there.
func saveSnapshot(ctx context.Context, conn grpc.ClientConnInterface, name string) error {
	stream, err := bigfleet.NewCoordinatorClient(conn).SnapshotSave(ctx, &bigfleet.SnapshotSaveRequest{})
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetMetaJson() == nil {
		return errors.New("the coordinator sent no meta data before the snapshot")
	}
	part, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return badInput(err)
	}
	defer os.Remove(part.Name())
	defer part.Close()
	read := func() ([]byte, error) {
		chunk, err := stream.Recv()
		return chunk.GetData(), err
	}
	if err := node.WriteSnapshot(part, first.GetMetaJson(), read); err != nil {
		return err
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), name)
}

func (c *ctl) snapshotRestore() *cobra.Command {
	var dir, id, advertise string
	cmd := &cobra.Command{
		Use: "restore FILE|FOLDER", Short: "Make the data folder of a stopped replica anew from a snapshot",
		Long: `Restore needs no coordinator: it replaces --data-dir of a replica that does not run
by what a saved file or an exported folder holds. The replica is then a group of one;
the others join it with empty folders. What came after the snapshot is lost, but for
hand-overs of machines: those that a shard has made are taken up as it reports them.`,
		Example: "  tonnage ctl snapshot restore coordinator.tar --data-dir ./coord-data --node-id coordinator-0 --raft-advertise coordinator-0.coordinator:7791",
		Args:    oneArgument("FILE or FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			replica, err := openDataDir(dir, coordinatorDirMode)
			if err != nil {
				return err
			}
			defer replica.close()
			said, err := node.Restore(args[0], dir, id, advertise, c.tls.Cert != "")
			if err != nil {
				return badInput(err)
			}
			_, err = io.WriteString(c.out, said+"\n")
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", node.DataDirDefault, "data folder of the replica")
	cmd.Flags().StringVar(&id, "node-id", node.IDDefault, "name of the replica, its --id")
	cmd.Flags().StringVar(&advertise, "raft-advertise", "127.0.0.1:7791", "where other replicas will reach it; with --tls-cert it is reached by TLS")
	_ = cmd.MarkFlagDirname("data-dir")
	return cmd
}

// oneArgument asks for exactly one argument, and names it.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return badInput(fmt.Errorf("%s is expected, got %d arguments (see `%s --help`)", what, len(args), cmd.CommandPath()))
		}
		return nil
	}
}
