package node

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
)

// The defaults.
const (
	ListenDefault            = ":7790"
	MetricsAddrDefault       = ":8790"
	RaftBindDefault          = ":7791"
	IDDefault                = "node-1"
	DataDirDefault           = "./coord-data"
	ExportIntervalDefault    = 5 * time.Minute
	ExportKeepDefault        = 24
	RebalanceIntervalDefault = 50 * time.Second // five reports
	RebalanceIntervalMin     = 100 * time.Millisecond
)

// Config is one process.
type Config struct {
	ID            string
	Listen        string
	MetricsAddr   string // "0" = none
	RaftBind      string
	RaftAdvertise string // empty = RaftBind
	// Advertise is where clients reach Listen; empty = the host of RaftAdvertise
	// with Listen's port.
	Advertise string
	DataDir   string
	Bootstrap bool
	JoinAddr  string // of other replicas' gRPC, host:port, several with commas
	// EtcdEndpoints uses an etcd that is there, instead of a member of its own.
	EtcdEndpoints []string

	SnapshotExportDir      string
	SnapshotExportInterval time.Duration // 0 = the default
	SnapshotExportKeep     int

	Rebalance         string
	RebalanceInterval time.Duration
	Inbound           inbound.Settings
	// GCPercent is for a process of its own: see inbound.Gate.LimitGarbage.
	// Nil leaves the collector alone.
	GCPercent func(live uint64) int
	// TLS is for shards, tools and the other replicas' gRPC. RaftTLS is for the
	// Raft port, EtcdTLS for EtcdEndpoints: their CAs sign nothing else, since
	// whoever passes there can change or stop the coordinator.
	TLS, RaftTLS, EtcdTLS mtls.Files
}

// DefaultConfig returns the defaults of all flags.
func DefaultConfig() Config {
	return Config{
		ID: IDDefault, Listen: ListenDefault, MetricsAddr: MetricsAddrDefault, RaftBind: RaftBindDefault, DataDir: DataDirDefault,
		SnapshotExportKeep: ExportKeepDefault, Rebalance: string(coordinator.RebalanceDryRun), RebalanceInterval: RebalanceIntervalDefault,
		RaftTLS: mtls.Files{Flags: raftFlags}, EtcdTLS: mtls.Files{Flags: etcdFlags},
	}
}

// Validate reports every fault, by flag.
func (c *Config) Validate() error {
	var faults []error
	note := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	note(model.CheckName(c.ID) != nil || strings.ContainsAny(c.ID, "=,"), "--id must be 1 to %d bytes without = and comma and without control characters, got %q", coordinator.NameBytesMax, c.ID)
	note(c.Inbound.Validate() != nil, "%w", c.Inbound.Validate())
	addresses := []struct{ flag, value string }{{"--listen", c.Listen}, {"--raft-bind", c.RaftBind}}
	if c.MetricsAddr != "0" {
		addresses = append(addresses, struct{ flag, value string }{"--metrics-addr", c.MetricsAddr})
	}
	if c.RaftAdvertise != "" {
		addresses = append(addresses, struct{ flag, value string }{"--raft-advertise", c.RaftAdvertise})
	}
	if c.Advertise != "" {
		addresses = append(addresses, struct{ flag, value string }{"--advertise-addr", c.Advertise})
	}
	for _, a := range addresses {
		_, _, err := net.SplitHostPort(a.value)
		note(err != nil, "%s must be host:port, got %q", a.flag, a.value)
	}
	note(c.DataDir == "", "--data-dir is empty; name a folder")
	note(c.SnapshotExportInterval < 0, "--snapshot-export-interval cannot be negative, got %v", c.SnapshotExportInterval)
	note(c.SnapshotExportKeep < 1, "--snapshot-export-keep must be at least 1, got %d", c.SnapshotExportKeep)
	note(c.RebalanceInterval < RebalanceIntervalMin, "--rebalance-interval must be at least %v, got %v", RebalanceIntervalMin, c.RebalanceInterval)
	if _, err := coordinator.ParseMode(c.Rebalance); err != nil {
		note(true, "--rebalance %w", err)
	}
	for _, e := range c.EtcdEndpoints {
		_, _, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(e, "http://"), "https://"))
		note(err != nil, "--etcd-endpoints must be host:port, as in 10.0.0.1:2379, with commas between, got %q", e)
	}
	note(len(c.EtcdEndpoints) > 0 && (c.Bootstrap || c.JoinAddr != ""), "--etcd-endpoints names an etcd that is there; --bootstrap and --join-addr do not go with it")
	note(c.JoinAddr != "" && c.raftHost() == "", "--raft-advertise must name a host that the other replicas reach, since --join-addr is given; got %q", c.raftAddress())
	return errors.Join(append(faults, c.tlsFaults()...)...)
}

func (c *Config) raftAddress() string {
	if c.RaftAdvertise != "" {
		return c.RaftAdvertise
	}
	return c.RaftBind
}

func (c *Config) raftHost() string {
	host, _, _ := net.SplitHostPort(c.raftAddress())
	return host
}

// loopback is where a replica that is alone reaches itself.
const loopback = "127.0.0.1"

// peerAddress is where other members reach this one.
func (c *Config) peerAddress() string {
	host, port, _ := net.SplitHostPort(c.raftAddress())
	if host == "" {
		host = loopback
	}
	return net.JoinHostPort(host, port)
}

// clientAddress is where clients reach this replica, given the port that it
// listens on.
func (c *Config) clientAddress(listening net.Addr) string {
	if c.Advertise != "" {
		return c.Advertise
	}
	_, port, _ := net.SplitHostPort(listening.String())
	host, _, _ := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _, _ = net.SplitHostPort(c.peerAddress())
	}
	return net.JoinHostPort(host, port)
}

var ordinal = regexp.MustCompile(`-([0-9]+)$`)

// first tells whether this replica is the one that starts a group when it has
// others to ask: the name ends in -0, or in no number.
func (c *Config) first() bool {
	m := ordinal.FindStringSubmatch(c.ID)
	return m == nil || m[1] == "0"
}
