package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

// shardPlan is what shard was asked to do, checked.
type shardPlan struct {
	shard    shard.Config
	id       string
	listen   string
	metrics  string // empty = none
	page     string // empty = at the metrics' address
	access   accessFlags
	pprof    string
	dataDir  string
	provider string
	// providerServer is what the provider's certificate must show.
	providerServer mtls.Server
	coordinators   []string
	advertise      string
	heartbeat      time.Duration
	audit          string
	policy         string // empty = none
	auditBytes     int64
	phaseLog       bool
	local          bool
	pin            bool
	tls            mtls.Files
	inbound        inbound.Settings
	clusters       session.ClusterLimits
	apart          time.Duration // between two roll-ups of a cluster; below 0 = nothing
	seed           seedFlags
	level          slog.Level
	settings       string // as given, for the log
}

// clusterIntervalMax is the longest --cluster-rollup-interval: what is longer than
// operators take between two roll-ups delays all of them.
const clusterIntervalMax = 10 * time.Second

// readConfig takes over what the file of settings says.
func (f *shardFlags) readConfig(cmd *cobra.Command) error {
	if f.config == "" {
		return nil
	}
	return readSettings(cmd, f.config)
}

// parse checks all settings and reports every fault; set tells whether one was
// given.
func (f *shardFlags) parse(set func(string) bool) (*shardPlan, error) {
	p := &shardPlan{
		id: f.id, listen: f.listen, page: f.pageAddr, access: f.access, pprof: f.pprofAddr, dataDir: f.dataDir, provider: f.providerAddr, heartbeat: f.heartbeat,
		advertise: cmp.Or(f.advertiseAddr, f.listen), audit: f.auditLog, policy: f.policy, auditBytes: f.auditBytes, local: f.local, pin: f.pin,
		phaseLog: f.phaseLog || os.Getenv(phaseLogVariable) == "1", tls: f.tls, seed: f.seed, inbound: f.inbound,
		clusters: f.clusters, apart: f.clusterInterval,
	}
	if p.apart == 0 {
		p.apart = -1 // 0 is the default of sessions
	}
	if f.metricsAddr != metricsOff {
		p.metrics = f.metricsAddr
	}
	faults := append(f.faults(p), f.seed.faults(f.providerAddr != "", set)...)
	p.shard = f.shardConfig()
	if err := p.shard.Validate(); err != nil {
		faults = append(faults, byFlag(err, faults)...)
	}
	if _, err := mtls.Load(p.tls, nil); err != nil {
		faults = append(faults, err)
	}
	if err := p.inbound.Validate(); err != nil {
		faults = append(faults, err)
	}
	if _, err := f.access.guard(nil); err != nil {
		faults = append(faults, err)
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		faults = append(faults, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", f.logLevel))
	}
	if len(faults) > 0 {
		return nil, badInput(errors.Join(faults...))
	}
	return p, nil
}

// faults lists what is wrong with settings that are not the shard's own.
func (f *shardFlags) faults(p *shardPlan) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	address := func(flag, value string) {
		if _, _, err := net.SplitHostPort(value); err != nil {
			fault("--%s must be HOST:PORT, as in 127.0.0.1:7780 or :7780, got %q", flag, value)
		}
	}
	address("listen", f.listen)
	for _, x := range [...][2]string{{"metrics-addr", p.metrics}, {"page-addr", f.pageAddr}, {"pprof-addr", f.pprofAddr}, {"advertise-addr", f.advertiseAddr}, {"provider-addr", f.providerAddr}} {
		if x[1] != "" {
			address(x[0], x[1])
		}
	}
	for _, one := range strings.Split(f.coordinatorAddr, ",") {
		if one = strings.TrimSpace(one); one != "" {
			address("coordinator-addr", one)
			p.coordinators = append(p.coordinators, one)
		}
	}
	if model.CheckName(f.id) != nil || strings.ContainsAny(f.id, "/ ") {
		fault("--id must be a name of 1 to %d bytes without spaces, slashes and control characters, got %q", model.NameBytesMax, f.id)
	}
	if f.dataDir == "" {
		fault("--data-dir is empty; name a folder")
	}
	var err error
	if p.providerServer, err = mtls.ServerWithURI(f.providerIdentity); err != nil {
		fault("--provider-identity: %w", err)
	}
	if f.providerIdentity != "" && (f.providerAddr == "" || !f.tls.Given()) {
		fault("--provider-identity is what a certificate must hold; give --provider-addr and the three --tls flags with it")
	}
	if f.heartbeat < 100*time.Millisecond {
		fault("--coordinator-heartbeat-interval must be at least 100ms, got %v", f.heartbeat)
	}
	if f.concurrency < 1 {
		fault("--execute-concurrency must be at least 1, got %d", f.concurrency)
	}
	if f.hints < 0 {
		fault("--available-capacity-interval cannot be negative, got %v; 0 is %v", f.hints, shard.HintIntervalDefault)
	}
	if f.auditBytes < 0 {
		fault("--audit-log-max-bytes cannot be negative, got %d", f.auditBytes)
	}
	faults = append(faults, f.clusterFaults()...)
	if _, err := engine.ParseAcquireRule(f.acquire); err != nil {
		fault("--acquire: %w", err)
	}
	if err := checkShare(f.maxShare); err != nil {
		faults = append(faults, err)
	}
	if err := checkWorkers(f.workers); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// clusterFaults lists what is wrong with the limits of one cluster.
func (f *shardFlags) clusterFaults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.clusterInterval < 0 || f.clusterInterval > clusterIntervalMax {
		fault("--%s must be between 0 and %v, got %v", flagClusterInterval, clusterIntervalMax, f.clusterInterval)
	}
	for _, x := range [...]struct {
		flag  string
		value int
	}{
		{session.FlagClusterRows, f.clusters.Rows}, {session.FlagClusterGangs, f.clusters.Gangs},
		{session.FlagClusterRequirementSets, f.clusters.RequirementSets}, {session.FlagClusterKeys, f.clusters.Keys},
	} {
		if x.value == 0 { // which is the default of sessions
			fault("--%s must be at least 1, got 0", x.flag)
		}
	}
	if err := f.clusters.Validate(); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// flagOf names the flags that set what the shard's configuration calls otherwise.
var flagOf = map[string]string{
	"cycleInterval": "cycle-interval", "reclaimCapFraction": "reclaim-cap-fraction", "deleteCapFraction": "delete-cap-fraction",
	"provisionCapFraction": "provision-cap-fraction", "preemptCapFraction": "preempt-cap-fraction", "breakerShare": "breaker-share", "breakerWindow": "breaker-window", "maxActionsPerCycle": "max-actions-per-cycle", "maxMachineShare": "max-machine-share",
	"concurrency": "execute-concurrency", "warmupCycles": "metrics-warmup-cycles", "worstMin": "profile-over",
}

// byFlag names the faults of the shard's configuration by its flags, but those of
// flags that are among others already.
func byFlag(err error, others []error) (faults []error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		field, says, _ := strings.Cut(line, ": ")
		flag := "--" + cmp.Or(flagOf[field], field)
		if !slices.ContainsFunc(others, func(err error) bool { return strings.HasPrefix(err.Error(), flag+" ") }) {
			faults = append(faults, fmt.Errorf("%s %s", flag, says))
		}
	}
	return faults
}

