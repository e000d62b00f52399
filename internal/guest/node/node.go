package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"
)

const (
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	renewEvery = 10 * time.Second
	leaseTime  = 40 // seconds, as kubelets have it
	notReady   = "node.kubernetes.io/not-ready"
)

// object is an object of Kubernetes as it is sent.
type object = map[string]any

// node is the machine as a node of a cluster.
type node struct {
	order   *order
	server  *server
	made    bool
	renewed time.Time
}

func (n *node) path() string { return "/api/v1/nodes/" + url.PathEscape(n.order.Name) }

// keep makes the node, keeps its lease and has pods run. It returns what the node is like, JSON,
// "" as long as it is not ready.
func (n *node) keep(ctx context.Context) (string, error) {
	if !n.made {
		err := n.server.call(ctx, http.MethodPost, "/api/v1/nodes", applicationJS, n.object(), nil, http.StatusConflict)
		if err != nil {
			return "", err
		}
		n.made = true
	}
	if time.Since(n.renewed) > renewEvery {
		if err := n.renew(ctx); err != nil {
			return "", err
		}
		n.renewed = time.Now()
	}
	if _, err := n.pods(ctx); err != nil {
		return "", err
	}
	return n.facts(ctx)
}

func (n *node) object() object {
	labels := object{"kubernetes.io/hostname": n.order.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	for k, v := range n.order.Labels {
		labels[k] = v
	}
	return object{
		"apiVersion": "v1", "kind": "Node", "metadata": object{"name": n.order.Name, "labels": labels},
		"spec":   object{"providerID": n.order.ProviderID, "taints": n.order.Taints},
		"status": object{"capacity": n.order.Allocatable, "allocatable": n.order.Allocatable, "conditions": []object{n.ready()}},
	}
}

func (n *node) ready() object {
	now := time.Now().UTC().Format(time.RFC3339)
	return object{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the guest runs", "lastHeartbeatTime": now, "lastTransitionTime": now}
}

// renew says that the node lives: in its lease, and in its status as a kubelet does now and then.
func (n *node) renew(ctx context.Context) error {
	lease := object{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": object{"name": n.order.Name, "namespace": "kube-node-lease"},
		"spec":     object{"holderIdentity": n.order.Name, "leaseDurationSeconds": leaseTime, "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")},
	}
	err := n.server.call(ctx, http.MethodPatch, leasePath+"/"+n.order.Name, mergePatch, lease, nil)
	if missing := (*refusal)(nil); errors.As(err, &missing) && missing.code == http.StatusNotFound {
		err = n.server.call(ctx, http.MethodPost, leasePath, applicationJS, lease, nil, http.StatusConflict)
	}
	if err != nil {
		return err
	}
	return n.server.call(ctx, http.MethodPatch, n.path()+"/status", "application/strategic-merge-patch+json", object{"status": object{"conditions": []object{n.ready()}}}, nil)
}

// pods has the pods that were put on the node run, and lets those go that are to go. It returns
// how many are left that somebody could take away.
func (n *node) pods(ctx context.Context) (left int, err error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name, Namespace   string
				DeletionTimestamp *time.Time
				OwnerReferences   []struct{ Kind string }
			}
			Status struct{ Phase string }
		}
	}
	if err := n.server.call(ctx, http.MethodGet, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+n.order.Name), applicationJS, nil, &list); err != nil {
		return 0, err
	}
	for i := range list.Items {
		p := &list.Items[i]
		path := "/api/v1/namespaces/" + url.PathEscape(p.Metadata.Namespace) + "/pods/" + url.PathEscape(p.Metadata.Name)
		if len(p.Metadata.OwnerReferences) == 0 || p.Metadata.OwnerReferences[0].Kind != "DaemonSet" {
			left++
		}
		switch {
		case p.Metadata.DeletionTimestamp != nil:
			err = n.server.call(ctx, http.MethodDelete, path, applicationJS, object{"gracePeriodSeconds": 0}, nil, http.StatusNotFound)
		case p.Status.Phase == "Pending":
			err = n.server.call(ctx, http.MethodPatch, path+"/status", mergePatch, object{"status": object{
				"phase": "Running", "startTime": time.Now().UTC().Format(time.RFC3339),
				"conditions": []object{{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}},
			}}, nil, http.StatusNotFound)
		}
		if err != nil {
			return left, err
		}
	}
	return left, nil
}

// facts says what the node is like, "" while it is not ready.
func (n *node) facts(ctx context.Context) (string, error) {
	var is struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct{ Taints []taint }
		Status   struct {
			Allocatable map[string]string
			Conditions  []struct{ Type, Status string }
		}
	}
	if err := n.server.call(ctx, http.MethodGet, n.path(), applicationJS, nil, &is); err != nil {
		return "", err
	}
	ready := false
	for _, c := range is.Status.Conditions {
		ready = ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, t := range is.Spec.Taints {
		ready = ready && t.Key != notReady
	}
	if !ready {
		return "", nil
	}
	text, err := json.Marshal(object{"labels": is.Metadata.Labels, "taints": append([]taint{}, is.Spec.Taints...), "allocatable": is.Status.Allocatable})
	if err != nil {
		return "", err
	}
	return string(text[1 : len(text)-1]), nil // the keys of an object, without its braces
}

// remove removes lease and node.
func (n *node) remove(ctx context.Context) error {
	for _, path := range []string{leasePath + "/" + n.order.Name, n.path()} {
		if err := n.server.call(ctx, http.MethodDelete, path, applicationJS, nil, nil, http.StatusNotFound); err != nil {
			return err
		}
	}
	return nil
}
