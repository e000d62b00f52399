package kubee2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
)

// Types of machines, and the pods that fill one each.
const (
	hostType  = "host"
	urgentPod = "urgent" // on machines of hostType, of higher priority
	hostCores = "4"
	execEvery = 5 * time.Second // between two roll-ups
)

// execFleet is a fleet whose machines are processes and guests, made by driver exec.
type execFleet struct {
	*fleet
	provider *process
	orphans  string // URL of the provider's
	metrics  string // URL of the shard's
	hosts    string // folder of the machines that are processes
	guests   string // of those that are guests
}

// newExecFleet starts two clusters, a provider with driver exec and a shard.
func newExecFleet(t *testing.T) *execFleet {
	t.Helper()
	f := &execFleet{fleet: &fleet{t: t, dir: t.TempDir(), p: findPrograms(t)}, hosts: t.TempDir(), guests: t.TempDir()}
	for _, dir := range []string{f.hosts, f.guests} {
		undertaker(t, dir)
	}
	t.Cleanup(func() {
		for _, dir := range []string{f.hosts, f.guests} {
			for _, pid := range processesOf(t, dir+"/") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	for _, name := range []string{"blue", "green"} {
		c := newCluster(t, f.p, name)
		c.template = bootstrapTemplate(t, c)
		f.clusters = append(f.clusters, c)
		f.watches = append(f.watches, watchCluster(t, c))
	}
	ports := freeport.TakeN(t, 4)
	f.orphans, f.metrics = "http://"+ports[2]+"/orphans", "http://"+ports[3]+"/metrics"
	f.provider = startAgain(t, true, f.dir, "provider", filepath.Join(f.p.ours, "tonnage-provider"), "serve", "--listen="+ports[0], "--metrics-addr="+ports[2],
		"--data-dir="+filepath.Join(f.dir, "provider"), "--pools="+f.pools())
	f.shard = startAgain(t, true, f.dir, "shard", filepath.Join(f.p.ours, "tonnage"), "shard", "--listen="+ports[1], "--metrics-addr="+ports[3], "--provider-addr="+ports[0],
		"--data-dir="+filepath.Join(f.dir, "shard"), "--cycle-interval=2s", "--audit-log="+f.auditFile(), "--reclaim-cap-fraction=0.5", "--breaker-share=0")
	f.maker = newMaker(t, ports[0], nil)
	for _, c := range f.clusters {
		c.startOperators(ports[1], execEvery, "a")
	}
	f.record = newRecorder(f.fleet)
	f.watchOwners()
	return f
}

// pools writes the pools file.
func (f *execFleet) pools() string {
	f.t.Helper()
	kind := func(script string, env map[string]string) map[string]any {
		return map[string]any{"name": script, "kind": "exec", "launchesPerMinute": 6000, "launchBurst": 100, "config": map[string]any{
			"command": []string{kubetest.Root("deploy", "exec", script, script)}, "env": env,
		}}
	}
	pool := func(script, instance string, machines int, has map[string]string, labels map[string]string) map[string]any {
		return map[string]any{
			"name": script, "driver": script, "machines": machines, "labels": labels, "zones": []string{"z0"},
			"types": []any{map[string]any{"name": instance, "resources": has, "prices": []any{map[string]any{"capacityType": "Spot", "pricePerHour": execPrice, "interruptionProbability": 0.001}}}},
		}
	}
	drivers := []any{kind("process", map[string]string{"MACHINES": f.hosts})}
	// kwok is the kubelet of machines that are processes; guests have their own.
	all := []any{pool("process", hostType, *machines, map[string]string{"cpu": hostCores, "memory": "16Gi", "pods": "110"}, map[string]string{"type": "kwok"})}
	if *guests > 0 {
		drivers = append(drivers, kind("qemu", map[string]string{"MACHINES": f.guests, "GUEST": buildGuest(f.t), "ACCEL": "tcg"}))
		all = append(all, pool("qemu", guestType, *guests, map[string]string{"cpu": "1", "memory": "2Gi", "pods": "110"}, map[string]string{rackKey: "r1"}))
	}
	text, err := json.Marshal(map[string]any{"drivers": drivers, "pools": all})
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.dir, "pools.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// bootstrapTemplate writes the template of a cluster's bootstrap data: a kubeconfig for guests, a
// program for processes. Which of them is wanted shows in the requirements.
func bootstrapTemplate(t *testing.T, c *cluster) string {
	t.Helper()
	token := letJoin(t, c)
	text := `{{$guest := false}}{{range .Requirements}}{{if eq .Key "node.kubernetes.io/instance-type"}}{{range .Values}}{{if eq . "` + guestType +
		`"}}{{$guest = true}}{{end}}{{end}}{{end}}{{end}}{{if $guest}}` + string(guestBlob(t, c, token)) + `{{else}}` + userData(t, c, token) + `{{end}}`
	path := filepath.Join(c.dir, "bootstrap.tmpl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// filling is so many pods, each of which fills a machine of a type.
func filling(kind string, pods int32) *appsv1.Deployment {
	d := deployment(kind, pods)
	d.Spec.Template.Spec.NodeSelector = map[string]string{"node.kubernetes.io/instance-type": kind}
	if kind == urgentPod {
		d.Spec.Template.Spec.NodeSelector["node.kubernetes.io/instance-type"] = hostType
		d.Spec.Template.Spec.PriorityClassName = "urgent"
	}
	if kind != guestType {
		// Requests and limits are one map.
		d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(hostCores)
	}
	return d
}

// execPrice is what each machine costs an hour.
const execPrice = 0.4

// spent returns what the shard says that machines cost an hour.
func (f *execFleet) spent() (sum float64, err error) {
	c := &http.Client{Timeout: 5 * time.Second}
	answer, err := c.Get(f.metrics)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), "} "); strings.HasPrefix(name, "tonnage_shard_spend_dollars_per_hour{") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, lines.Err()
}

// folders returns the names of the machines that a folder of a script holds, and the processes
// that they have.
func (f *execFleet) folders(dir string) (names []string, pids int) {
	f.t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
		if processOf(filepath.Join(dir, d.Name())) != 0 {
			pids++
		}
	}
	return names, pids
}

// processOf returns the process that is a machine, 0 = it has none.
func processOf(dir string) (pid int) {
	text, err := os.ReadFile(filepath.Join(dir, "process"))
	if err != nil {
		return 0
	}
	var began string
	if _, err := fmt.Sscan(string(text), &pid, &began); err != nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || !strings.Contains(string(stat), " "+began+" ") {
		return 0
	}
	return pid
}

// hasHost tells whether a machine in the state is one that exists.
func hasHost(s pb.MachineState) bool {
	switch s {
	case pb.MachineState_MACHINE_STATE_SPECULATIVE, pb.MachineState_MACHINE_STATE_FAILED:
		return false
	}
	return true
}
