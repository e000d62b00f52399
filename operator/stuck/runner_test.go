package stuck

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestPause: a runner hurries while pods have become unschedulable lately, and rounds that take long leave time for others.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		waits bool
		took  time.Duration
		want  time.Duration
	}{
		{false, time.Millisecond, every},
		{false, time.Minute, every},
		{true, time.Millisecond, hurry},
		{true, 300 * time.Millisecond, 3 * time.Second},
		{true, time.Minute, every},
	} {
		if got := (&Runner{waits: c.waits}).pause(c.took); got != c.want {
			t.Errorf("waits %v: after %v it pauses for %v, want %v", c.waits, c.took, got, c.want)
		}
	}
}

// TestTold: a pod that waits is told a thing once, also when it is said again later.
func TestTold(t *testing.T) {
	var events []string
	r := &Runner{Event: func(pod *corev1.Pod, reason, _ string) { events = append(events, pod.Name+" "+reason) }}
	pod := &corev1.Pod{}
	pod.Name, pod.UID = "p", "1"
	added := []Note{{pod, Added, "more"}}
	pods := []*corev1.Pod{pod}
	for _, notes := range [][]Note{added, added, nil, added, {{pod, GivenUp, "no more"}}} {
		r.tell(notes, pods)
	}
	r.tell(nil, nil) // it is gone
	r.tell(added, pods)
	if want := []string{"p MachineAsked", "p MachinesDidNotHelp", "p MachineAsked"}; !slices.Equal(events, want) {
		t.Errorf("events are %q, want %q", events, want)
	}
}
