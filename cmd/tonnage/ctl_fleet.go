package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

const (
	ctlShardDefault   = "127.0.0.1:7780"
	ctlDataDirDefault = "./data"
)

// fleetCommands are those that talk to one shard.
func (c *ctl) fleetCommands() []*cobra.Command {
	return []*cobra.Command{c.needs(), c.machines(), c.retire(), c.pauseState(), c.pause(), c.resume(), c.audit()}
}

// needRow is a need as `ctl needs` prints it.
type needRow struct {
	Cluster   string            `json:"cluster"`
	Priority  int32             `json:"priority"`
	Group     string            `json:"group,omitempty"`
	Satisfied bool              `json:"satisfied"`
	Reason    string            `json:"reason,omitempty"`
	Missing   map[string]string `json:"missing,omitempty"`
	Claimed   int32             `json:"claimed"`
	Domain    string            `json:"domain,omitempty"`
	Unmet     int32             `json:"cyclesUnmet"`
	Parked    int32             `json:"cyclesParked,omitempty"`
	// Candidates are the domains that a need of co-located machines had, best first.
	Candidates []candidateRow `json:"candidates,omitempty"`
}

// candidateRow is how much of a need one domain could hold.
type candidateRow struct {
	Domain   string `json:"domain"`
	PerMille int32  `json:"coveragePerMille"`
	Covers   bool   `json:"satisfiable"`
}

func (c *ctl) needs() *cobra.Command {
	var address, cluster string
	var limit int32
	var unmet bool
	cmd := &cobra.Command{
		Use: "needs", Short: "List what clusters need from a shard, and what became of it",
		Example: "  tonnage ctl needs --cluster cluster-1\n  tonnage ctl needs --shard-addr shard-0:7780 --unmet -o json", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNames(cmd, "cluster"); err != nil {
				return err
			}
			if limit < 0 {
				return badInput(fmt.Errorf("--limit cannot be negative, got %d; 0 = as many as the shard lists", limit))
			}
			rows := []needRow{}
			err := c.inspect(cmd.Context(), address, &bigfleet.InspectNeedsRequest{ClusterId: cluster, Limit: limit}, func(n *bigfleet.NeedView) {
				if !unmet || !n.GetSatisfied() {
					rows = append(rows, rowOfNeed(n))
				}
			})
			if err != nil {
				return err
			}
			return c.print(rows, "CLUSTER PRIORITY GROUP SATISFIED MACHINES DOMAIN BEST_DOMAIN CYCLES_UNMET CYCLES_PARKED REASON", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Cluster, r.Priority, orNone(r.Group), r.Satisfied, r.Claimed, orNone(r.Domain), r.best(), r.Unmet, r.Parked, orNone(r.Reason))
				}
			})
		},
	}
	shardAddrFlag(cmd, &address)
	alsoCalled(cmd, "shard", "shard-addr")
	cmd.Flags().StringVar(&cluster, "cluster", "", clusterUsage+hereMark+"only of this one")
	cmd.Flags().Int32Var(&limit, "limit", 0, limitUsage+hereMark+"0 = as many as the shard lists")
	cmd.Flags().BoolVar(&unmet, "unmet", false, "only those that are not satisfied")
	return cmd
}

// inspect asks a shard for its needs.
func (c *ctl) inspect(ctx context.Context, address string, req *bigfleet.InspectNeedsRequest, visit func(*bigfleet.NeedView)) error {
	material, err := mtls.Load(c.tls, nil)
	if err != nil {
		return badInput(err)
	}
	conn, err := grpc.NewClient(address, material.DialOptionsTo(mtls.ShardServer())...)
	if err != nil {
		return badInput(fmt.Errorf("--shard-addr: %w", err))
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	stream, err := bigfleet.NewShardReadClient(conn).InspectNeeds(ctx, req)
	if err != nil {
		return shardFault(address, err)
	}
	for {
		frame, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return shardFault(address, err)
		}
		if n := frame.GetNeed(); n != nil {
			visit(n)
		}
	}
}

