package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
	"github.com/tonnage/tonnage/provider/karpenter"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

// kind is a kind of driver that this binary has.
type kind struct {
	// check reads a driver's config and returns the checker of the templates of its pools; it reaches
	// nothing outside of the process.
	check func(config json.RawMessage) (driver.Checker, error)
	// open makes the driver, and gives up when ctx ends. Files of its own go into dir, and begin with its name.
	open func(ctx context.Context, d *pools.Driver, dir string, log *slog.Logger) (driver.Driver, error)
}

// kinds are all kinds of drivers, by the name that pools files have for them.
var kinds = map[string]kind{
	"simulated": {
		check: func(config json.RawMessage) (driver.Checker, error) {
			_, err := cloud.ParseConfig(config)
			return (*cloud.Cloud)(nil), err
		},
		open: openSimulated,
	},
	"exec": {
		check: func(config json.RawMessage) (driver.Checker, error) {
			_, err := exec.ParseSettings(config)
			return (*exec.Driver)(nil), err
		},
		open: func(_ context.Context, d *pools.Driver, _ string, log *slog.Logger) (driver.Driver, error) {
			s, err := exec.ParseSettings(d.Config)
			if err != nil {
				return nil, err
			}
			return exec.New(s, log.With("driver", d.Name)), nil
		},
	},
	"karpenter": {
		check: func(config json.RawMessage) (driver.Checker, error) {
			_, err := karpenter.ParseSettings(config)
			return (*karpenter.Driver)(nil), err
		},
		open: func(_ context.Context, d *pools.Driver, _ string, log *slog.Logger) (driver.Driver, error) {
			s, err := karpenter.ParseSettings(d.Config)
			if err != nil {
				return nil, err
			}
			return karpenter.Open(s, d.Name, log.With("driver", d.Name))
		},
	},
	"cluster-api": {
		check: func(config json.RawMessage) (driver.Checker, error) {
			_, err := clusterapi.ParseSettings(config)
			return (*clusterapi.Driver)(nil), err
		},
		open: func(ctx context.Context, d *pools.Driver, _ string, log *slog.Logger) (driver.Driver, error) {
			s, err := clusterapi.ParseSettings(d.Config)
			if err != nil {
				return nil, err
			}
			return clusterapi.Open(ctx, s, d.Name, log.With("driver", d.Name))
		},
	},
}

func openSimulated(_ context.Context, d *pools.Driver, dir string, _ *slog.Logger) (driver.Driver, error) {
	cfg, err := cloud.ParseConfig(d.Config)
	if err != nil {
		return nil, err
	}
	if cfg.File == "" {
		cfg.File = filepath.Join(dir, "simulated-"+driver.ObjectName(d.Name, 1)+".db")
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(d.Name))
	return cloud.Open(cfg, seed.Sum64(), nil)
}

// checkPools looks at what a pools file says of drivers.
func checkPools(f *pools.File) error {
	checkers := map[string]driver.Checker{}
	config := func(d *pools.Driver) error {
		c, err := kinds[d.Kind].check(d.Config)
		checkers[d.Name] = c
		return err
	}
	offers := func(d *pools.Driver, p *pools.Pool) error {
		c := checkers[d.Name]
		if c == nil {
			return nil
		}
		for _, o := range p.Offers {
			if err := c.Check(o, p.Traits()); err != nil {
				return fmt.Errorf("pool %q, type %q: %w", p.Name, o.InstanceType, err)
			}
		}
		return nil
	}
	return pools.Checkers(slices.Sorted(maps.Keys(kinds)), config, offers)(f)
}
