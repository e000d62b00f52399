package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/pods"
	"github.com/tonnage/tonnage/operator/stuck"
)

// keepSpareDefault is how long room that pods could do without is kept.
const keepSpareDefault = 10 * time.Minute

// podsFlags are those of the pod controller.
type podsFlags struct {
	settings
	defaultsFile string
	stuckAfter   time.Duration
	keepSpare    time.Duration
	selector     string
	nominate     bool
}

// newPods returns the command that makes requests of pods.
func newPods(err io.Writer) *cobra.Command {
	var f podsFlags
	cmd := &cobra.Command{
		Use: "pods", Short: "Keep a CapacityRequest for every pod that lives", Args: noArguments, PreRunE: takeEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), err) },
	}
	flags := cmd.Flags()
	f.register(flags, ":8080")
	flags.StringVar(&f.defaultsFile, "priority-class-defaults", "", "YAML file: the penalties of pods that name none, by priority class; empty = none")
	flags.DurationVar(&f.stuckAfter, "stuck-after", 15*time.Second, "how long a pod is unschedulable, although the machines of its row suffice by sums, before more is asked for; 0 = never")
	flags.DurationVar(&f.keepSpare, "keep-spare", keepSpareDefault, "how long machines that a row's pods could do without are kept; longer means fewer pods that move, and a higher bill")
	flags.StringVar(&f.selector, "selector", "", "label selector of the pods that get requests, as fleet=tonnage,tier!=system; empty = all")
	flags.BoolVar(&f.nominate, "nominate", false, "nominate pods for new nodes that have the taint "+api.TaintNomination+", and take it away once these pods are there: the scheduler places them as they were packed when the nodes were bought; needs the rights of deploy/rbac/nominate.yaml")
	completeFiles(cmd, "priority-class-defaults", "kubeconfig")
	return cmd
}

// defaults reads the penalties of pods that name none.
func (f *podsFlags) defaults(c *pods.Controller) error {
	if f.defaultsFile == "" {
		return nil
	}
	text, err := os.ReadFile(f.defaultsFile)
	if err != nil {
		return fmt.Errorf("%w (--priority-class-defaults)", err)
	}
	if c.Defaults, err = pods.ParseDefaults(text); err != nil {
		return fmt.Errorf("%s: %w", f.defaultsFile, err)
	}
	return nil
}

// selectPods reads which pods get requests.
func (f *podsFlags) selectPods(c *pods.Controller) (err error) {
	if f.selector == "" {
		return nil
	}
	if c.Selector, err = labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector: %w; write one as kubectl takes it, as fleet=tonnage", err)
	}
	return nil
}

func (f *podsFlags) run(ctx context.Context, err io.Writer) error {
	c := &pods.Controller{}
	log, noLog := f.logger(err)
	noDefaults := f.defaults(c)
	config, noCluster := f.cluster()
	var noWait error
	if f.stuckAfter < 0 {
		noWait = fmt.Errorf("--stuck-after must not be negative, got %v", f.stuckAfter)
	}
	if f.keepSpare < 0 {
		noWait = errors.Join(noWait, fmt.Errorf("--keep-spare must not be negative, got %v", f.keepSpare))
	}
	noSelector := f.selectPods(c)
	if e := errors.Join(noLog, noDefaults, noCluster, noWait, noSelector); e != nil {
		return badInput(e)
	}
	kept := pods.CacheOptions()
	maps.Copy(kept, stuck.CacheOptions())
	m, e := f.manager(config, "tonnage-operator-pods", kept)
	if e != nil {
		return e
	}
	c.Client, c.Count, c.SoftSpread = m.GetClient(), pods.Counter(metrics.Registry), pods.SoftSpreadCounter(metrics.Registry)
	if e := c.Setup(ctx, m); e != nil {
		return e
	}
	patience := stuck.Config{After: f.stuckAfter, Keep: f.keepSpare, Selector: c.Selector}
	if f.nominate {
		if e := stuck.SetupNominator(ctx, m, patience, stuck.NewNominatorMetrics(metrics.Registry), log); e != nil {
			return e
		}
	}
	if f.stuckAfter > 0 {
		if e := stuck.Setup(m, patience, stuck.NewMetrics(metrics.Registry), log); e != nil {
			return e
		}
	}
	log.Info("pod controller starts", "version", versionText(), "election", f.lease() != "")
	return m.Start(ctx)
}
