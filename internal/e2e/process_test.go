package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/processtest"
)

// patience is how long a test waits for what should come to pass.
const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// processorTime returns how long the threads of a process have run.
func processorTime(pid int) (sum time.Duration) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		ran, _, _ := strings.Cut(string(text), " ")
		nanos, _ := strconv.ParseInt(ran, 10, 64)
		sum += time.Duration(nanos)
	}
	return sum
}
