package karpenter

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	// missingFor is how long the node of a machine must be away before the machine is lost. The claim may be seen
	// before its node is.
	missingFor = 4 * time.Second
	// strippedFor is how long a node is believed to be there that lacks the driver's label.
	strippedFor = 30 * time.Second
)

// absence is what is known of a node that is not in the table.
type absence struct {
	since time.Time
	gone  bool      // it is not there at all
	there time.Time // when it was found without the label; zero = never
}

// nodeMissing says in an observation that the node of a registered claim is not in the table. Karpenter looks for
// such claims every two minutes, and deletes them; a machine that is gone must be known within seconds.
func (c *cluster) nodeMissing(ctx context.Context, row *claim, o *driver.Observation) {
	o.Reason = fmt.Sprintf("node %s is not there", row.node)
	c.mu.Lock()
	a := c.missing[row.name]
	if a == nil {
		a = &absence{since: time.Now()}
		c.missing[row.name] = a
	}
	seen := *a
	c.mu.Unlock()
	if time.Since(seen.since) < missingFor {
		return
	}
	if !seen.gone && time.Since(seen.there) >= strippedFor {
		there, err := c.nodeExists(ctx, row.node)
		if err != nil {
			o.Reason = err.Error()
			return
		}
		if seen.gone = !there; there {
			seen.there = time.Now()
		}
		c.mu.Lock()
		*a = seen
		c.mu.Unlock()
	}
	if seen.gone {
		o.Phase, o.Reason = driver.Failed, fmt.Sprintf("its node %s is gone from cluster %q", row.node, c.id)
		return
	}
	o.Reason = fmt.Sprintf("node %s lacks the label %s, by which it is watched", row.node, kube.LabelScope)
}

// nodeExists asks whether a node is there, whatever its labels.
func (c *cluster) nodeExists(ctx context.Context, name string) (bool, error) {
	clients, err := c.endpoint.Clients(ctx)
	if err != nil {
		return false, err
	}
	list, err := clients.Dynamic.Resource(kube.Nodes).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return false, c.endpoint.Explain(err)
	}
	return len(list.Items) > 0, nil
}

// found forgets absences of claims whose nodes are there, or that are gone themselves. kept are the claims whose nodes are
// still missing.
func (c *cluster) found(kept map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.missing {
		if !kept[name] {
			delete(c.missing, name)
		}
	}
}
