package kubee2e

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/provider/driver"
)

// domainXML is a domain of libvirt's test driver, which holds its state in memory.
const domainXML = `<domain type='test'><name>@NAME@</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<devices><disk type='file' device='cdrom'><source file='@SEED@'/><target dev='sda' bus='sata'/><readonly/></disk></devices></domain>
`

// startLibvirt starts a libvirtd of a user who may do nothing, with its own socket, and returns
// the connection to its test driver. What that holds lives as long as somebody is connected.
func startLibvirt(t *testing.T) (connection string) {
	t.Helper()
	needPrograms(t, "libvirt-daemon libvirt-clients xorriso", "libvirtd", "virsh", "xorriso")
	dir, err := os.MkdirTemp("/tmp", "tonnage-libvirt") //nolint:usetesting // its owner is another user, who may not enter that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	settings := fmt.Sprintf("unix_sock_dir = %q\nauth_unix_ro = \"none\"\nauth_unix_rw = \"none\"\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := osexec.Command("libvirtd", "--config", filepath.Join(dir, "conf"), "--pid-file", filepath.Join(dir, "pid"))
	daemon.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=" + os.Getenv("PATH")}
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		const nobody = 65534
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		daemon.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "libvirtd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	connection = "test+unix:///default?socket=" + filepath.Join(dir, "libvirt-sock")
	keeper := osexec.Command("virsh", "-q", "-c", connection)
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	eventually(t, startLimit, "libvirt answers", func() string {
		if out, err := osexec.Command("virsh", "-q", "-c", connection, "list").CombinedOutput(); err != nil {
			return string(out)
		}
		return ""
	})
	hold, err := keeper.StdinPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hold.Close(); _ = keeper.Wait() })
	return connection
}

// TestExecVirsh has domains of libvirt's test driver come and go. Their nodes are made by the
// test, as no such domain boots; that they are there is seen by the script in a real API server.
func TestExecVirsh(t *testing.T) {
	want(t, "exec-virsh")
	connection := startLibvirt(t)
	c := newCluster(t, findPrograms(t), "blue")
	ctx := t.Context()
	files, seeds := t.TempDir(), t.TempDir()
	admin, err := os.ReadFile(c.ca.file("admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"domain.xml": domainXML, "blue.yaml": string(admin)} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newHands(t, "virsh", seeds, map[string]string{
		"LIBVIRT": connection, "DOMAIN": filepath.Join(files, "domain.xml"), "SEEDS": seeds, "KUBECONFIGS": files,
		"PATH": c.p.kubernetes + ":" + os.Getenv("PATH"), "CAPACITY": "3",
	})
	virsh := func(args ...string) string {
		out, err := osexec.Command("virsh", append([]string{"-q", "-c", connection}, args...)...).CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	twice := func(call func() error) {
		t.Helper()
		h.must(call())
		h.must(call())
	}
	first, second, third := machineOf("vm/1", "vm"), machineOf("vm/2", "vm"), machineOf("vm/3", "vm")
	name := driver.ObjectName(first.ID, 1)
	twice(func() error { return h.Create(ctx, first, driver.Owner{Shard: "s"}) })
	twice(func() error { return h.Create(ctx, second, driver.Owner{Shard: "s"}) })
	if err := h.Create(ctx, third, driver.Owner{}); err == nil || !strings.Contains(err.Error(), "insufficient capacity: this host has room for 3 domains") {
		t.Errorf("a domain too many: %v", err)
	}
	h.await(first.ID, driver.Idle)
	if err := h.Configure(ctx, first, bind("green", []byte("x"))); err == nil || !strings.Contains(err.Error(), "green.yaml") {
		t.Errorf("for a cluster that nobody knows: %v", err)
	}
	twice(func() error { return h.Configure(ctx, first, bind("blue", []byte("#cloud-config\nhostname: x\n"))) })
	h.await(first.ID, driver.Configuring)
	if text, err := os.ReadFile(filepath.Join(seeds, name+".iso")); err != nil || !strings.Contains(string(text), "#cloud-config\nhostname: x") || !strings.Contains(string(text), "local-hostname: "+name) {
		t.Errorf("the seed lacks the bootstrap data: %v", err)
	}
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	h.must(c.client.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": "kwok", "a": "b"}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: "vm://" + name}, Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
	}))
	if o := h.await(first.ID, driver.Configured); o.Ref != "vm://"+name || o.Node != name || o.Labels["a"] != "b" || o.Allocatable.Get("cpu") != 4000 || len(o.Taints) != 0 || o.Cluster != "blue" {
		t.Errorf("observed %+v", o)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	h.must(c.client.Create(ctx, pod))
	twice(func() error { return h.Drain(ctx, first, time.Now().Add(time.Hour)) })
	h.await(first.ID, driver.Draining)
	h.must(c.client.Delete(ctx, pod))
	h.await(first.ID, driver.Idle)
	eventually(t, *limit, "the node is gone", func() string { return nodeThere(t, c, name) })

	// A domain that somebody stopped has failed; one that somebody removed is no more.
	virsh("destroy", name)
	if o := h.await(first.ID, driver.Failed); o.Reason != "the domain is shut off" {
		t.Errorf("the reason is %q", o.Reason)
	}
	twice(func() error { return h.Delete(ctx, first) })
	h.await(first.ID, 0)
	virsh("destroy", driver.ObjectName(second.ID, 1))
	virsh("undefine", driver.ObjectName(second.ID, 1))
	h.await(second.ID, 0)
	h.must(h.Delete(ctx, second))
	if all := virsh("list", "--all", "--name"); all != "test" {
		t.Errorf("in the end there are the domains %q, not only that of the test driver", all)
	}
	if left, err := os.ReadDir(seeds); err != nil || len(left) > 0 {
		t.Errorf("in the end there are the seeds %v, %v", left, err)
	}
}

// nodeThere says that a node is there, "" if it is not.
func nodeThere(t *testing.T, c *cluster, name string) string {
	t.Helper()
	var nodes corev1.NodeList
	if err := c.client.List(t.Context(), &nodes); err != nil {
		return err.Error()
	}
	for i := range nodes.Items {
		if nodes.Items[i].Name == name {
			return "it is there"
		}
	}
	return ""
}
