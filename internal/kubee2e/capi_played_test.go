package kubee2e

import (
	"fmt"
	"os"
	"path/filepath"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"

	"github.com/tonnage/tonnage/provider/clusterapi/played"
)

const (
	// playedEnv has this program be the played infrastructure of the management cluster that KUBECONFIG names, in a process that
	// can be killed.
	playedEnv = "TONNAGE_PLAYED_INFRASTRUCTURE"
	// soldOutEnv names the file of zones without capacity.
	soldOutEnv = "TONNAGE_PLAYED_SOLD_OUT"
)

// playInfrastructure runs until it is told to end, and returns the exit code.
func playInfrastructure() int {
	ctrl.SetLogger(logr.Discard())
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fail(err)
	}
	config.QPS, config.Burst = 100, 200
	m, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(), Client: played.Cached})
	if err != nil {
		return fail(err)
	}
	// kwok is the kubelet of nodes with this label.
	if err := (&played.Infrastructure{Labels: map[string]string{"type": "kwok"}, SoldOut: os.Getenv(soldOutEnv)}).Add(m); err != nil {
		return fail(err)
	}
	if err := m.Start(ctrl.SetupSignalHandler()); err != nil {
		return fail(err)
	}
	return 0
}

// infrastructure starts the played infrastructure of a management cluster.
func (m *management) infrastructure(soldOut string) *process {
	m.t.Helper()
	crds := filepath.Join(m.dir, "played.yaml")
	if err := os.WriteFile(crds, played.CRDs, 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.give(m.ca.file("admin.kubeconfig"), crds)
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	return startAgain(m.t, true, m.dir, "played-infrastructure", "/usr/bin/env", playedEnv+"=1", soldOutEnv+"="+soldOut,
		"KUBECONFIG="+m.ca.user("infrastructure", "system:masters", m.address), self)
}
