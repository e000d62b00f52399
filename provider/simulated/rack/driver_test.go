package rack_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/driver/drivertest"
	"github.com/tonnage/tonnage/provider/simulated/rack"
)

var offer = driver.Offer{Key: driver.Key{Pool: "p", InstanceType: "t", Zone: "z", CapacityType: model.BareMetal}}

// wrongVariable names the fault of the driver that TestItIsADriver tries, in a process of its own.
const wrongVariable = "TONNAGE_TEST_WRONG_DRIVER"

// TestItIsADriver holds it to the contract of drivers: with every verb cut off after each of its requests, with hosts that somebody
// else takes, and with 1 request in 20 that fails.
func TestItIsADriver(t *testing.T) {
	cut := drivertest.NewCut(1, 0.05)
	hosts := []string{"h1", "h2", "h3"}
	r := rack.NewRack(hosts...)
	r.Before = func(string) error { return cut.Pass() }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	within := 10 * time.Second
	open := func() driver.Driver { return rack.New(r) }
	if fault := os.Getenv(wrongVariable); fault != "" {
		within = time.Second
		open = func() driver.Driver { return &wrong{rack.New(r), r, fault} }
	}
	drivertest.Run(t, drivertest.Options{
		Driver: open(), Reopen: open, Offer: offer, Hosts: hosts, Within: within, Prefix: "m-", Cut: cut,
		Take: func(host string) drivertest.Taking {
			must(r.ByHand(host, func(h *rack.Host) { h.On, h.Cluster = true, "theirs" }))
			return drivertest.Taking{
				Harmed: func() error {
					if h := r.Look(host); !h.On || h.Cluster != "theirs" {
						return fmt.Errorf("it is %+v", h)
					}
					return nil
				},
				End: func() { must(r.ByHand(host, func(h *rack.Host) { h.On, h.Cluster = false, "" })) },
			}
		},
	})
	for _, name := range hosts {
		if h := r.Look(name); h.On || h.Cluster != "" || h.Claim != "" {
			t.Errorf("a host is left as %+v", h)
		}
	}
}

// faults are ways to be wrong, and what drivertest says of each.
var faults = map[string]string{
	"repeats are taken for done":   "Create of m-",            // a call that was cut off is not gone on with
	"no host":                      `on host "h`,              // of observations
	"no reference":                 "is Idle without a Ref",   //
	"no node":                      "Configured without a No", //
	"no reason":                    "Failed without a Reason", //
	"taken hosts are failed":       "is Failed and not Taken", //
	"taken hosts are turned off":   "Delete on a host in somebody else's use",
	"another claim is overwritten": "makes it machine",
	"the first owner stays":        "comes back for",
	"errors are permanent":         "is no transient error",
}

// wrong is a driver with a fault.
type wrong struct {
	*rack.Driver
	rack  *rack.Rack
	fault string
}

func (d *wrong) Create(ctx context.Context, m *driver.Machine, by driver.Owner) error {
	switch h := d.rack.Look(m.Host); {
	case d.fault == "repeats are taken for done" && h.Claim != "":
		return nil
	case d.fault == "another claim is overwritten" && h.Claim != "" && !strings.Contains(h.Claim, `"`+m.ID+`"`):
		if err := d.rack.ByHand(m.Host, func(h *rack.Host) { h.Claim, h.Cluster = "", "" }); err != nil {
			return err
		}
	}
	err := d.Driver.Create(ctx, m, by)
	if d.fault == "errors are permanent" && err != nil {
		return fmt.Errorf("%w: %w", driver.ErrPermanent, err)
	}
	return err
}

func (d *wrong) Delete(ctx context.Context, m *driver.Machine) error {
	if d.fault == "taken hosts are turned off" && d.rack.Look(m.Host).Cluster == "theirs" {
		if err := d.rack.SetPower(m.Host, false); err != nil {
			return err
		}
	}
	return d.Driver.Delete(ctx, m)
}

func (d *wrong) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	return d.Driver.Observe(ctx, func(o *driver.Observation) {
		switch d.fault {
		case "no host":
			o.HostName = ""
		case "no reference":
			o.Ref = ""
		case "no node":
			o.Node = ""
		case "no reason":
			o.Reason = ""
		case "taken hosts are failed":
			o.Taken = false
		case "the first owner stays":
			if o.Phase == driver.Configured {
				o.Owner.Sequence--
			}
		}
		yield(o)
	})
}

// TestWrongDriversAreFound: drivertest fails a driver that is wrong on purpose, and says why.
func TestWrongDriversAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, says := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), self, "-test.run=^TestItIsADriver$")
			c.Env = slices.Concat(os.Environ(), []string{wrongVariable + "=" + fault})
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("%v, want a failure that says %q:\n%s", err, says, out)
			}
		})
	}
}
