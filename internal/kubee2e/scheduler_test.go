package kubee2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/operator/kubetest"
)

// TestSchedulerReadsItsConfiguration: a real kube-scheduler takes the file of deploy/scheduler, and the
// weight that is in it.
func TestSchedulerReadsItsConfiguration(t *testing.T) {
	if os.Getenv("TONNAGE_NO_KUBERNETES") == "1" {
		t.Skip("TONNAGE_NO_KUBERNETES=1: nothing is tried against a real Kubernetes")
	}
	out, err := exec.Command(kubetest.Root("tools", "k8s", "build"), "--print").Output()
	if err != nil {
		t.Fatalf("tools/k8s/build --print: %v", err)
	}
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	files := map[string]string{}
	for _, name := range []string{"default", "tonnage"} {
		settings := strings.ReplaceAll(schedulerProfile(t, name), "KUBECONFIG", ca.user("system:kube-scheduler", "", "127.0.0.1:1"))
		from, to := filepath.Join(dir, name+".yaml"), filepath.Join(dir, name+".out")
		if err := os.WriteFile(from, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(strings.TrimSpace(string(out)), "kube-scheduler"), "--config="+from, "--secure-port=0", "--write-config-to="+to)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	const want = "- name: NodeResourcesBalancedAllocation\n        weight: 10\n"
	if !strings.Contains(files["tonnage"], want) || strings.Contains(files["default"], want) {
		t.Errorf("the scheduler has read\n%s", files["tonnage"])
	}
}
