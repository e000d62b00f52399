package coordinator

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Write is one change of the durable state: a key is set, or removed when Value
// is nil.
type Write struct {
	Key   string
	Value []byte
}

// The durable keys. Names are escaped, so that a slash in one separates nothing.
const (
	keySequence    = "sequence"
	keyShard       = "shards/"
	keyCluster     = "clusters/"
	keyDomain      = "domains/"
	keyInstruction = "instructions/"
	keyMove        = "moves/"
	keyLoan        = "loans/"
)

// Shard is a registered shard.
type Shard struct {
	ID           string `json:"id"`
	Address      string `json:"address"`
	RegisteredAt int64  `json:"registeredAt"` // Unix nanoseconds
	// Epoch is the highest that reported; a report of a lower one comes from a
	// process that was replaced.
	Epoch int64 `json:"epoch"`
}

// Domain is a topology domain, such as (topology.kubernetes.io/zone, zone-a).
type Domain struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (d Domain) String() string { return d.Key + "=" + d.Value }

// Assignment says which shard has a domain.
type Assignment struct {
	Domain
	Shard string `json:"shard"`
}

// DomainInstruction tells a shard that a domain is its own now, or no longer.
type DomainInstruction struct {
	Sequence int64  `json:"sequence"`
	Shard    string `json:"shard"`
	Assign   bool   `json:"assign"`
	Domain
}

// ID is what the shard acknowledges.
func (i *DomainInstruction) ID() string { return "d-" + strconv.FormatInt(i.Sequence, 10) }

func shardKey(id string) string { return keyShard + url.PathEscape(id) }
func moveKey(id string) string  { return keyMove + url.PathEscape(id) }
func domainKey(d Domain) string {
	return keyDomain + url.PathEscape(d.Key) + "/" + url.PathEscape(d.Value)
}
func clusterKey(c string) string { return keyCluster + url.PathEscape(c) }
func instructionKey(sequence int64) string {
	return keyInstruction + fmt.Sprintf("%019d", sequence)
}

func put(key string, value any) Write {
	text, err := json.Marshal(value)
	if err != nil { // plain structs of strings and numbers
		panic("coordinator: " + key + ": " + err.Error())
	}
	return Write{Key: key, Value: text}
}

func del(key string) Write { return Write{Key: key} }

// putSequence makes the counter durable together with what used it.
func putSequence(n int64) Write {
	return Write{Key: keySequence, Value: strconv.AppendInt(nil, n, 10)}
}

// take brings one write into the durable state in memory. It is the only way
// in: for what was committed, and for what a successor reads.
func (c *Core) take(w Write) error {
	kind, rest, _ := strings.Cut(w.Key, "/")
	var err error
	switch kind + "/" {
	case keyShard:
		err = c.takeShard(rest, w.Value)
	case keyCluster:
		err = c.takeCluster(rest, w.Value)
	case keyDomain:
		err = c.takeDomain(rest, w.Value)
	case keyInstruction:
		err = c.takeInstruction(rest, w.Value)
	case keyMove:
		err = c.takeMove(rest, w.Value)
	case keyLoan:
		err = c.takeLoan(rest, w.Value)
	case keySequence + "/":
		var n int64
		if n, err = strconv.ParseInt(string(w.Value), 10, 64); err == nil {
			c.sequence = max(c.sequence, n)
		}
	}
	if err != nil {
		return fmt.Errorf("durable record %q cannot be read (%w); restore from a snapshot", w.Key, err)
	}
	return nil // a kind that is not known was written by a newer release, and is left alone
}

func (c *Core) takeShard(name string, value []byte) error {
	id, err := url.PathUnescape(name)
	if err != nil {
		return err
	}
	if value == nil {
		delete(c.shards, id)
		delete(c.soft, id)
		delete(c.pending, id)
		return nil
	}
	s := &Shard{}
	if err := json.Unmarshal(value, s); err != nil {
		return err
	}
	c.shards[id] = s
	return nil
}

func (c *Core) takeCluster(name string, value []byte) error {
	cluster, err := url.PathUnescape(name)
	if err != nil {
		return err
	}
	if value == nil {
		delete(c.clusters, cluster)
		return nil
	}
	var shard string
	if err := json.Unmarshal(value, &shard); err != nil {
		return err
	}
	c.clusters[cluster] = shard
	return nil
}

func (c *Core) takeDomain(name string, value []byte) error {
	k, v, _ := strings.Cut(name, "/")
	key, err := url.PathUnescape(k)
	if err != nil {
		return err
	}
	val, err := url.PathUnescape(v)
	if err != nil {
		return err
	}
	d := Domain{key, val}
	if old, ok := c.domains[d]; ok {
		if c.domainsOf[old]--; c.domainsOf[old] == 0 {
			delete(c.domainsOf, old)
		}
		delete(c.domains, d)
	}
	if value == nil {
		return nil
	}
	var shard string
	if err := json.Unmarshal(value, &shard); err != nil {
		return err
	}
	c.domains[d] = shard
	c.domainsOf[shard]++
	return nil
}

func (c *Core) takeInstruction(name string, value []byte) error {
	sequence, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return err
	}
	if value == nil {
		c.dropInstruction(sequence)
		return nil
	}
	i := &DomainInstruction{}
	if err := json.Unmarshal(value, i); err != nil {
		return err
	}
	c.addInstruction(i)
	return nil
}

func (c *Core) takeMove(name string, value []byte) error {
	id, err := url.PathUnescape(name)
	if err != nil {
		return err
	}
	if value == nil {
		delete(c.moves, id)
		delete(c.rest, id)
		delete(c.asked, id)
		return nil
	}
	m := &Move{}
	if err := json.Unmarshal(value, m); err != nil {
		return err
	}
	old := c.moves[id]
	rests := m.Phase.over() || m.Phase.moved()
	if rests && (old == nil || !old.Phase.over() && !old.Phase.moved()) {
		// A successor does not know how long it has rested, and lets it rest anew.
		c.rest[id] = c.reportsOf(m.Receiver) + CooldownReports
	}
	if m.Phase == Asked && (old == nil || old.Phase != Asked) {
		c.asked[id] = c.waited
	}
	c.moves[id] = m
	return nil
}
