package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/demandclient"
	"github.com/tonnage/tonnage/internal/livefleet"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/provider/simulated"
)

const (
	// demandLookGap is how often the file is looked at.
	demandLookGap = 200 * time.Millisecond
	// demandClustersMax is how many clusters one file may speak for.
	demandClustersMax = 256
	// userDataBytesMax bounds what machines start with.
	userDataBytesMax = 64 << 10
	userDataDefault  = "# tonnage demand apply: there is no cluster behind this machine\n"
)

// demandFlags are the flags of demand apply.
type demandFlags struct {
	file     string
	shard    string
	userData string
	once     bool
	timeout  time.Duration
	tls      mtls.Files
}

func newDemand(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demand",
		Short: "Ask a shard for machines without a cluster",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDemandApply(s))
	return cmd
}

func newDemandApply(s streams) *cobra.Command {
	var f demandFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Report the needs of a file to a shard, as operators do",
		Long: `Apply opens a session with a shard for each cluster that the needs of the file name,
as the cluster's operator would, reports them, and goes on until it is stopped: the
shard asks it what machines start with, and tells it what becomes of them. The file is
a world as decide reads it; its machines are left aside. It is read again when it is
edited: the needs that it then has take the place of those before. An edit with faults
changes nothing.

When it ends, the shard keeps the demand that it was told last. With --once it ends when
all of it is acknowledged; the shard cannot start the machines that it binds afterwards until a
session of the cluster gives it their user data. A cluster with an operator must not be asked for here as well:
the newest session of a cluster counts.`,
		Example: `  tonnage demand apply -f needs.yaml
  tonnage demand apply -f needs.yaml --shard-addr shard-0:7780 --once`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return applyDemand(cmd.Context(), s, &f) },
	}
	fileFlag(cmd, &f.file, "the needs")
	flags := cmd.Flags()
	shardAddrFlag(cmd, &f.shard)
	flags.StringVar(&f.userData, "user-data", "", "file with what machines start with; without it they get a comment")
	flags.BoolVar(&f.once, "once", false, onceUsage+hereMark+"when the shard has acknowledged the demand")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, timeoutUsage+hereMark+"with --once")
	tlsFlags(cmd, &f.tls)
	alsoCalled(cmd, "shard", "shard-addr")
	_ = cmd.MarkFlagFilename("user-data")
	return cmd
}

// applying reports a file to a shard.
type applying struct {
	streams
	mu       sync.Mutex
	file     *livefleet.File
	conn     *grpc.ClientConn
	userData []byte
	sessions map[string]*demandclient.Session
	running  sync.WaitGroup
}

func applyDemand(ctx context.Context, s streams, f *demandFlags) error {
	if f.file == "" {
		return badInput(errors.New("no file given; name one with -f FILE, or - for standard input"))
	}
	file, err := livefleet.OpenFile(f.file, s.in)
	if err != nil {
		return badInput(err)
	}
	a := &applying{streams: s, file: file, userData: []byte(userDataDefault), sessions: map[string]*demandclient.Session{}}
	if err := a.check(); err != nil {
		return badInput(err)
	}
	if f.userData != "" {
		if a.userData, err = readAtMost(f.userData, userDataBytesMax); err != nil {
			return badInput(fmt.Errorf("--user-data: %w", err))
		}
	}
	material, err := mtls.Load(f.tls, nil)
	if err != nil {
		return badInput(err)
	}
	if a.conn, err = grpc.NewClient(f.shard, material.DialOptionsTo(mtls.ShardServer())...); err != nil {
		return badInput(fmt.Errorf("--shard-addr: %w", err))
	}
	defer a.conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer a.running.Wait()
	defer cancel()
	if f.once {
		return a.once(ctx, f.timeout)
	}
	a.say(fmt.Sprintf("reporting the needs of %d clusters to %s (stop with Ctrl-C); `%s ctl needs --shard-addr %s` shows what becomes of them", len(file.Clusters()), f.shard, programName(), f.shard))
	a.keep(ctx)
	return nil
}

// readAtMost reads a file that may have so many bytes.
func readAtMost(path string, most int64) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return data, err
}

// say writes a line; sessions do at the same time.
func (a *applying) say(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintln(a.out, line)
}

// check refuses needs that the protocol has no form for.
func (a *applying) check() error {
	w := a.file.World()
	var faults []error
	for i := range w.Needs {
		if _, err := demandclient.Row(&w.Needs[i].Need); err != nil {
			faults = append(faults, fmt.Errorf("need %s: %w", w.Needs[i].Name, err))
		}
	}
	switch n := len(a.file.Clusters()); {
	case n == 0:
		faults = append(faults, errors.New("the file has no needs"))
	case n > demandClustersMax:
		faults = append(faults, fmt.Errorf("the needs are of %d clusters; at most %d are accepted", n, demandClustersMax))
	}
	return errors.Join(faults...)
}

// offer hands the demand that is due to the sessions, and begins those that there are none of.
func (a *applying) offer(ctx context.Context) {
	for _, r := range a.file.Due(clock().UnixNano()) {
		rows := make([]*bigfleet.CapacityNeed, 0, len(r.Needs))
		for i := range r.Needs {
			row, err := demandclient.Row(&r.Needs[i])
			if err != nil {
				a.say(fmt.Sprintf("%s: need %s is left out: %v", r.Cluster, a.file.Name(r.Cluster, &r.Needs[i]), err))
				continue
			}
			rows = append(rows, row)
		}
		s := a.sessions[r.Cluster]
		if s == nil {
			if len(a.sessions) == demandClustersMax {
				a.say(fmt.Sprintf("%s: more than %d clusters; it is left out", r.Cluster, demandClustersMax))
				continue
			}
			s = demandclient.New(demandclient.Config{Cluster: r.Cluster, Conn: a.conn, UserData: a.userData, Say: a.say, Now: clock})
			a.sessions[r.Cluster] = s
			a.running.Go(func() { s.Run(ctx) })
		}
		s.Offer(rows)
	}
}

// keep reports until the context ends.
func (a *applying) keep(ctx context.Context) {
	tick := time.NewTicker(demandLookGap)
	defer tick.Stop()
	for {
		for _, line := range a.file.Move(clock().UnixNano(), noMachines{}) {
			a.say(line)
		}
		a.offer(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once reports until everything is acknowledged.
func (a *applying) once(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a.offer(ctx)
	for cluster, s := range a.sessions {
		select {
		case <-s.Taken():
			a.say(cluster + ": the shard has taken the demand")
		case <-ctx.Done():
			return fmt.Errorf("%s: the shard has not acknowledged the demand within %v; its log says why, if it was reached", cluster, timeout)
		}
	}
	return nil
}

// noMachines is a fleet that a file's machines are nothing to.
type noMachines struct{}

func (noMachines) Add(model.Machine) error               { return nil }
func (noMachines) Lose(...string) int                    { return 0 }
func (noMachines) Change(string, simulated.Change) error { return nil }