// shardFault says why a shard did not answer at the address of its sessions, and what would.
func shardFault(address string, err error) error {
	s := status.Convert(err)
	says := s.Message()
	if _, inner, ok := strings.Cut(says, "Error while dialing: "); ok {
		says = strings.TrimSuffix(inner, `"`)
	}
	says = terminal.Escape(says)
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Errorf("no shard answers at --shard-addr %s (%s); `tonnage shard` prints where its sessions are, and `tonnage up` has no such port: "+
			"`tonnage fleet needs --all` asks its page (--shard, %s by default)", address, says, topShardDefault)
	case codes.DeadlineExceeded:
		return fmt.Errorf("the shard at --shard-addr %s has not answered in time (%s); --timeout gives it longer", address, says)
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("the shard at --shard-addr %s does not let you ask: %s; --tls-cert and --tls-key name a certificate that it accepts", address, says)
	}
	return fmt.Errorf("the shard at --shard-addr %s answered %s: %s", address, strings.ToLower(s.Code().String()), says)
}

func rowOfNeed(n *bigfleet.NeedView) needRow {
	r := needRow{
		Cluster: n.GetClusterId(), Priority: n.GetNeed().GetPriority(), Group: n.GetNeed().GetGroup(), Satisfied: n.GetSatisfied(),
		Claimed: n.GetClaimedMachineCount(), Domain: n.GetSameDomain(), Unmet: n.GetAgeCyclesUnmet(), Parked: n.GetParkedAgeCycles(),
	}
	for _, d := range n.GetSameCandidates() {
		r.Candidates = append(r.Candidates, candidateRow{d.GetDomain(), d.GetCoveragePerMille(), d.GetSatisfiable()})
	}
	if !r.Satisfied {
		r.Missing = n.GetResidualDeficit().GetResources()
		r.Reason = strings.ToLower(strings.TrimPrefix(n.GetUnmetReason().String(), "UNMET_REASON_"))
	}
	return r
}

// best names the best domain and how much of the need it could hold.
func (r *needRow) best() string {
	if len(r.Candidates) == 0 {
		return noTime
	}
	return fmt.Sprintf("%s (%.1f%%)", r.Candidates[0].Domain, float64(r.Candidates[0].PerMille)/10)
}

// machineRow is a machine as `ctl machines` prints it.
type machineRow struct {
	Machine  string  `json:"machine"`
	State    string  `json:"state"`
	Cluster  string  `json:"cluster,omitempty"`
	Type     string  `json:"instanceType,omitempty"`
	Zone     string  `json:"zone,omitempty"`
	Capacity string  `json:"capacityType,omitempty"`
	Price    float64 `json:"pricePerHour"`
	Held     string  `json:"heldForCluster,omitempty"`
	Error    string  `json:"lastError,omitempty"`
}

