package exec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tonnage/tonnage/provider/check/checktest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

// checkedPools has slots that are bought.
const checkedPools = `drivers: [{name: here, kind: exec, launchesPerMinute: 60000, launchBurst: 1000, config: {command: ["true"]}}]
pools:
- {name: p, driver: here, machines: 6, freeSlots: 6, zones: [z], labels: {rack: r1}, types: [{name: small, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 0.1}]}]}
`

// TestItPassesTheCheck: a provider whose machines are the example's processes passes every check of providers but those of
// data that start nothing.
func TestItPassesTheCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("it calls hundreds of scripts")
	}
	h := newHost(t, "")
	checktest.Run(t, checktest.Options{
		Pools: checkedPools, Cluster: "blue", Bootstrap: []byte(failing + seedData),
		Open: func(*pools.Driver) (driver.Driver, error) { return h.Driver, nil },
		Fail: func(_ context.Context, o *driver.Observation) error {
			return os.WriteFile(filepath.Join(h.cluster, driver.ObjectName(o.ID, o.Generation)+".fails"), nil, 0o600)
		},
		Vanish: func(_ context.Context, o *driver.Observation) error {
			pids := h.processes(driver.ObjectName(o.ID, o.Generation))
			if len(pids) != 1 {
				return fmt.Errorf("machine %s has the processes %v", o.ID, pids)
			}
			return syscall.Kill(-pids[0], syscall.SIGKILL)
		},
	})
}

// failing begins a program that fails for machines that are to.
const failing = `#!/bin/sh
[ "$1" != join ] || [ ! -e "$CLUSTER/$NODE_NAME.fails" ] || { echo "it was asked for" >&2; exit 1; }
`
