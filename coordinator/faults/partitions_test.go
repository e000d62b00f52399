package faults

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Ports of a replica in a namespace: of callers, and of the other replicas.
const (
	callersPort = "7790"
	peersPort   = "7791"
)

// partition is a way to cut the network while a replica leads.
type partition struct {
	name string
	cut  func(g *group, leader *node)
	// during looks at the group while it is cut, and returns how long a caller waited for the
	// next command, from the cut or, if none can be durable before, from the mend.
	during func(x *unrest, leader *node, mark string) time.Duration
	// passes: another replica must lead then.
	passes bool
}

// partitions are five kinds; the third and the fifth have two forms each, of which the
// rounds take one after the other.
var partitions = [][]partition{
	{{"the leader from everybody", func(g *group, n *node) {
		g.rules(n, filter("in", "input", `iifname "eth0"`, callersPort, peersPort)+filter("out", "output", `oifname "eth0"`, callersPort, peersPort))
	}, anotherLeads, true}},
	{{"the leader from the other replicas", cuts[0].strike, anotherLeads, true}},
	{{"the leader hears no replica", cuts[1].strike, anotherLeads, true}, {"no replica hears the leader", cuts[2].strike, anotherLeads, true}},
	{{"the shards from the leader", func(g *group, n *node) {
		g.rules(n, filter("in", "input", "ip saddr "+g.outside(), callersPort)+filter("out", "output", "ip daddr "+g.outside(), callersPort))
	}, sameLeads, false}},
	{{"each replica hears one neighbour", func(g *group, _ *node) {
		for i, n := range g.nodes {
			g.rules(n, filter("in", "input", "ip saddr "+host(g.nodes[(i+1)%len(g.nodes)]), peersPort))
		}
	}, nobodyLeads, false}, {"the leader from one replica", func(g *group, n *node) {
		other := host(g.others(n)[0])
		g.rules(n, filter("in", "input", "ip saddr "+other, peersPort)+filter("out", "output", "ip daddr "+other, peersPort))
	}, somebodyLeads, false}},
}

// filter is a chain of a packet filter that drops what fits and comes from or goes to a port.
func filter(name, hook, fits string, ports ...string) string {
	set := "{ " + strings.Join(ports, ", ") + " }"
	return fmt.Sprintf("table inet %s {\nchain %s {\ntype filter hook %s priority 0\n%s tcp dport %s drop\n%s tcp sport %s drop\n}\n}\n",
		name, name, hook, fits, set, fits, set)
}

func host(n *node) string {
	h, _, _ := net.SplitHostPort(n.listen)
	return h
}

// outside is the address of this end of the bridge, that of the shards.
func (g *group) outside() string {
	ip := host(g.nodes[0])
	return ip[:strings.LastIndexByte(ip, '.')] + ".254"
}

// leads reports whether a replica says by its gauge that it leads.
func (n *node) leads() bool { return metric(n.get("/metrics"), "tonnage_coordinator_leads") == 1 }

// Outcomes of the reports of shards.
const (
	shardTaken  = "success"
	shardFailed = "error"
)

// counts is a figure of each shard.
type counts []float64

// reports is how many reports of each shard had an outcome.
func (x *unrest) reports(outcome string) (out counts) {
	for _, n := range x.r.shards {
		out = append(out, metric(n.get("/metrics"), `tonnage_shard_reports_total{outcome="`+outcome+`"}`))
	}
	return out
}

// beyond tells whether every figure is larger than it was.
func (c counts) beyond(was counts) bool {
	for i := range c {
		if c[i] <= was[i] {
			return false
		}
	}
	return true
}

func anotherLeads(x *unrest, leader *node, mark string) time.Duration {
	took := x.g.failover(x.g.others(leader), mark)
	x.ask()
	x.linger()
	return took
}

// sameLeads: shards that cannot reach the leader go on, and the leader stays. When they can, all
// of them report again.
func sameLeads(x *unrest, leader *node, mark string) time.Duration {
	x.g.t.Helper()
	failed := x.reports(shardFailed)
	eventually(x.g.t, patience, "the shards notice", func(context.Context) bool { return x.reports(shardFailed).beyond(failed) })
	x.linger()
	if !leader.leads() {
		x.g.t.Errorf("%s does not lead any more when the shards cannot reach it", leader.id)
	}
	taken := x.reports(shardTaken)
	open(x.g, leader)
	took := eventually(x.g.t, patience, "the shards report again", func(context.Context) bool { return x.reports(shardTaken).beyond(taken) })
	return max(took, x.g.failover([]*node{leader}, mark))
}

// nobodyLeads: without a majority nobody says that it leads, and no command is durable.
func nobodyLeads(x *unrest, _ *node, mark string) time.Duration {
	x.g.t.Helper()
	eventually(x.g.t, patience, "nobody says that it leads", func(context.Context) bool {
		for _, n := range x.g.nodes {
			if n.leads() {
				return false
			}
		}
		return true
	})
	x.linger()
	for _, n := range x.g.nodes {
		open(x.g, n)
	}
	return x.g.failover(x.g.nodes, mark)
}

// somebodyLeads: two links of three are enough to go on.
func somebodyLeads(x *unrest, _ *node, mark string) time.Duration {
	took := x.g.failover(x.g.nodes, mark)
	x.linger()
	return max(took, x.g.failover(x.g.nodes, mark+", later"))
}
