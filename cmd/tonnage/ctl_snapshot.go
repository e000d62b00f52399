package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

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
		Long: `Save writes what the coordinator knows into a file, which is whole or not there. The
coordinator must answer within --timeout; what it then sends may take as long as it
takes, unless --timeout is given.`,
		Example: "  tonnage ctl snapshot save coordinator.tar",
		Args:    oneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.saveSnapshot(cmd.Context(), args[0], cmd.Flags().Changed("timeout"))
		},
	}
}

// saveSnapshot writes a file that is whole or not there. Unless all of it is
// bounded by --timeout, its beginning is.
func (c *ctl) saveSnapshot(ctx context.Context, name string, bounded bool) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return badInput(fmt.Errorf("%s is a folder; name a file", name))
	}
	part, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return badInput(fmt.Errorf("%s cannot be written: %w; name a file in a folder that can be", name, err))
	}
	defer os.Remove(part.Name())
	defer part.Close()
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(c.timeout, cancel)
	defer late.Stop()
	err = c.callUntil(calling, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		stream, err := bigfleet.NewCoordinatorClient(conn).SnapshotSave(ctx, &bigfleet.SnapshotSaveRequest{})
		if err != nil {
			return err
		}
		if head, err := stream.Header(); head == nil || err != nil {
			_, err := stream.Recv() // says why
			return err
		}
		if !bounded {
			late.Stop()
		}
		if err := receiveSnapshot(stream, part); err != nil {
			// It has begun, and is not begun anew elsewhere.
			return errors.New(status.Convert(err).Message())
		}
		return nil
	})
	switch {
	case err != nil && calling.Err() != nil && ctx.Err() == nil && bounded:
		return fmt.Errorf("there was no snapshot within --timeout %v: %w", c.timeout, err)
	case err != nil && calling.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("the coordinator did not answer within %v: %w", c.timeout, err)
	case err != nil:
		return err
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), name)
}

// receiveSnapshot writes a snapshot to a file.
func receiveSnapshot(stream grpc.ServerStreamingClient[bigfleet.SnapshotSaveChunk], part *os.File) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetMetaJson() == nil {
		return errors.New("the coordinator sent no meta data before the snapshot")
	}
	return node.WriteSnapshot(part, first.GetMetaJson(), func() ([]byte, error) {
		chunk, err := stream.Recv()
		return chunk.GetData(), err
	})
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
			if _, err := os.Stat(filepath.Join(dir, lockFile)); err == nil { // else no replica has run there
				replica, err := openDataDir(dir)
				if err != nil {
					return err
				}
				defer replica.close()
			}
			said, err := node.Restore(args[0], dir, id, advertise, c.tls.Cert != "")
			if err != nil {
				return badInput(err)
			}
			_, err = io.WriteString(c.out, said+"\n")
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", node.DataDirDefault, dataDirUsage+hereMark+"that of the replica")
	cmd.Flags().StringVar(&id, "node-id", node.IDDefault, "name of the replica, its --id")
	cmd.Flags().StringVar(&advertise, "raft-advertise", "127.0.0.1:7791", raftAdvertiseUsage+hereMark+"with --tls-cert by TLS")
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
