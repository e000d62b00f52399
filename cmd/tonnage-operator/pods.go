package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tonnage/tonnage/operator/pods"
)

// podsFlags are those of the pod controller.
type podsFlags struct {
	settings
	defaultsFile string
}

// watchPods runs the controller that makes requests of pods.
func watchPods(ctx context.Context, args []string, err io.Writer) error {
	var f podsFlags
	flags := flag.NewFlagSet("tonnage-operator pods", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(err, "Usage: tonnage-operator pods [flags]\n\nKeeps a CapacityRequest for every pod that lives.\n\n")
		flags.PrintDefaults()
	}
	f.register(flags, ":8080")
	flags.StringVar(&f.defaultsFile, "priority-class-defaults", "", "YAML file: the penalties of pods that name none, by priority class; empty = none")
	if e := parse(flags, args, err); e != nil {
		return e
	}
	return f.run(ctx, err)
}

func (f *podsFlags) run(ctx context.Context, err io.Writer) error {
	log, e := f.logger(err)
	if e != nil {
		return e
	}
	c := &pods.Controller{}
	if f.defaultsFile != "" {
		text, e := os.ReadFile(f.defaultsFile)
		if e != nil {
			return badInput(fmt.Errorf("%w (--priority-class-defaults)", e))
		}
		if c.Defaults, e = pods.ParseDefaults(text); e != nil {
			return badInput(fmt.Errorf("%s: %w", f.defaultsFile, e))
		}
	}
	config, e := f.cluster()
	if e != nil {
		return e
	}
	m, e := f.manager(config, "tonnage-operator-pods", pods.CacheOptions())
	if e != nil {
		return e
	}
	c.Client, c.Count = m.GetClient(), pods.Counter(metrics.Registry)
	if e := c.Setup(ctx, m); e != nil {
		return e
	}
	log.Info("pod controller starts", "version", versionText(), "election", f.lease() != "")
	return m.Start(ctx)
}
