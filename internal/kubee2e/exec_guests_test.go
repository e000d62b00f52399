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

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/driver"
)

// guestType is the instance type of machines that QEMU emulates.
const guestType = "guest"

// buildGuest builds kernel and initramfs, once on a machine.
func buildGuest(t *testing.T) string {
	t.Helper()
	needPrograms(t, "qemu-system-x86 cpio", "qemu-system-x86_64", "cpio", "apt-get", "dpkg")
	dir := *guestDir
	if dir == "" {
		dir = t.TempDir()
	}
	if out, err := osexec.Command(kubetest.Root("deploy", "exec", "qemu", "build"), dir).CombinedOutput(); err != nil {
		t.Fatalf("building the guest: %v: %s", err, out)
	}
	return dir
}

// newGuests makes the driver of guests.
func newGuests(t *testing.T) *hands {
	t.Helper()
	machines := t.TempDir()
	undertaker(t, machines)
	h := newHands(t, "qemu", machines, map[string]string{"MACHINES": machines, "GUEST": buildGuest(t), "ACCEL": "tcg"})
	t.Cleanup(func() {
		logs, _ := filepath.Glob(machines + "/*/log")
		for _, file := range logs {
			text, _ := os.ReadFile(file)
			if t.Failed() {
				t.Logf("the end of %s:\n%s", file, text[max(0, len(text)-logTail):])
			}
		}
		for _, pid := range processesOf(t, machines) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return h
}

// TestExecGuests has real machines, as far as QEMU goes, join a cluster and leave it.
func TestExecGuests(t *testing.T) {
	want(t, "exec-guests")
	h := newGuests(t)
	p := findPrograms(t)
	c := newCluster(t, p, "blue")
	w := watchCluster(t, c)
	token := letJoin(t, c)
	ctx := t.Context()

	good, other, wrong := machineOf("guest/1", guestType), machineOf("guest/2", guestType), machineOf("guest/3", guestType)
	for _, m := range []*driver.Machine{good, other, wrong} {
		h.must(h.Create(ctx, m, driver.Owner{Shard: "s"}))
	}
	for _, m := range []*driver.Machine{good, other, wrong} {
		h.await(m.ID, driver.Idle)
	}
	h.must(h.Configure(ctx, good, bind("blue", guestBlob(t, c, token))))
	h.must(h.Configure(ctx, other, bind("blue", guestBlob(t, c, token))))
	h.must(h.Configure(ctx, wrong, bind("blue", guestBlob(t, c, "wrong"))))
	if o := h.await(wrong.ID, driver.Failed); o.Reason != "the API server answers 401: Unauthorized" {
		t.Errorf("of wrong credentials it is said: %q", o.Reason)
	}
	for _, m := range []*driver.Machine{good, other} {
		o := h.await(m.ID, driver.Configured)
		name := driver.ObjectName(m.ID, 1)
		if o.Node != name || o.Ref != "qemu://"+name || o.Labels[rackKey] != "r1" || !o.Allocatable.Covers(m.Offer.Allocatable) || len(o.Taints) != 0 {
			t.Errorf("observed %+v", o)
		}
		var node corev1.Node
		h.must(c.client.Get(ctx, client.ObjectKey{Name: name}, &node))
		if node.Spec.ProviderID != o.Ref {
			t.Errorf("the node's providerID is %s, the machine's ref is %s", node.Spec.ProviderID, o.Ref)
		}
	}

	// The nodes stay ready, since the guests renew their leases; pods run on them.
	h.must(c.client.Create(ctx, deployment(guestType, 6)))
	took := eventually(t, *limit, "pods run on the guests", func() string {
		if n := w.running(guestType); n != 6 {
			return fmt.Sprintf("%d of 6 run", n)
		}
		return ""
	})
	t.Logf("6 pods run on guests after %.1f s", took.Seconds())
	renewed := leaseOf(t, c, good)
	eventually(t, *limit, "the lease is renewed", func() string {
		if !leaseOf(t, c, good).After(renewed) {
			return "it was not"
		}
		return ""
	})

	// A drain waits for pods, which somebody else takes away.
	h.must(h.Drain(ctx, good, time.Now().Add(time.Hour)))
	h.await(good.ID, driver.Draining)
	h.must(c.client.Delete(ctx, deployment(guestType, 6)))
	h.await(good.ID, driver.Idle)
	for _, o := range []client.Object{&corev1.Node{}, &coordinationv1.Lease{}} {
		key := client.ObjectKey{Name: driver.ObjectName(good.ID, 1)}
		if _, lease := o.(*coordinationv1.Lease); lease {
			key.Namespace = "kube-node-lease"
		}
		if err := c.client.Get(ctx, key, o); !apierrors.IsNotFound(err) {
			t.Errorf("of a machine that has left, %T is there: %v", o, err)
		}
	}

	// One that is killed is no more; the others are removed when that is asked for.
	for _, pid := range processesOf(t, driver.ObjectName(other.ID, 1)) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	h.await(other.ID, 0)
	for _, m := range []*driver.Machine{good, wrong} {
		h.must(h.Delete(ctx, m))
		h.must(h.Delete(ctx, m))
		h.await(m.ID, 0)
	}
	eventually(t, *limit, "nothing is left", func() string {
		h.look()
		left, err := os.ReadDir(h.machines)
		if pids := processesOf(t, h.machines); err != nil || len(left) > 0 || len(pids) > 0 {
			return fmt.Sprint(left, pids, err)
		}
		return ""
	})
}

// leaseOf returns when a machine's lease was renewed.
func leaseOf(t *testing.T, c *cluster, m *driver.Machine) time.Time {
	t.Helper()
	var lease coordinationv1.Lease
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-node-lease", Name: driver.ObjectName(m.ID, 1)}, &lease); err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

// TestExecGuestBuild: without kernel, nothing is created, and it is said what makes it.
func TestExecGuestBuild(t *testing.T) {
	want(t, "exec-guests")
	needPrograms(t, "qemu-system-x86", "qemu-system-x86_64")
	machines := t.TempDir()
	undertaker(t, machines)
	h := newHands(t, "qemu", machines, map[string]string{"MACHINES": machines, "GUEST": machines + "/none"})
	err := h.Create(t.Context(), machineOf("guest/1", guestType), driver.Owner{})
	if err == nil || !strings.Contains(err.Error(), "permanent error: there is no kernel or no initramfs") {
		t.Errorf("without a kernel: %v", err)
	}
}