// faults refuses what only machines in memory know.
func (f *seedFlags) faults(remote bool, set func(string) bool) (faults []error) {
	for _, name := range []string{"seed-machines", "seed-speculative", "seed-spot", "seed-configured-per-cluster", "failure-rate-per-sec", "speculative-shed-at-seconds"} {
		if remote && set(name) {
			faults = append(faults, fmt.Errorf("--%s is for machines in memory; leave it out, or --provider-addr", name))
		}
	}
	if min(f.machines, f.speculative, f.spot, f.configured, f.clusters, f.stride) < 0 {
		faults = append(faults, errors.New("--seed-machines and the like cannot be negative"))
	}
	if !(f.failures >= 0 && f.failures <= 1) {
		faults = append(faults, fmt.Errorf("--failure-rate-per-sec is a probability between 0 and 1, got %v", f.failures))
	}
	return faults
}

func (f *shardFlags) shardConfig() shard.Config {
	c := shard.DefaultConfig()
	c.CycleInterval, c.Concurrency, c.MaxActionsPerCycle = f.cycle, f.concurrency, f.maxActions
	c.Engine.Workers, c.Engine.MaxMachineShare = f.workers, f.maxShare
	c.Engine.Acquire, _ = engine.ParseAcquireRule(f.acquire) // checked in faults
	c.BudgetInterval, c.ReclaimCapFraction, c.Quarantine = f.cycle, f.reclaimCap, f.emptyGuard
	c.DeleteCapFraction, c.ProvisionCapFraction, c.PreemptCapFraction = f.deleteCap, f.provisionCap, f.preemptCap
	c.BreakerShare, c.BreakerWindow = f.breakerShare, f.breakerWindow
	c.Paused, c.DryRun = f.paused, f.dryRun
	c.AlwaysFull, c.WarmupCycles = !f.incremental, f.warmupCycles
	if f.hints > 0 {
		c.HintInterval = f.hints
	}
	c.WorstDir, c.WorstMin = f.profileDir, f.profileOver
	return c
}
