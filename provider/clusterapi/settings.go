package clusterapi

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/internal/world/document"
)

type (
	reader = document.Reader
	node   = document.Node
)

const (
	// ClustersMax is how many clusters a section may name.
	ClustersMax = 4096
	// patternsMax is how many patterns of missing capacity a section may add.
	patternsMax = 64
	// volumeDetachDefault is how long the end of a machine waits for its volumes.
	volumeDetachDefault = 2 * time.Minute
	volumeDetachMax     = 24 * time.Hour
)

// Settings say where Cluster API is and which of its clusters are whose.
type Settings struct {
	// Kubeconfig is a file for the management cluster; empty = the cluster that the process is a pod of.
	Kubeconfig, Context string
	// Namespace holds the Clusters and everything that is made for them, but for those in Clusters.
	Namespace string
	// Scope is the value of kube.LabelScope, by which a driver finds what it made. Empty = the driver's name.
	Scope string
	// Clusters are by the id that shards have for them. One that is not here is the Cluster of that name.
	Clusters map[string]Cluster
	// OutOfStock are patterns of messages that say there is no capacity, beside those that are known.
	OutOfStock []*regexp.Regexp
	// VolumeDetach is how long the end of a machine waits for its volumes.
	VolumeDetach time.Duration
	// AllowUndrained has machines made for clusters of which Cluster API knows no control plane. It removes
	// them without a drain, and leaves their Nodes.
	AllowUndrained bool
}

// Cluster is one fleet cluster.
type Cluster struct {
	Namespace, Name string // of the Cluster object
	// Kubeconfig is a file; empty = the Secret NAME-kubeconfig that Cluster API keeps.
	Kubeconfig, Context string
}

var settingsSchema = document.NewSchema(
	document.Field[Settings]{Key: "kubeconfig", Read: func(r *reader, n *node, s *Settings) { r.Text(n, &s.Kubeconfig) }},
	document.Field[Settings]{Key: "context", Read: func(r *reader, n *node, s *Settings) { r.Text(n, &s.Context) }},
	document.Field[Settings]{Key: "namespace", Read: func(r *reader, n *node, s *Settings) { readLabel(r, n, &s.Namespace) }},
	document.Field[Settings]{Key: "scope", Read: func(r *reader, n *node, s *Settings) {
		r.Text(n, &s.Scope)
		if faults := validation.IsValidLabelValue(s.Scope); len(faults) > 0 {
			r.Fault("%s", faults[0])
		}
	}},
	document.Field[Settings]{Key: "clusters", Read: readClusters},
	document.Field[Settings]{Key: "outOfStock", Read: func(r *reader, n *node, s *Settings) {
		if len(n.Items) > patternsMax {
			r.Fault("has %d patterns; at most %d are read", len(n.Items), patternsMax)
			return
		}
		r.List(n, func(_ int, n *node) {
			var text string
			r.Text(n, &text)
			p, err := regexp.Compile(text)
			if err != nil || text == "" {
				r.Fault("is no regular expression as Go has them: %v", err)
				return
			}
			s.OutOfStock = append(s.OutOfStock, p)
		})
	}},
	document.Field[Settings]{Key: "allowUndrained", Read: func(r *reader, n *node, s *Settings) { r.Bool(n, &s.AllowUndrained) }},
	document.Field[Settings]{Key: "volumeDetachTimeout", Read: func(r *reader, n *node, s *Settings) {
		if r.Duration(n, volumeDetachMax, &s.VolumeDetach); s.VolumeDetach < time.Second {
			r.Fault("must be at least 1s; 0 would be no limit")
		}
	}},
)

var clusterSchema = document.NewSchema(
	document.Field[Cluster]{Key: "namespace", Read: func(r *reader, n *node, c *Cluster) { readLabel(r, n, &c.Namespace) }},
	document.Field[Cluster]{Key: "name", Read: func(r *reader, n *node, c *Cluster) { readLabel(r, n, &c.Name) }},
	document.Field[Cluster]{Key: "kubeconfig", Read: func(r *reader, n *node, c *Cluster) { r.Text(n, &c.Kubeconfig) }},
	document.Field[Cluster]{Key: "context", Read: func(r *reader, n *node, c *Cluster) { r.Text(n, &c.Context) }},
)

// readLabel reads the name of a namespace or of a Cluster.
func readLabel(r *reader, n *node, into *string) {
	if r.Text(n, into); n.Kind != document.Text {
		return
	}
	if faults := validation.IsDNS1123Label(*into); len(faults) > 0 {
		r.Fault("%s", faults[0])
	}
}

func readClusters(r *reader, n *node, s *Settings) {
	if len(n.Items) > ClustersMax {
		r.Fault("has %d clusters; at most %d are read", len(n.Items), ClustersMax)
		return
	}
	s.Clusters = map[string]Cluster{}
	r.Map(n, func(id string, n *node) {
		var c Cluster
		clusterSchema.Read(r, n, &c)
		s.Clusters[id] = c
	})
}

// ParseSettings reads the config of a driver, JSON or YAML. The error names every fault by its place in
// it. Nothing outside of the process is asked.
func ParseSettings(section []byte) (*Settings, error) {
	s := &Settings{Namespace: "default", VolumeDetach: volumeDetachDefault}
	if len(section) > 0 {
		if err := document.Unmarshal(section, settingsSchema, s); err != nil {
			return nil, err
		}
	}
	seen := map[Cluster]string{}
	for _, id := range slices.Sorted(maps.Keys(s.Clusters)) {
		c := s.Clusters[id]
		if c.Namespace == "" {
			c.Namespace = s.Namespace
		}
		if c.Name == "" {
			c.Name = id
		}
		s.Clusters[id] = c
		key := Cluster{Namespace: c.Namespace, Name: c.Name}
		if other, twice := seen[key]; twice {
			return nil, fmt.Errorf("clusters.%s: Cluster %s/%s is cluster %q already", id, c.Namespace, c.Name, other)
		}
		seen[key] = id
	}
	return s, nil
}

// cluster returns the Cluster of an id.
func (s *Settings) cluster(id string) (Cluster, error) {
	if c, ok := s.Clusters[id]; ok {
		return c, nil
	}
	if faults := validation.IsDNS1123Label(id); len(faults) > 0 {
		return Cluster{}, fmt.Errorf("there is no Cluster of the name %q (%s); say in the driver's config which one it is, as in clusters: {%q: {name: …}}", id, faults[0], id)
	}
	return Cluster{Namespace: s.Namespace, Name: id}, nil
}

// namespaces returns all namespaces in which machines may be.
func (s *Settings) namespaces() []string {
	all := map[string]bool{s.Namespace: true}
	for _, c := range s.Clusters {
		all[c.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}
