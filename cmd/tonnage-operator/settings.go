package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// errInput marks what the caller has to mend.
var errInput = errors.New("bad input")

func badInput(err error) error { return fmt.Errorf("%w: %w", errInput, err) }

// namespaceFile names the namespace of a process that runs in a cluster.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// settings are what both commands have.
type settings struct {
	kubeconfig  string
	metricsAddr string
	pprofAddr   string
	qps         float64
	burst       int
	logLevel    string
	namespace   string // of the lease
}

func (s *settings) register(flags *pflag.FlagSet, metricsAddr string) {
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster; empty = the one this runs in, else $KUBECONFIG and what kubectl takes")
	flags.StringVar(&s.metricsAddr, "metrics-addr", metricsAddr, "address of /metrics, /healthz and /readyz; 0 = none")
	flags.StringVar(&s.pprofAddr, "pprof-addr", "", "address of /debug/pprof/; empty = that of the metrics, for this machine only")
	flags.Float64Var(&s.qps, "qps", 50, "requests per second to the API server")
	flags.IntVar(&s.burst, "burst", 100, "requests that may be made at once")
	flags.StringVar(&s.logLevel, "log-level", "info", "what is logged to standard error: debug, info, warn or error")
	flags.StringVar(&s.namespace, "leader-election-namespace", "", "namespace of the lease by which one of several replicas leads; empty = this process's own in a cluster, and no election outside")
}

// logger makes the process's log, which the libraries use too.
func (s *settings) logger(err io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if e := level.UnmarshalText([]byte(s.logLevel)); e != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error (--log-level)", s.logLevel)
	}
	handler := slog.NewTextHandler(err, &slog.HandlerOptions{Level: level})
	sink := logr.FromSlogHandler(handler)
	ctrl.SetLogger(sink)
	klog.SetLogger(sink)
	return slog.New(handler), nil
}

// cluster finds out how the API server is reached.
func (s *settings) cluster() (*rest.Config, error) {
	var rates error
	if s.qps <= 0 || s.burst < 1 {
		rates = fmt.Errorf("--qps and --burst must be positive, got %v and %d", s.qps, s.burst)
	}
	config, err := s.restConfig()
	if err != nil {
		err = fmt.Errorf("no cluster: %w (--kubeconfig)", err)
	}
	if err := errors.Join(rates, err); err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(s.qps), s.burst
	config.UserAgent = "tonnage-operator/" + versionText()
	return config, nil
}

func (s *settings) restConfig() (*rest.Config, error) {
	if s.kubeconfig == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

// lease returns the namespace of the lease; "" = there is no election.
func (s *settings) lease() string {
	if s.namespace != "" || s.kubeconfig != "" {
		return s.namespace
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
