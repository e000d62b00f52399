package attack_test

import (
	"flag"
	"os"
	"testing"

	"github.com/tonnage/tonnage/internal/processtest"
)

// soak makes attacks last longer and be larger (make soak-attack).
var soak = flag.Bool("soak", false, "run the long forms of the attacks")

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }
