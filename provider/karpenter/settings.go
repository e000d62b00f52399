package karpenter

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/kube"
)

type (
	reader = document.Reader
	node   = document.Node
)

// ClustersMax is how many clusters a section may name.
const ClustersMax = 4096

// Settings say where the fleet clusters are.
type Settings struct {
	// Scope is the value of kube.LabelScope, by which a driver finds what it made. Empty = the driver's name.
	Scope string
	// Clusters are by the id that shards have for them.
	Clusters map[string]Cluster
}

// Cluster says where a fleet cluster is: a kubeconfig in a file or in a Secret of the cluster that the process is a
// pod of, or, with neither, that cluster itself.
type Cluster struct {
	Kubeconfig, Context string
	Secret              Secret
}

// Secret names a key of a Secret.
type Secret struct{ Namespace, Name, Key string }

// endpoint returns the connection to a cluster.
func (c *Cluster) endpoint() *kube.Endpoint {
	switch {
	case c.Kubeconfig != "":
		return kube.File(c.Kubeconfig, c.Context)
	case c.Secret.Name != "":
		return kube.Secret(kube.InCluster(), c.Secret.Namespace, c.Secret.Name, c.Secret.Key)
	}
	return kube.InCluster()
}

var settingsSchema = document.NewSchema(
	document.Field[Settings]{Key: "scope", Read: func(r *reader, n *node, s *Settings) {
		r.Text(n, &s.Scope)
		if faults := validation.IsValidLabelValue(s.Scope); len(faults) > 0 {
			r.Fault("%s", faults[0])
		}
	}},
	document.Field[Settings]{Key: "clusters", Required: true, Read: func(r *reader, n *node, s *Settings) {
		if len(n.Items) > ClustersMax {
			r.Fault("has %d clusters; at most %d are read", len(n.Items), ClustersMax)
			return
		}
		s.Clusters = map[string]Cluster{}
		r.Map(n, func(id string, n *node) {
			c := Cluster{}
			before := r.Count()
			clusterSchema.Read(r, n, &c)
			if c.Kubeconfig != "" && c.Secret.Name != "" && r.Count() == before {
				r.Fault("has a kubeconfig in a file or in a Secret, not both")
			}
			s.Clusters[id] = c
		})
	}},
)

var clusterSchema = document.NewSchema(
	document.Field[Cluster]{Key: "kubeconfig", Read: func(r *reader, n *node, c *Cluster) { r.Text(n, &c.Kubeconfig) }},
	document.Field[Cluster]{Key: "context", Read: func(r *reader, n *node, c *Cluster) { r.Text(n, &c.Context) }},
	document.Field[Cluster]{Key: "secret", Read: func(r *reader, n *node, c *Cluster) {
		c.Secret = Secret{Key: "value"}
		secretSchema.Read(r, n, &c.Secret)
	}},
)

var secretSchema = document.NewSchema(
	document.Field[Secret]{Key: "namespace", Required: true, Read: func(r *reader, n *node, s *Secret) { r.Name(n, &s.Namespace) }},
	document.Field[Secret]{Key: "name", Required: true, Read: func(r *reader, n *node, s *Secret) { r.Name(n, &s.Name) }},
	document.Field[Secret]{Key: "key", Read: func(r *reader, n *node, s *Secret) { r.Name(n, &s.Key) }},
)

// ParseSettings reads the config of a driver, JSON or YAML. The error names every fault by its place in
// it. Nothing outside of the process is asked.
func ParseSettings(section []byte) (*Settings, error) {
	s := &Settings{}
	if len(section) == 0 {
		return nil, errors.New("config is missing; it says under clusters where the fleet clusters are")
	}
	if err := document.Unmarshal(section, settingsSchema, s); err != nil {
		return nil, err
	}
	seen := map[Cluster]string{}
	for _, id := range slices.Sorted(maps.Keys(s.Clusters)) {
		if other, twice := seen[s.Clusters[id]]; twice {
			return nil, fmt.Errorf("clusters.%s: is where cluster %q is already", id, other)
		}
		seen[s.Clusters[id]] = id
	}
	return s, nil
}
