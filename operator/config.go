package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
)

// Defaults and limits of the configuration.
const (
	RollupIntervalDefault = 10 * time.Second
	rollupIntervalMin     = 100 * time.Millisecond
	rollupIntervalMax     = time.Hour
	QPSDefault            = 50
	BurstDefault          = 100
	AckConcurrencyDefault = 16
	ReleaseAfterDefault   = time.Minute
	ackConcurrencyMax     = 1024
)

// Config is what an operator is started with.
type Config struct {
	ClusterID string
	// Shards are addresses, tried in turn.
	Shards []string
	// RollupInterval is how often the demand is reported at the least.
	RollupInterval time.Duration
	// EarlyRollups: what was added is reported before the interval is over.
	EarlyRollups bool
	// AckConcurrency is how many requests are marked as heard at a time.
	AckConcurrency int
	// BootstrapTemplate is a Go text/template; "" = a stub.
	BootstrapTemplate string
	// SettleAfter is when what a session has not mentioned is removed.
	SettleAfter time.Duration
	// LookInterval is how often the shard is asked what it decided about the cluster's needs; 0 = never.
	LookInterval time.Duration
	// ReleaseAfter is for how long a new node may wait for nominations of pods.
	ReleaseAfter time.Duration
	// TLS is nil for plaintext.
	TLS *mtls.Material
}

// Validate reports every fault.
func (c *Config) Validate() error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := model.CheckName(c.ClusterID); err != nil {
		refuse("the cluster id %w (--cluster-id)", err)
	}
	if len(c.Shards) == 0 {
		refuse("the address of a shard is needed (--shard-addr)")
	}
	for _, s := range c.Shards {
		if s == "" {
			refuse("an address of a shard is empty (--shard-addr)")
		}
	}
	if c.RollupInterval < rollupIntervalMin || c.RollupInterval > rollupIntervalMax {
		refuse("the roll-up interval must be between %s and %s, got %s (--rollup-interval)", rollupIntervalMin, rollupIntervalMax, c.RollupInterval)
	}
	if c.AckConcurrency < 1 || c.AckConcurrency > ackConcurrencyMax {
		refuse("the acknowledgement concurrency must be between 1 and %d, got %d (--ack-concurrency)", ackConcurrencyMax, c.AckConcurrency)
	}
	if c.SettleAfter <= 0 {
		refuse("what a session has not mentioned must be kept for a while, got %s", c.SettleAfter)
	}
	if c.LookInterval < 0 {
		refuse("the shard cannot be asked every %s", c.LookInterval)
	}
	return errors.Join(faults...)
}
