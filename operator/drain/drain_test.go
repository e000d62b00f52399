package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// TestLeaves: who is evicted.
func TestLeaves(t *testing.T) {
	owned := func(kind string, controller bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &controller}}}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"bare":                     {&corev1.Pod{}, true},
		"ReplicaSet":               {owned("ReplicaSet", true), true},
		"DaemonSet":                {owned("DaemonSet", true), false},
		"known to a DaemonSet":     {owned("DaemonSet", false), true},
		"mirror":                   {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: ""}}}, false},
		"succeeded":                {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"failed":                   {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, false},
		"running and being ended":  {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, true},
		"pending, bound to a node": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, true},
	} {
		if got := leaves(c.pod); got != c.want {
			t.Errorf("%s: leaves is %v", name, got)
		}
	}
}

// TestLeftIsReadSensibly: whatever the clock was set to meanwhile, a drain lasts no longer
// than it was to, and is not over before anything could leave.
func TestLeftIsReadSensibly(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		grace   string
		remains time.Duration // by the wall clock
		want    time.Duration
	}{
		{"10m", 5 * time.Minute, 5 * time.Minute},
		{"10m", 5*time.Minute + time.Hour, 10 * time.Minute},
		{"10m", 5*time.Minute - time.Hour, GraceDefault},
		{"10m", time.Second, GraceDefault},
		{"5s", 3 * time.Second, 5 * time.Second},
		{"5s", -time.Hour, 5 * time.Second},
		{"5s", time.Hour, 5 * time.Second},
		{"", 5 * time.Minute, 5 * time.Minute},
		{"", -time.Hour, GraceDefault},
		{"-5s", time.Second, GraceDefault},
		{"much", time.Minute, time.Minute},
	} {
		n := &api.UpcomingNode{}
		n.Annotations = map[string]string{
			api.AnnotationDrainDeadline: now.Add(c.remains).Format(time.RFC3339Nano), api.AnnotationDrainGrace: c.grace,
		}
		if got := left(n, now); got != c.want {
			t.Errorf("grace %q, deadline in %v: %v are left, want %v", c.grace, c.remains, got, c.want)
		}
	}
}

// TestGraceInAllIsKept: a drain that is asked for again has the grace that it had.
func TestGraceInAllIsKept(t *testing.T) {
	for _, c := range []struct {
		written string
		goesOn  bool
		takes   time.Duration
		want    string
	}{
		{"", false, 10 * time.Minute, "10m0s"},
		{"10m0s", true, time.Minute, "10m0s"},
		{"10m0s", true, -time.Second, "10m0s"},
		{"10m0s", false, time.Minute, "1m0s"},
		{"", true, -time.Second, "0s"},
	} {
		if got := graceInAll(c.written, c.goesOn, c.takes); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestProviderKeys(t *testing.T) {
	for id, want := range map[string]string{"": "", "i-1": "i-1", "aws:///eu-1a/i-1": "aws:///eu-1a/i-1 i-1", "odd/": "odd/"} {
		if got := strings.Join(ProviderKeys(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}), " "); got != want {
			t.Errorf("%q is found by %q, want %q", id, got, want)
		}
	}
}

// TestErrorNamesSome: not hundreds.
func TestErrorNamesSome(t *testing.T) {
	var pods []string
	for i := range 100 {
		pods = append(pods, fmt.Sprint("default/p", i))
	}
	text := errLeft(pods)
	if !strings.Contains(text, "100 pods") || !strings.Contains(text, "default/p4 and 95 more") || strings.Contains(text, "p5 ") {
		t.Errorf("error is %s", text)
	}
	if text := errLeft(slices.Clone(pods[:1])); !strings.Contains(text, "[default/p0]") {
		t.Errorf("error is %s", text)
	}
}
