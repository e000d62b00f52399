package kube

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// KeyPrefix begins the keys of labels and annotations that are the provider's own.
const KeyPrefix = "tonnage.dev/"

// Keys of what a driver writes on the object that stands for a machine.
const (
	// LabelScope selects the objects of one driver.
	LabelScope = KeyPrefix + "scope"
	// AnnotationMachine is the machine's id, for people.
	AnnotationMachine = KeyPrefix + "machine"
	// AnnotationCluster is the fleet cluster's id, for people.
	AnnotationCluster = KeyPrefix + "cluster"
	// AnnotationRecord says what the machine is and whose: JSON, and the metadata in base64.
	AnnotationRecord = KeyPrefix + "record"
	// AnnotationDrain is until when pods may leave, in RFC 3339; it says that the end was asked for as a drain.
	AnnotationDrain = KeyPrefix + "drain-deadline"
)

// recordVersion is the version of record.
const recordVersion = 1

// record is the text of AnnotationRecord.
type record struct {
	Version      int    `json:"version"`
	Machine      string `json:"machine"`
	Generation   uint64 `json:"generation"`
	Pool         string `json:"pool"`
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType"`
	Shard        string `json:"shard,omitempty"`
	Epoch        int64  `json:"epoch,omitempty"`
	Sequence     int64  `json:"sequence,omitempty"`
	Cluster      string `json:"cluster"`
	// Metadata is base64 of a JSON object: what a shard writes need not be text that people can read.
	Metadata string `json:"metadata,omitempty"`
	// Labels, Taints and Allocatable are what the pool declares of the node.
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []driver.Taint    `json:"taints,omitempty"`
	Allocatable map[string]string `json:"allocatable,omitempty"`
}

// RecordOf returns the text of AnnotationRecord for a machine that is made for a cluster.
func RecordOf(m *driver.Machine, b *driver.Binding) (string, error) {
	r := record{
		Version: recordVersion, Machine: m.ID, Generation: m.Generation, Pool: m.Offer.Pool, InstanceType: m.Offer.InstanceType, Zone: m.Offer.Zone,
		CapacityType: m.Offer.CapacityType.String(), Shard: b.Shard, Epoch: b.Epoch, Sequence: b.Sequence, Cluster: b.Cluster,
		Labels: m.Offer.Labels, Taints: m.Offer.Taints, Allocatable: map[string]string{},
	}
	for _, a := range m.Offer.Allocatable {
		r.Allocatable[a.Name] = model.FormatQuantity(a.Name, a.Value)
	}
	if len(b.Metadata) > 0 {
		text, err := json.Marshal(b.Metadata)
		if err != nil {
			return "", err
		}
		r.Metadata = base64.StdEncoding.EncodeToString(text)
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// ReadRecord reads AnnotationRecord: what it says of a machine, and what its node is to be like.
func ReadRecord(text string) (o driver.Observation, want *NodeWant, err error) {
	if text == "" {
		return o, nil, fmt.Errorf("annotation %s is missing", AnnotationRecord)
	}
	fault := func(format string, args ...any) (driver.Observation, *NodeWant, error) {
		return driver.Observation{}, nil, fmt.Errorf("annotation %s: %w", AnnotationRecord, fmt.Errorf(format, args...))
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fault("%w", err)
	}
	capacity, ok := model.ParseCapacityType(r.CapacityType)
	switch {
	case r.Version != recordVersion:
		return fault("is of version %d; this provider reads version %d", r.Version, recordVersion)
	case !ok:
		return fault("there is no capacity type %q", r.CapacityType)
	case r.Generation == 0:
		return fault("generation must be at least 1")
	}
	if err := errors.Join(model.CheckName(r.Machine), model.CheckOptionalName(r.Cluster), model.CheckOptionalName(r.Shard)); err != nil {
		return fault("%w", err)
	}
	if r.Metadata != "" {
		text, err := base64.StdEncoding.DecodeString(r.Metadata)
		if err == nil {
			err = json.Unmarshal(text, &o.Metadata)
		}
		if err != nil {
			return fault("metadata: %w", err)
		}
	}
	least, faults := model.ParseResources(r.Allocatable)
	if len(faults) > 0 {
		return fault("allocatable: %w", faults[0])
	}
	o.ID, o.Generation, o.LateBound = r.Machine, r.Generation, true
	o.Key = driver.Key{Pool: r.Pool, InstanceType: r.InstanceType, Zone: r.Zone, CapacityType: capacity}
	o.Owner = driver.Owner{Shard: r.Shard, Epoch: r.Epoch, Sequence: r.Sequence}
	o.Cluster = r.Cluster
	return o, WantOf(&driver.Offer{Key: o.Key, Allocatable: least, Labels: r.Labels, Taints: r.Taints}), nil
}

// DrainText is the text of AnnotationDrain for a deadline.
func DrainText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
