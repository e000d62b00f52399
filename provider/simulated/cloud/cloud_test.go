package cloud_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/driver/drivertest"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

var offer = driver.Offer{Key: driver.Key{Pool: "p", InstanceType: "t", Zone: "z", CapacityType: model.Spot}}

// TestItIsADriver holds it to the contract of drivers, both ways to bind, over a restart.
func TestItIsADriver(t *testing.T) {
	for name, late := range map[string]bool{"early": false, "late": true, "owned": false} {
		t.Run(name, func(t *testing.T) {
			span := cloud.Span(30 * time.Millisecond)
			cfg := cloud.Config{File: filepath.Join(t.TempDir(), "cloud.db"), Create: span, Configure: span, Drain: span, Delete: span}
			c, err := cloud.Open(cfg, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			var hosts []string
			if name == "owned" {
				hosts = []string{"h1", "h2"}
			}
			drivertest.Run(t, drivertest.Options{Driver: c, Hosts: hosts, Offer: offer, LateBound: late, Within: 10 * time.Second, Prefix: "m-", Reopen: func() driver.Driver {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				if c, err = cloud.Open(cfg, 1, nil); err != nil {
					t.Fatal(err)
				}
				return c
			}})
		})
	}
}

// Capacity runs out and comes back, makings fail, and machines are lost, as the config says.
func TestTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.db")
	synctest.Test(t, func(t *testing.T) {
		cfg, err := cloud.ParseConfig([]byte(`{"create": "1s", "failureRate": 0.5, "lossPerHour": 0.5, "capacity": [{"zone": "none", "machines": 0}, {"capacityType": "Spot", "machines": 200}]}`))
		if err != nil {
			t.Fatal(err)
		}
		cfg.File = path
		c, err := cloud.Open(cfg, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		create := func(n int, zone string) error {
			o := offer
			o.Zone = zone
			return c.Create(t.Context(), &driver.Machine{ID: fmt.Sprintf("%s-%d", zone, n), Generation: 1, Offer: o}, driver.Owner{})
		}
		if err := create(0, "none"); !errors.Is(err, driver.ErrOutOfStock) {
			t.Errorf("beyond the capacity of a zone: %v", err)
		}
		for i := range 200 {
			if err := create(i, "z"); err != nil {
				t.Fatal(err)
			}
		}
		if err := create(200, "z"); !errors.Is(err, driver.ErrOutOfStock) {
			t.Errorf("beyond the capacity: %v", err)
		}
		count := func() map[driver.Phase]int {
			out := map[driver.Phase]int{}
			if err := c.Observe(t.Context(), func(o *driver.Observation) { out[o.Phase]++ }); err != nil {
				t.Fatal(err)
			}
			return out
		}
		<-time.After(2 * time.Second)
		if n := count(); n[driver.Idle]+n[driver.Failed] < 195 || n[driver.Failed] < 60 || n[driver.Failed] > 140 {
			t.Errorf("after a moment: %v, want half of them Failed", n)
		}
		<-time.After(time.Hour)
		if n := count(); n[driver.Idle]+n[driver.Failed] < 60 || n[driver.Idle]+n[driver.Failed] > 140 {
			t.Errorf("after an hour: %v, want half of them lost", n)
		}
		if err := create(200, "z"); err != nil {
			t.Errorf("after some were lost: %v", err)
		}
	})
}

func TestParseConfig(t *testing.T) {
	if c, err := cloud.ParseConfig(nil); err != nil || c.Create != cloud.Span(time.Second) {
		t.Errorf("nothing is %+v, %v", c, err)
	}
	for text, want := range map[string]string{
		`{"creat": "1s"}`:                  "unknown field",
		`{"create": 1}`:                    "must be a time span",
		`{"create": "-1s"}`:                "must be from 0 to 24h",
		`{"failureRate": 2}`:               "config.failureRate: must be a probability",
		`{"capacity": [{"machines": -1}]}`: "config.capacity[0].machines",
		`[]`:                               "config",
	} {
		if _, err := cloud.ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
