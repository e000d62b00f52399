package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
)

// Config is the config of a driver of kind simulated in a pools file.
type Config struct {
	// File holds the objects; empty = the caller's default.
	File string `json:"file"`
	// Create, Configure, Drain and Delete are how long each change takes: "2s". A late-bound machine takes
	// Create and Configure to be Configured.
	Create    Span `json:"create"`
	Configure Span `json:"configure"`
	Drain     Span `json:"drain"`
	Delete    Span `json:"delete"`
	// FailureRate is the probability that a machine ends in Failed while it is made or bound.
	FailureRate float64 `json:"failureRate"`
	// LossPerHour is the probability that a machine is lost within an hour.
	LossPerHour float64 `json:"lossPerHour"`
	// Capacity limits how many machines of an offer there can be; offers that no line fits
	// have no limit. The first line that fits counts.
	Capacity []Capacity `json:"capacity"`
}

// Capacity is a limit of offers; what is empty fits all.
type Capacity struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"` // as model.CapacityType.String says it
	Machines     int    `json:"machines"`
}

func (c *Capacity) fits(k driver.Key) bool {
	return (c.InstanceType == "" || c.InstanceType == k.InstanceType) && (c.Zone == "" || c.Zone == k.Zone) &&
		(c.CapacityType == "" || c.CapacityType == k.CapacityType.String())
}

// Span is a time span as "2s".
type Span time.Duration

// UnmarshalJSON reads a span.
func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf(`must be a time span such as "2s", got %s`, b)
	}
	d, err := time.ParseDuration(text)
	if err == nil && (d < 0 || d > 24*time.Hour) {
		err = errors.New("must be from 0 to 24h")
	}
	*s = Span(d)
	return err
}

// ParseConfig reads a config. Unknown keys are errors.
func ParseConfig(text json.RawMessage) (Config, error) {
	c := Config{Create: Span(time.Second), Configure: Span(time.Second), Drain: Span(time.Second), Delete: Span(time.Second)}
	if len(text) > 0 {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("config: %w", err)
		}
	}
	for name, p := range map[string]float64{"failureRate": c.FailureRate, "lossPerHour": c.LossPerHour} {
		if !(p >= 0 && p <= 1) {
			return c, fmt.Errorf("config.%s: must be a probability from 0 to 1, got %v", name, p)
		}
	}
	for i, x := range c.Capacity {
		if x.Machines < 0 {
			return c, fmt.Errorf("config.capacity[%d].machines: must be at least 0, got %d", i, x.Machines)
		}
	}
	return c, nil
}
