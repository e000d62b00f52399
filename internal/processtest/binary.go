package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BinaryVariable names an environment variable with the path of a binary that
// tests run in place of one that they build.
const BinaryVariable = "TONNAGE_BINARY"

// built is the folder of the binary that this test program has built, "" before.
var built string

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "tonnage-test-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "tonnage")
	args := append([]string{"build"}, tags...)
	if Race {
		args = append(args, "-race")
	}
	args = append(args, "-o", path, "github.com/tonnage/tonnage/cmd/tonnage")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// Main runs the tests of a package and removes the binary that they have built.
// It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	return code
}

// Binary returns the path of the tonnage binary.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
