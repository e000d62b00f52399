package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
)

// accessFlags are the flags of a command that serves a page: who may look at it
// and change something, beside the machine that it runs on.
type accessFlags struct{ token, hosts string }

func (f *accessFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.token, "token-file", "", tokenUsage+hereMark+"lets its holders read the page from elsewhere, and every change needs it then; read again when it changes")
	flags.StringVar(&f.hosts, "allowed-hosts", "", "further host names that the page may be asked for by, with commas between: names of a proxy, or of this machine")
	_ = cmd.MarkFlagFilename("token-file")
}

// accessRemedy says how others than this machine are let in.
const accessRemedy = "start the process with --token-file FILE (openssl rand -hex 32 > FILE makes one) or with the --tls flags to let others in, or ask through a port forwarded to its machine (kubectl port-forward, ssh -L)"

// guard returns what the flags say, and what is wrong with them.
func (f *accessFlags) guard(log *slog.Logger) (*httpguard.Guard, error) {
	c := httpguard.Config{Remedy: accessRemedy}
	var wrong, err error
	if f.token != "" {
		if c.Token, err = httpguard.OpenToken(f.token, log); err != nil {
			wrong = fmt.Errorf("--token-file: %w", err)
		}
	}
	if c.Hosts, err = httpguard.ParseHosts(f.hosts); err != nil {
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	return httpguard.New(c), nil
}

// checkReach refuses to serve a page where other machines reach it and nothing
// would let them in.
func (f *accessFlags) checkReach(flag string, l net.Listener, material *mtls.Material) error {
	if httpguard.Loopback(l.Addr()) || f.token != "" || material != nil {
		return nil
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return badInput(fmt.Errorf("--%s %s: other machines reach this address, and the page is for this machine only; "+
		"give --token-file FILE (openssl rand -hex 32 > FILE makes one) or the --tls flags to let others in, or listen on 127.0.0.1:%s", flag, l.Addr(), port))
}

// probes serves /metrics, /healthz and /readyz to all, and profiles to this
// machine if they are wanted here.
func probes(metrics prometheus.Gatherer, ready func() error, guard *httpguard.Guard, profiles bool) http.Handler {
	mux := http.NewServeMux()
	httpguard.HandleProbes(mux, metrics, func(context.Context) error { return ready() })
	if profiles {
		mux.Handle("GET /debug/pprof/", guard.Profiles())
	}
	return mux
}
