package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// ErrVersion is wrapped by errors that say that the management cluster does not have the Cluster API that this
// driver speaks.
var ErrVersion = errors.New("needed is Cluster API 1.11 or later (cluster.x-k8s.io/v1beta2)")

// checkVersion says what is wrong with the Cluster API of the management cluster.
func checkVersion(ctx context.Context, e *kube.Endpoint, c *kube.Clients) error {
	groups, err := c.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return e.Explain(err)
	}
	for _, g := range groups.Groups {
		if g.Name != coreGroup {
			continue
		}
		var served []string
		for _, v := range g.Versions {
			if v.Version == coreVersion {
				return nil
			}
			served = append(served, v.GroupVersion)
		}
		return fmt.Errorf("%s has Cluster API with %s only: %w; upgrade it with clusterctl upgrade apply", c.Host, strings.Join(served, ", "), ErrVersion)
	}
	return fmt.Errorf("%s has no Cluster API, there are no resources of %s: %w; install it with clusterctl init, or name another management cluster", c.Host, coreGroup, ErrVersion)
}

// kindsFor is how long a kind is believed to be served as it was.
const kindsFor = 10 * time.Minute

// kind is how a kind is served.
type kind struct {
	resource   schema.GroupVersionResource
	apiVersion string
	until      time.Time
}

// kindOf finds the version of a kind that the server prefers.
func (d *Driver) kindOf(ctx context.Context, group, name string) (kind, error) {
	key := schema.GroupKind{Group: group, Kind: name}
	d.mu.Lock()
	k, ok := d.kinds[key]
	d.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k, nil
	}
	c, err := d.management.Clients(ctx)
	if err != nil {
		return kind{}, err
	}
	k, err = d.findKind(ctx, c, group, name)
	if err != nil {
		return kind{}, err
	}
	k.until = time.Now().Add(kindsFor)
	d.mu.Lock()
	d.kinds[key] = k
	d.mu.Unlock()
	return k, nil
}

func (d *Driver) findKind(ctx context.Context, c *kube.Clients, group, name string) (kind, error) {
	groups, err := c.Discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return kind{}, d.management.Explain(err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
	if i < 0 {
		return kind{}, fmt.Errorf("%w: %s serves nothing of the group %s; is the infrastructure or bootstrap provider installed that has %s?", driver.ErrPermanent, c.Host, group, name)
	}
	g := &groups.Groups[i]
	versions := slices.Insert(slices.Clone(g.Versions), 0, g.PreferredVersion)
	for _, v := range versions {
		list, err := c.Discovery.ServerResourcesForGroupVersionWithContext(ctx, v.GroupVersion)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return kind{}, d.management.Explain(err)
		}
		for _, r := range list.APIResources {
			if r.Kind == name && !strings.Contains(r.Name, "/") {
				return kind{resource: schema.GroupVersionResource{Group: group, Version: v.Version, Resource: r.Name}, apiVersion: v.GroupVersion}, nil
			}
		}
	}
	return kind{}, fmt.Errorf("%w: %s serves no kind %s in the group %s", driver.ErrPermanent, c.Host, name, group)
}
