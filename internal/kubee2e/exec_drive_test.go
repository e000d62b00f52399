package kubee2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
)

// hands is a driver of one of the scripts of deploy/exec, called as the provider calls it.
type hands struct {
	*exec.Driver
	t        *testing.T
	machines string // the script's folder
}

// newHands makes the driver of a script, with variables of the environment.
func newHands(t *testing.T, script, machines string, env map[string]string) *hands {
	t.Helper()
	section, err := json.Marshal(map[string]any{"command": []string{kubetest.Root("deploy", "exec", script, script)}, "env": env})
	if err != nil {
		t.Fatal(err)
	}
	s, err := exec.ParseSettings(section)
	if err != nil {
		t.Fatal(err)
	}
	return &hands{Driver: exec.New(s, slog.New(slog.NewTextHandler(os.Stderr, nil))), t: t, machines: machines}
}

// must ends the test when a verb fails.
func (h *hands) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// look returns what is observed, by machine.
func (h *hands) look() map[string]driver.Observation {
	h.t.Helper()
	out := map[string]driver.Observation{}
	h.must(h.Observe(h.t.Context(), func(o *driver.Observation) { out[o.ID] = *o }))
	return out
}

// await waits until a machine is in a phase, 0 when it is to be no more.
func (h *hands) await(id string, phase driver.Phase) driver.Observation {
	h.t.Helper()
	var o driver.Observation
	took := eventually(h.t, *limit, fmt.Sprintf("machine %s is %v", id, phase), func() string {
		if o = h.look()[id]; o.Phase != phase {
			return fmt.Sprintf("it is %v: %s", o.Phase, o.Reason)
		}
		return ""
	})
	h.t.Logf("%s is %v after %.1f s", id, phase, took.Seconds())
	return o
}

// machineOf is a machine of a type.
func machineOf(id, instance string) *driver.Machine {
	has := model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: 8 << 30}, model.Amount{Name: "pods", Value: 110})
	return &driver.Machine{ID: id, Generation: 1, Offer: driver.Offer{
		Key:       driver.Key{Pool: instance, InstanceType: instance, Zone: "z1", CapacityType: model.BareMetal},
		Resources: has, Allocatable: has, Labels: map[string]string{rackKey: "r1"},
	}}
}

// bind is a binding with bootstrap data.
func bind(cluster string, blob []byte) *driver.Binding {
	return &driver.Binding{Owner: driver.Owner{Shard: "s", Epoch: 1, Sequence: 1}, Cluster: cluster, Blob: blob}
}

// letJoin lets machines join a cluster, and returns the token that they do it with.
func letJoin(t *testing.T, c *cluster) string {
	t.Helper()
	c.kubectl("apply", "-f", kubetest.Root("deploy", "exec", "joiner.yaml"))
	return c.kubectl("-n", "kube-system", "create", "token", "joiner", "--duration=24h")
}

// guestBlob is a kubeconfig in JSON with which a guest of QEMU reaches a cluster on loopback.
func guestBlob(t *testing.T, c *cluster, token string) []byte {
	t.Helper()
	ca, err := os.ReadFile(c.ca.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(c.address, ":")
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config",
 "clusters":[{"name":"c","cluster":{"server":"https://10.0.2.2:%s","tls-server-name":"localhost","certificate-authority-data":%q}}],
 "users":[{"name":"u","user":{"token":%q}}]}`, port, base64.StdEncoding.EncodeToString(ca), token)
}

// userData are the bootstrap data of a machine that is a process: the template of the example,
// written out for a cluster.
func userData(t *testing.T, c *cluster, token string) string {
	t.Helper()
	text, err := os.ReadFile(kubetest.Root("deploy", "exec", "process", "userdata.sh.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.ca.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	r := strings.NewReplacer("'SERVER'", "'https://"+c.address+"'", "'TOKEN'", "'"+token+"'", "'CA'", "'"+strings.TrimSpace(string(ca))+"'")
	return r.Replace(string(text))
}

// needPrograms leaves the test out where programs are missing, and says what installs them.
func needPrograms(t *testing.T, packages string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := osexec.LookPath(p); err != nil {
			t.Skipf("there is no %s; tools/need %s installs it on Debian as root", p, packages)
		}
	}
}

// processesOf returns the processes with a word in their arguments that contains a text.
func processesOf(t *testing.T, text string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		words, _ := os.ReadFile(file) // one that has ended meanwhile has none
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() && strings.Contains(string(words), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}
