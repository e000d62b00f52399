package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/provider/check"
)

const (
	checkTimeoutDefault = 10 * time.Minute // of one check
	checkWaitEvery      = 10 * time.Second // between lines that say what is waited for
	checkBootstrapMax   = 4 << 20          // bytes of --bootstrap-file
	formatJUnit         = "junit"
)

// providerCheck are the flags of provider check, as given.
type providerCheck struct {
	streams
	addr     string
	tls      mtls.Files
	identity string
	shard    string
	epoch    int64

	machines    []string
	filters     []string
	machinesMax int
	deleteIdle  bool
	cluster     string
	bootstrap   string
	yes, dryRun bool

	timeout time.Duration
	within  time.Duration
	only    []string
	skip    []string
	list    bool
	output  string

	restart, vanish, fail string
	// said is how often it is said which machine is waited for.
	said time.Duration
}

func newProviderCheck(s streams) *cobra.Command {
	cmd, _ := providerCheckCommand(s)
	return cmd
}

func providerCheckCommand(s streams) (*cobra.Command, *providerCheck) {
	c := &providerCheck{streams: s, said: checkWaitEvery}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Try whether a provider keeps the protocol",
		Long: `Check tries a provider with the protocol's calls alone, and says which of its promises
it keeps. --list prints all checks and the sentence that each of them checks.

Checks buy, bind, drain and delete machines. They use at most --max-machines, Speculative
and Idle ones, and bring each back into the state in which it was found. A machine that
was found Idle is deleted and created again if it is an owned host (label
tonnage.dev/host), or with --delete-idle; otherwise it is not deleted. --dry-run says which
machines these would be, and --yes lets them be used. With --max-machines 0 no machine is
changed.

A row is printed when its check ends. While a machine is waited for, a line on standard
error says so every 10 seconds.

No shard should use the machines meanwhile. The calls are those of a shard of their own;
with TLS, --shard-id must be the one that the certificate names. Do not name a shard that is
running: its calls for these machines would be fenced.

Restarts, machines that vanish and changes that fail are checked where a command is given
that makes them. It is run by sh, with the machine's id in $TONNAGE_MACHINE. What vanished
or failed cannot be brought back.

The exit code is 0 when no check failed, and 1 when one did or a machine is not as it was
found.`,
		Example: `  tonnage provider check --list
  tonnage provider check --addr 127.0.0.1:7800 --dry-run
  tonnage provider check --addr 127.0.0.1:7800 --yes
  tonnage provider check --addr 127.0.0.1:7800 --yes --only 'fence.*' --filter zone=a -o junit
  tonnage provider check --addr 127.0.0.1:7800 --yes --restart-command 'systemctl restart provider'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.register(cmd)
	return cmd, c
}

func (c *providerCheck) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.addr, "addr", "", "address of the provider, HOST:PORT")
	tlsFlags(cmd, &c.tls)
	flags.StringVar(&c.identity, "provider-identity", "", providerIdentityUsage+hereMark+"empty = the certificate must be for the host of --addr")
	flags.StringVar(&c.shard, "shard-id", check.ShardDefault, shardIDUsage+hereMark+"that calls are made for")
	flags.Int64Var(&c.epoch, "epoch", 0, "epoch of the first call; 0 = the time in microseconds, which is newer than any of earlier runs")
	flags.StringSliceVar(&c.machines, "machines", nil, "ids of machines that may be used, with commas between (default: any that is Speculative or Idle)")
	flags.StringArrayVar(&c.filters, "filter", nil, "use only machines with this: instance-type=, zone=, capacity-type= or label:KEY=, then the value; may be given again")
	flags.IntVar(&c.machinesMax, "max-machines", check.MachinesDefault, "how many machines are used at most; 0 = none")
	flags.BoolVar(&c.deleteIdle, "delete-idle", false, "delete and create again also machines that were found Idle and are no owned hosts; give it only where Create brings them back")
	flags.StringVar(&c.cluster, "cluster", check.ClusterDefault, clusterUsage+hereMark+"that machines are bound to")
	flags.StringVar(&c.bootstrap, "bootstrap-file", "", "bootstrap data to configure machines with, for providers whose machines must start; checks of odd data are skipped then")
	flags.BoolVar(&c.yes, "yes", false, "use the machines: buy, bind, drain and delete them")
	flags.BoolVar(&c.dryRun, "dry-run", false, dryRunUsage+hereMark+"the machines that would be used, and the checks that would run")
	flags.DurationVar(&c.timeout, "timeout", checkTimeoutDefault, timeoutUsage+hereMark+"one check, with all changes of machines that it needs; as long for each machine that is brought back")
	flags.DurationVar(&c.within, "answer-within", check.AnswerWithinDefault, "how long the answer to a call may take")
	flags.StringSliceVar(&c.only, "only", nil, "run only these checks: ids or patterns such as 'fence.*', with commas between")
	flags.StringSliceVar(&c.skip, "skip", nil, "do not run these checks: ids or patterns, with commas between")
	flags.BoolVar(&c.list, "list", false, listUsage+hereMark+"all checks, and what they check")
	flags.StringVarP(&c.output, "output", "o", "", outputUsage+hereMark+"also junit")
	flags.StringVar(&c.restart, "restart-command", "", "command that restarts the provider")
	flags.StringVar(&c.vanish, "vanish-command", "", "command that makes the Configured machine $TONNAGE_MACHINE vanish; exit code 77 = it cannot")
	flags.StringVar(&c.fail, "fail-command", "", "command that lets the next Configure of the Idle machine $TONNAGE_MACHINE fail; exit code 77 = it cannot")
	alsoCalled(cmd, "shard", "shard-id")
	_ = cmd.MarkFlagFilename("bootstrap-file")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML, formatTable, formatJUnit}, cobra.ShellCompDirectiveNoFileComp))
	var ids []string
	for _, x := range check.Checks() {
		ids = append(ids, x.ID+"\t"+x.Promise)
	}
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(ids, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("skip", cobra.FixedCompletions(ids, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("filter", cobra.FixedCompletions([]string{"instance-type=", "zone=", "capacity-type=", "label:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// checkPlan is what is to be done, checked.
type checkPlan struct {
	format  string
	checks  []check.Check
	options check.Options
	tls     *mtls.Material
	server  mtls.Server
}

// parse checks all flags and reports every fault.
func (c *providerCheck) parse() (*checkPlan, error) {
	p := &checkPlan{}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	keep := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if p.format = c.output; p.format != formatJUnit {
		var err error
		p.format, err = formatOf(c.streams, c.output)
		if err != nil {
			fault("unknown output format %q; use -o json, -o table or -o junit", c.output)
		}
	}
	if c.list && p.format == formatJUnit {
		fault("--list prints a table or json; -o junit is for results")
	}
	keep(c.choose(p))
	if c.list {
		return p, joined(faults)
	}
	if _, _, err := net.SplitHostPort(c.addr); err != nil {
		fault("--addr must be HOST:PORT, as in 127.0.0.1:7800, got %q", c.addr)
	}
	if c.timeout <= 0 {
		fault("--timeout must be positive, got %v; give one such as %v", c.timeout, checkTimeoutDefault)
	}
	if c.within <= 0 || c.within > check.AnswerWithinMax {
		fault("--answer-within must be positive and at most %v, got %v; give one such as %v", check.AnswerWithinMax, c.within, check.AnswerWithinDefault)
	}
	if c.machinesMax < 0 || c.machinesMax > check.MachinesMax {
		fault("--max-machines must be between 0 and %d, got %d", check.MachinesMax, c.machinesMax)
	}
	if c.epoch < 0 {
		fault("--epoch must not be negative, got %d", c.epoch)
	}
	if c.yes && c.dryRun {
		fault("--yes and --dry-run exclude each other; give one")
	}
	if len(c.machines) > 0 && len(c.filters) > 0 {
		fault("--machines and --filter exclude each other; give one")
	}
	for _, x := range [...][2]string{{"shard", c.shard}, {"cluster", c.cluster}} {
		if err := model.CheckName(x[1]); err != nil {
			fault("--%s %w", x[0], err)
		}
	}
	keep(c.connection(p))
	keep(c.target(p))
	return p, joined(faults)
}

// joined returns all faults as bad input, nil = there is none.
func joined(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return badInput(errors.Join(faults...))
}

// choose settles which checks run.
func (c *providerCheck) choose(p *checkPlan) error {
	all := check.Checks()
	matches := func(patterns []string, id string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(pattern, id)
			return ok
		})
	}
	var faults []error
	for _, x := range [...]struct {
		flag     string
		patterns []string
	}{{"only", c.only}, {"skip", c.skip}} {
		for _, pattern := range x.patterns {
			if !slices.ContainsFunc(all, func(k check.Check) bool { return matches([]string{pattern}, k.ID) }) {
				faults = append(faults, fmt.Errorf("--%s: no check is called %q; --list prints all", x.flag, pattern))
			}
		}
	}
	for _, k := range all {
		if (len(c.only) == 0 || matches(c.only, k.ID)) && !matches(c.skip, k.ID) {
			p.checks = append(p.checks, k)
		}
	}
	if len(p.checks) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("--only and --skip leave no check; --list prints all"))
	}
	return errors.Join(faults...)
}

// connection settles how the provider is reached.
func (c *providerCheck) connection(p *checkPlan) (err error) {
	p.server = mtls.AnyServer()
	if c.identity != "" {
		if p.server, err = mtls.ServerWithURI(c.identity); err != nil {
			return fmt.Errorf("--provider-identity: %w", err)
		}
		if !c.tls.Given() {
			return errors.New("--provider-identity is what a certificate must hold; give the three --tls flags with it")
		}
	}
	p.tls, err = mtls.Load(c.tls, nil)
	return err
}

// target settles what may be done to which machines.
func (c *providerCheck) target(p *checkPlan) (err error) {
	p.options = check.Options{
		Shard: c.shard, Epoch: cmp.Or(c.epoch, clock().UnixMicro()), Only: c.machines, Machines: c.machinesMax, DeleteIdle: c.deleteIdle, Cluster: c.cluster, AnswerWithin: c.within,
	}
	if c.machinesMax == 0 {
		p.options.Machines = -1
	}
	if c.restart != "" {
		p.options.Restart = restartBy(c.restart)
	}
	if c.vanish != "" {
		p.options.Vanish = machineBy(c.vanish)
	}
	if c.fail != "" {
		p.options.Fail = machineBy(c.fail)
	}
	if c.bootstrap != "" {
		info, err := os.Stat(c.bootstrap)
		if err != nil {
			return fmt.Errorf("--bootstrap-file: %w", err)
		}
		if info.Size() > checkBootstrapMax {
			return fmt.Errorf("--bootstrap-file %s has more than %d bytes", c.bootstrap, checkBootstrapMax)
		}
		if p.options.Bootstrap, err = os.ReadFile(c.bootstrap); err != nil {
			return fmt.Errorf("--bootstrap-file: %w", err)
		}
	}
	p.options.Allow, err = filterMachines(c.filters)
	return err
}

// filterMachines reads filters, all of which a machine must fit.
func filterMachines(filters []string) (func(*pb.Machine) bool, error) {
	var all []func(*pb.Machine) bool
	var faults []error
	for _, text := range filters {
		key, value, found := strings.Cut(text, "=")
		label, isLabel := strings.CutPrefix(key, "label:")
		switch {
		case !found:
			faults = append(faults, fmt.Errorf("--filter must be KEY=VALUE, as in zone=a, got %q", text))
		case isLabel:
			all = append(all, func(m *pb.Machine) bool { v, ok := m.GetLabels()[label]; return ok && v == value })
		case key == "instance-type":
			all = append(all, func(m *pb.Machine) bool { return m.GetInstanceType() == value })
		case key == "zone":
			all = append(all, func(m *pb.Machine) bool { return m.GetZone() == value })
		case key == "capacity-type":
			kind, ok := model.ParseCapacityType(value)
			if !ok {
				faults = append(faults, fmt.Errorf("--filter: there is no capacity type %q; it is BareMetal, Reserved, OnDemand or Spot", value))
			}
			all = append(all, func(m *pb.Machine) bool { return model.CapacityType(m.GetCapacityType()) == kind })
		default:
			faults = append(faults, fmt.Errorf("--filter: the key is instance-type, zone, capacity-type or label:KEY, got %q", key))
		}
	}
	return func(m *pb.Machine) bool {
		return !slices.ContainsFunc(all, func(fits func(*pb.Machine) bool) bool { return !fits(m) })
	}, errors.Join(faults...)
}
