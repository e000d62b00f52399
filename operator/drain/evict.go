package drain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// work empties the node, and writes down how it ended.
func (d *Drainer) work(ctx context.Context, w *worker) {
	var left []string
	for {
		pods, err := d.remaining(ctx, w)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.cfg.Log.Warn("drain: pods cannot be listed", "node", w.node, "error", err)
		case len(pods) == 0:
			d.end(ctx, w, api.NodeDrained, "")
			return
		}
		if !d.cfg.Now().Before(w.deadline) {
			if err != nil {
				left = []string{err.Error()}
			}
			for i := range pods {
				left = append(left, pods[i].Namespace+"/"+pods[i].Name)
			}
			d.end(ctx, w, api.NodeFailed, errLeft(left))
			return
		}
		for i := range pods {
			d.evict(ctx, w, &pods[i])
		}
		select {
		case <-time.After(min(round, max(w.deadline.Sub(d.cfg.Now()), 0))):
		case <-ctx.Done():
			return
		}
	}
}

// remaining returns the pods that are to leave the node.
func (d *Drainer) remaining(ctx context.Context, w *worker) ([]corev1.Pod, error) {
	if w.node == "" {
		return nil, nil
	}
	var list corev1.PodList
	if err := d.cfg.Pods.List(ctx, &list, client.MatchingFields{"spec.nodeName": w.node}); err != nil {
		return nil, err
	}
	pods := list.Items[:0]
	for i := range list.Items {
		if leaves(&list.Items[i]) {
			pods = append(pods, list.Items[i])
		}
	}
	return pods, nil
}

// leaves tells whether a drain waits for a pod.
func leaves(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// evict asks for one pod's eviction. What is refused is asked for again in the
// next round.
func (d *Drainer) evict(ctx context.Context, w *worker, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return // it is leaving
	}
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	// A pod whose grace period exceeds the remaining time gets a shorter one.
	if left := int64(w.deadline.Sub(d.cfg.Now()) / time.Second); pod.Spec.TerminationGracePeriodSeconds != nil && *pod.Spec.TerminationGracePeriodSeconds > max(left, 1) {
		options.GracePeriodSeconds = new(max(left, 1))
	}
	// An eviction that is broken off may have used up the budget of its pod without deleting it, and
	// would be refused for minutes: it goes on when another worker takes the drain over.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), evictionTimeout)
	defer cancel()
	err := d.cfg.Client.SubResource("eviction").Create(limited, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: options,
	})
	switch {
	case err == nil:
		d.cfg.Metrics.Eviction("evicted")
	case apierrors.IsTooManyRequests(err):
		d.cfg.Metrics.Eviction("refused")
		d.cfg.Log.Debug("drain: an eviction would break a disruption budget", "pod", pod.Namespace+"/"+pod.Name)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		d.cfg.Metrics.Eviction("gone")
	default:
		d.cfg.Metrics.Eviction("error")
		d.cfg.Log.Warn("drain: eviction failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
}

// end writes down how a drain ended. It is tried until it succeeds.
func (d *Drainer) end(ctx context.Context, w *worker, phase api.NodePhase, why string) {
	for {
		var ended *api.UpcomingNode
		err := d.cfg.Nodes.Amend(ctx, w.machine, func(n *api.UpcomingNode) {
			n.Status.Phase, n.Status.LastError = phase, why
			ended = n.DeepCopy()
		})
		if err == nil && ended != nil {
			d.told(w, ended)
		}
		if err == nil {
			return
		}
		d.cfg.Log.Warn("drain: its end cannot be written", "machine", w.machine, "error", err)
		select {
		case <-time.After(round):
		case <-ctx.Done():
			return
		}
	}
}

func (d *Drainer) told(w *worker, n *api.UpcomingNode) {
	if n.Status.Phase == api.NodeDrained {
		d.cfg.Metrics.Drain("drained")
		d.cfg.Event(n, false, "Drained", fmt.Sprintf("node %q is empty", w.node))
	} else {
		d.cfg.Metrics.Drain("failed")
		d.cfg.Event(n, true, "DrainFailed", n.Status.LastError)
	}
	d.cfg.Log.Info("drain ended", "machine", w.machine, "node", w.node, "phase", n.Status.Phase, "error", n.Status.LastError)
}
