package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	providerPrefix = "kwok://"
	// collectEvery and collectAfter are for machines that no claim has: they are looked for so often, and removed when
	// they are so old.
	collectEvery = 5 * time.Second
	collectAfter = 30 * time.Second
)

// cloud is the kwok provider with what real clouds do and it does not: it can be out of stock, a launch can fail, what is
// asked for twice exists once, and machines of nobody are removed. The original panics when nothing that it has fits
// a claim.
type cloud struct {
	cloudprovider.CloudProvider
	nodes  client.Client
	types  []*cloudprovider.InstanceType
	faults string // a file, read at each launch; empty = none
}

// Create makes the machine of a claim, which has the claim's name.
func (c *cloud) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	if !c.offers(claim) {
		return nil, cloudprovider.NewInsufficientCapacityError(errors.New("no offering of the cloud fits the claim"))
	}
	switch c.fault(claim) {
	case "none":
		return nil, cloudprovider.NewInsufficientCapacityError(errors.New("all requested offerings were unavailable"))
	case "fail":
		return nil, cloudprovider.NewCreateError(errors.New("the cloud is on fire"), "CloudFailed", "the cloud is on fire")
	}
	made, err := c.CloudProvider.Create(ctx, claim)
	if err != nil {
		return nil, err
	}
	made.Name = claim.Name
	made.Status.NodeName, made.Status.ProviderID = claim.Name, providerPrefix+claim.Name
	return made, nil
}

// byClaim names Nodes after their claims. The original invents names, so that a launch which is asked for twice, by a process
// that was killed before it wrote down what it had made, would make two machines.
type byClaim struct{ client.Client }

func (c byClaim) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	node, ok := o.(*corev1.Node)
	if !ok {
		return c.Client.Create(ctx, o, options...)
	}
	node = node.DeepCopy()
	node.Name = node.Labels[corev1.LabelHostname]
	node.Spec.ProviderID = providerPrefix + node.Name
	return client.IgnoreAlreadyExists(c.Client.Create(ctx, node, options...))
}

// offers tells whether there is something that fits a claim.
func (c *cloud) offers(claim *v1.NodeClaim) bool {
	wants := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	for _, kind := range wants.Get(corev1.LabelInstanceTypeStable).Values() {
		found := false
		for _, t := range c.types {
			if t.Name == kind && len(t.Offerings.Available().Compatible(wants)) > 0 {
				found = true
			}
		}
		if !found {
			return false // the original panics when any of the types has no offering
		}
	}
	return wants.Has(corev1.LabelInstanceTypeStable)
}

// fault returns what is wrong with what a claim asks for. A line of the file has a word (none = out of stock, fail =
// launches fail), and a type, a zone and a capacity type, each of which may be *.
func (c *cloud) fault(claim *v1.NodeClaim) string {
	text, err := os.ReadFile(c.faults)
	if err != nil {
		return ""
	}
	wants := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	keys := []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey}
lines:
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != len(keys)+1 {
			continue
		}
		for i, key := range keys {
			if words[i+1] != "*" && !wants.Get(key).Has(words[i+1]) {
				continue lines
			}
		}
		return words[0]
	}
	return ""
}

// collect removes machines that no claim has, as the providers of real clouds do.
func (c *cloud) collect(ctx context.Context) error {
	ticker := time.NewTicker(collectEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.collectOnce(ctx); err != nil {
			log.FromContext(ctx).Error(err, "machines of nobody are not removed")
		}
	}
}

func (c *cloud) collectOnce(ctx context.Context) error {
	var all corev1.NodeList
	if err := c.nodes.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		n := &all.Items[i]
		if !strings.HasPrefix(n.Spec.ProviderID, providerPrefix) || n.DeletionTimestamp != nil || time.Since(n.CreationTimestamp.Time) < collectAfter {
			continue
		}
		err := c.nodes.Get(ctx, client.ObjectKey{Name: n.Labels[corev1.LabelHostname]}, &v1.NodeClaim{})
		if !apierrors.IsNotFound(err) {
			continue
		}
		if err := c.nodes.Delete(ctx, n); client.IgnoreNotFound(err) != nil {
			return err
		}
		log.FromContext(ctx).Info("removed a machine of nobody", "node", n.Name)
	}
	return nil
}
