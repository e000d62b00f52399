package exec_test

import (
	"testing"

	"github.com/tonnage/tonnage/provider/driver/drivertest"
)

// TestItIsADriver: the driver with the example of a process per machine keeps what package driver says of drivers.
func TestItIsADriver(t *testing.T) {
	h := newHost(t, "")
	drivertest.Run(t, drivertest.Options{Driver: h.Driver, Offer: plainMachine("").Offer, Blob: []byte(seedData), Within: patience, Prefix: "m/"})
	if left := h.processes(""); len(left) != 0 {
		t.Errorf("in the end there is %v", left)
	}
}
