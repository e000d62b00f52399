package exec_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
)

// childVariable makes this program a provider that runs a command and is killed meanwhile: it
// names the settings.
const childVariable = "TONNAGE_TEST_EXEC_CHILD"

func TestMain(m *testing.M) {
	if section := os.Getenv(childVariable); section != "" {
		s, err := exec.ParseSettings([]byte(section))
		if err == nil {
			err = exec.New(s, slog.Default()).Create(context.Background(), machine(), driver.Owner{})
		}
		slog.Error("not killed", "error", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilledProvider: with a provider that is killed, the command that it runs ends.
func TestKilledProvider(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	text := "#!/bin/sh\nmkfifo \"$DIR/alive\"\nexec 9<>\"$DIR/alive\"\n: >\"$DIR/begun\"\nwhile :; do read -r line <&9; done\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	child := osexec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+fmt.Sprintf(`{"command": [%q], "env": {"DIR": %q}}`, script, dir))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	appears(t, filepath.Join(dir, "begun"))
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	gone(t, filepath.Join(dir, "alive"))
}