func (c *ctl) machines() *cobra.Command {
	f := worldFlags{flag: "shard", page: &c.page}
	var state, cluster string
	cmd := &cobra.Command{
		Use: "machines", Short: "List the machines of a shard",
		Example: "  tonnage ctl machines --state Failed\n  tonnage ctl machines --shard http://127.0.0.1:8080 --cluster train-a", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" {
				if _, ok := model.ParseState(state); !ok {
					return badInput(fmt.Errorf("--state: there is no state %q; one of %s", state, strings.Join(web.States[:], ", ")))
				}
			}
			if err := checkNames(cmd, "cluster"); err != nil {
				return err
			}
			ctx := cmd.Context()
			if cmd.Flags().Changed("timeout") { // a world may take longer than other answers
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
				defer cancel()
			}
			w, err := f.read(ctx, c.streams)
			if err != nil {
				return err
			}
			rows := []machineRow{}
			for i := range w.Machines {
				m := &w.Machines[i]
				if (state == "" || m.State.String() == state) && (cluster == "" || m.Cluster == cluster) {
					rows = append(rows, rowOfMachine(m))
				}
			}
			return c.print(rows, "MACHINE STATE CLUSTER TYPE ZONE CAPACITY $/H HELD_FOR ERROR", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(r.Machine, r.State, orNone(r.Cluster), orNone(r.Type), orNone(r.Zone), orNone(r.Capacity), r.Price, orNone(r.Held), orNone(r.Error))
				}
			})
		},
	}
	shardFlag(cmd, &f.shard, ctlPageDefault)
	alsoCalled(cmd, "page", "shard")
	cmd.Flags().StringVar(&state, "state", "", stateUsage)
	cmd.Flags().StringVar(&cluster, "cluster", "", clusterUsage+hereMark+"only of this one")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(web.States[:], cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func rowOfMachine(m *model.Machine) machineRow {
	return machineRow{
		Machine: m.ID, State: m.State.String(), Cluster: m.Cluster, Type: m.InstanceType, Zone: m.Zone, Capacity: m.CapacityType.String(),
		Price: m.PricePerHour, Held: m.Reservation.Owner.Cluster, Error: m.LastError,
	}
}

func (c *ctl) retire() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use: "retire MACHINE", Short: "Have a shard forget a Failed machine",
		Long: `Retire has a shard forget a machine that failed. If the provider still lists it, it
is taken over again as the provider says. From elsewhere than the shard's own
machine, and wherever the shard has a token, it needs the token or the certificate of
an admin.`,
		Example: "  tonnage ctl retire gpu-17", Args: oneArgument("MACHINE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := pageURL("shard", page)
			if err != nil {
				return err
			}
			u = u.JoinPath(web.RetirePath)
			u.RawQuery = "machine=" + url.QueryEscape(args[0])
			ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
			defer cancel()
			res, err := c.page.do(ctx, http.MethodPost, u)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			switch res.StatusCode {
			case http.StatusOK:
			case http.StatusNotFound, http.StatusMethodNotAllowed:
				return badInput(fmt.Errorf("--shard %s: nobody there retires machines; give the address of the metrics of a `tonnage shard` (`tonnage up` repairs failed machines by itself)", page))
			default:
				return badInput(errors.New(said(res)))
			}
			fmt.Fprintf(c.out, "%s is retired\n", args[0])
			return nil
		},
	}
	shardFlag(cmd, &page, ctlPageDefault)
	alsoCalled(cmd, "page", "shard")
	return cmd
}

func (c *ctl) pauseState() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use: "pause-state", Short: "Say whether a shard carries out what it decides",
		Example: "  tonnage ctl pause-state", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := pageURL("shard", page)
			if err != nil {
				return err
			}
			mode := ""
			ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
			defer cancel()
			err = topWatch(ctx, &c.page, u.JoinPath("/events"), func(e *topEvent) bool {
				mode = cmp.Or(string(e.Frame.Mode), "running")
				return false
			})
			if err != nil {
				return err
			}
			fmt.Fprintln(c.out, terminal.Escape(mode))
			return nil
		},
	}
	shardFlag(cmd, &page, ctlPageDefault)
	alsoCalled(cmd, "page", "shard")
	return cmd
}

func (c *ctl) pause() *cobra.Command {
	return c.switchCommand("pause", "Have a shard decide and carry out nothing", func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, pauseFile), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

func (c *ctl) resume() *cobra.Command {
	return c.switchCommand("resume", "Have a shard carry out again what it decides, also one that has paused itself", func(dir string) error {
		return errors.Join(removeIfThere(filepath.Join(dir, pauseFile)), removeIfThere(filepath.Join(dir, breakerFile)))
	})
}

// switchCommand is a command that puts the switch of pausing.
func (c *ctl) switchCommand(name, short string, put func(dir string) error) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: name, Short: short,
		Long: short + `. The switch is a file in the shard's
data folder, so that nobody who only reaches its ports can turn it; --actuation-paused
holds whatever the file says.`,
		Example: "  tonnage ctl " + name + " --data-dir /var/lib/bigfleet-shard", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return badInput(fmt.Errorf("--data-dir %s: is no folder; give the data folder of the shard", dir))
			}
			if err := put(dir); err != nil {
				return badInput(fmt.Errorf("--data-dir %s: %w", dir, err))
			}
			fmt.Fprintln(c.out, "from the next cycle on")
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", ctlDataDirDefault, dataDirUsage+hereMark+"that of the shard")
	_ = cmd.MarkFlagDirname("data-dir")
	return cmd
}
