package attack_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/processtest"
)

// escapes would clear the screen, ring, colour what follows, overwrite its line,
// forge another one, and be read backwards.
const escapes = "\x1b[2J\a\u009b31m\rover\nforged\u202egnp.\x7f\t"

// namesPatience is how long anything may take.
const namesPatience = 20 * time.Second

// namesProvider lists machines with names of all kinds. Once spoilt, the bound
// machine has a label that breaks the rule.
type namesProvider struct {
	pb.UnimplementedCapacityProviderServer
	spoilt atomic.Bool
	lists  atomic.Int64
}

func (p *namesProvider) List(context.Context, *pb.ListFilter) (*pb.MachineList, error) {
	defer p.lists.Add(1)
	idle := func(id string, change func(*pb.Machine)) *pb.Machine {
		m := &pb.Machine{
			Id: id, State: pb.MachineState_MACHINE_STATE_IDLE, Host: &pb.HostRef{Ref: "host"}, InstanceType: "type", Zone: "zone",
			Resources: &pb.Resources{Resources: map[string]string{"cpu": "8"}}, Labels: map[string]string{"rack": "r1"},
		}
		change(m)
		return m
	}
	bound := idle("m-bound", func(m *pb.Machine) {
		m.State, m.Cluster = pb.MachineState_MACHINE_STATE_CONFIGURED, "victim"
		if p.spoilt.Load() {
			m.Labels["rack"] = escapes
		}
	})
	return &pb.MachineList{Machines: []*pb.Machine{
		idle("m-good", func(*pb.Machine) {}), bound,
		idle("bad-id"+escapes, func(*pb.Machine) {}),
		idle("bad-type", func(m *pb.Machine) { m.InstanceType = escapes }),
		idle("bad-zone", func(m *pb.Machine) { m.Zone = escapes }),
		idle("bad-host", func(m *pb.Machine) { m.Host.Ref = escapes }),
		idle("bad-key", func(m *pb.Machine) { m.Labels[escapes] = "v" }),
		idle("bad-value", func(m *pb.Machine) { m.Labels["k"] = escapes }),
		idle("bad-resource", func(m *pb.Machine) { m.Resources.Resources[escapes] = "1" }),
		idle("bad-cluster", func(m *pb.Machine) {
			m.State, m.Cluster = pb.MachineState_MACHINE_STATE_CONFIGURED, escapes
		}),
		// Free text is taken.
		idle("m-failed", func(m *pb.Machine) {
			m.State, m.LastError = pb.MachineState_MACHINE_STATE_FAILED, "error"+escapes
		}),
		idle("m-stamped", func(m *pb.Machine) {
			m.ShardMetadata = map[string]string{
				escapes: escapes, "bigfleet.lucy.sh/assigned-group": "group\x00" + escapes, "tonnage.dev/reserved-cluster": escapes, "tonnage.dev/reserved-group": escapes,
			}
		}),
	}}, nil
}

// badMachines is how many records of a listing break the rule.
const badMachines = 8

func serveProvider(t *testing.T) (*namesProvider, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &namesProvider{}
	server := grpc.NewServer()
	pb.RegisterCapacityProviderServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p, listener.Addr().String()
}

func dialGRPC(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestNames: a provider, an operator and a shard that send control characters
// wherever a text can stand. What breaks the rule is refused at the door, the rest is
// taken, every tool goes on working, and nothing that they or the processes print
// commands a terminal. The attacker holds whatever certificate the door asks for.
func TestNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	coordinator, sessions, page := freeport.Take(t), freeport.Take(t), freeport.Take(t)
	provider, providerAddress := serveProvider(t)
	c := processtest.Start(t, "coordinator", "--bootstrap", "--listen="+coordinator, "--metrics-addr="+freeport.Take(t), "--raft-bind="+freeport.Take(t), "--data-dir="+filepath.Join(dir, "coordinator"))
	s := processtest.Start(t, "shard", "--id=shard-1", "--provider-addr="+providerAddress, "--coordinator-addr="+coordinator, "--listen="+sessions, "--metrics-addr="+page,
		"--data-dir="+filepath.Join(dir, "shard"), "--cycle-interval=100ms", "--coordinator-heartbeat-interval=200ms")
	processtest.Eventually(t, namesPatience, "both are ready", func() bool { return s.Get("/readyz") != "" && c.Get("/readyz") != "" })

	attackSessions(t, s, dialGRPC(t, sessions))
	attackCoordinator(t, dialGRPC(t, coordinator))

	refused := func() float64 { return s.Metric("bigfleet_shard_machines_rejected_total", `reason="structural"`) }
	processtest.Eventually(t, namesPatience, "bad machines are refused and counted", func() bool { return refused() >= badMachines })
	// A bound machine that turns bad stays as it was.
	provider.spoilt.Store(true)
	seen := provider.lists.Load()
	processtest.Eventually(t, namesPatience, "the spoilt machine is listed", func() bool { return provider.lists.Load() > seen+2 })

	for _, args := range [][]string{
		{"ctl", "machines", "--shard", page}, {"ctl", "needs", "--shard-addr", sessions},
		{"ctl", "list-shards", "--coordinator", coordinator}, {"ctl", "list-domains", "--coordinator", coordinator},
		{"ctl", "shortfalls", "--coordinator", coordinator}, {"ctl", "members", "--coordinator", coordinator},
		{"ctl", "rebalance", "--why", "--coordinator", coordinator},
		{"explain", "need", "--shard", page, "tenant/0"}, {"explain", "machine", "--shard", page, "m-failed", "m-bound"},
		{"what-if", "--shard", page, "--lose", "m-good"},
	} {
		for _, format := range []string{"table", "json"} {
			code, out, errs := processtest.Run(t, append(args, "-o", format)...)
			if code != 0 || errs != "" {
				t.Errorf("%q -o %s: exit %d: %s %s", args, format, code, out, errs)
			}
			printsNoControl(t, strings.Join(args, " "), out+errs)
			if format == "json" && !json.Valid([]byte(out)) {
				t.Errorf("%q: no JSON: %s", args, out)
			}
		}
	}
	_, machines, _ := processtest.Run(t, "ctl", "machines", "--shard", page, "-o", "table")
	if n := strings.Count(machines, "\n"); n != 5 || !strings.Contains(machines, `error\x1b[2J\x07\u009b31m`) {
		t.Errorf("of four good machines and a head there are %d lines:\n%s", n, machines)
	}
	for line := range strings.Lines(machines) {
		if strings.HasPrefix(line, "m-bound") && strings.Join(strings.Fields(line)[1:3], " ") != "Configured victim" {
			t.Errorf("a machine whose label turned bad is no longer bound: %s", line)
		}
	}
	_, needs, _ := processtest.Run(t, "ctl", "needs", "--shard-addr", sessions, "-o", "table")
	if !strings.Contains(needs, `pods\x00\x1b[2J`) {
		t.Errorf("the need of the hostile group is not listed:\n%s", needs)
	}
	code, top, errs := processtest.Run(t, "top", "--once", "--shard", "http://"+page)
	if code != 0 || !strings.Contains(top, "tenant") {
		t.Errorf("top: exit %d: %s %s", code, top, errs)
	}
	printsNoControl(t, "top", top+errs)
	printsNoControl(t, "the page's world", s.Get("/api/world"))
	printsNoControl(t, "the shard's log", s.Log())
	printsNoControl(t, "the coordinator's log", c.Log())
}

// attackSessions tries the door of operators.
func attackSessions(t *testing.T, s *processtest.Process, conn *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	open := func(cluster string) pb.Shard_SessionClient {
		stream, err := pb.NewShardClient(conn).Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Hello{Hello: &pb.Hello{ClusterId: cluster, ProtocolVersion: "v1"}}}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return stream
	}
	if _, err := open("tenant" + escapes).Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a hello with a bad cluster id: %v", err)
	} else {
		printsNoControl(t, "the answer to a hello", err.Error())
	}
	tenant := open("tenant")
	report := func(need *pb.CapacityNeed) {
		t.Helper()
		need.AggregateResources = map[string]string{"cpu": "4"}
		if err := tenant.Send(&pb.OperatorMessage{Payload: &pb.OperatorMessage_Rollup{Rollup: &pb.ClusterCapacityNeeds{ClusterId: "tenant", Needs: []*pb.CapacityNeed{need}}}}); err != nil {
			t.Fatal(err)
		}
	}
	requires := func(key, value string) []*pb.NodeSelectorRequirement {
		return []*pb.NodeSelectorRequirement{{Key: key, Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{value}}}
	}
	refused := 0.0
	for _, need := range []*pb.CapacityNeed{
		{Requirements: requires(escapes, "v")}, {Requirements: requires("rack", escapes)},
		{Spread: []*pb.TopologySpread{{TopologyKey: escapes, MaxSkew: 1, WhenUnsatisfiable: pb.TopologySpread_WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE}}},
		{MinUnit: map[string]string{escapes: "1"}},
	} {
		report(need)
		refused++
		processtest.Eventually(t, namesPatience, "a roll-up with a bad name is refused", func() bool {
			return s.Metric("bigfleet_shard_rollups_rejected_total", `cluster="tenant"`) >= refused
		})
	}
	report(&pb.CapacityNeed{Group: "pods\x00" + escapes, Requirements: requires("rack", "nowhere")})
	for {
		m, err := tenant.Recv()
		if err != nil {
			t.Fatalf("a roll-up with free text in its group: %v", err)
		}
		if m.GetAck().GetEcho() == "rollup" {
			break
		}
	}
	processtest.Eventually(t, namesPatience, "the roll-up is decided about", func() bool { return strings.Contains(s.Get("/api/world"), "tenant/0") })
}

// attackCoordinator tries the doors of shards, of administrators and of replicas.
func attackCoordinator(t *testing.T, conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), namesPatience)
	defer cancel()
	client := pb.NewCoordinatorClient(conn)
	report := func(change func(*pb.ShardReport)) func() error {
		return func() error {
			r := &pb.ShardReport{ShardId: "shard-2", ShardAddress: "127.0.0.1:1", Cycle: 1, Summary: &pb.ShardSummary{}}
			change(r)
			_, err := client.ReportShard(ctx, r)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"shard_id":         report(func(r *pb.ShardReport) { r.ShardId = escapes }),
		"shard_address":    report(func(r *pb.ShardReport) { r.ShardAddress = escapes }),
		"instance type":    report(func(r *pb.ShardReport) { r.Summary.PerInstanceTypeCounts = map[string]int32{escapes: 1} }),
		"zone":             report(func(r *pb.ShardReport) { r.Summary.PerZoneCounts = map[string]int32{escapes: 1} }),
		"provider_address": report(func(r *pb.ShardReport) { r.Summary.ProviderAddress = escapes }),
		"shortfall": report(func(r *pb.ShardReport) {
			r.Shortfalls = []*pb.Shortfall{{Requirements: []*pb.NodeSelectorRequirement{{Key: "k", Operator: pb.NodeSelectorRequirement_OPERATOR_IN, Values: []string{escapes}}}}}
		}),
		"topology_key": func() error {
			_, err := client.AssignDomain(ctx, &pb.AssignDomainRequest{TopologyKey: escapes, TopologyValue: "v", ShardId: "shard-1"})
			return err
		},
		"topology_value": func() error {
			_, err := client.AssignDomain(ctx, &pb.AssignDomainRequest{TopologyKey: "k", TopologyValue: escapes, ShardId: "shard-1"})
			return err
		},
		"node_id": func() error {
			_, err := client.JoinRaftCluster(ctx, &pb.JoinRaftClusterRequest{NodeId: escapes, RaftAddress: "127.0.0.1:1"})
			return err
		},
		"raft_address": func() error {
			_, err := client.JoinRaftCluster(ctx, &pb.JoinRaftClusterRequest{NodeId: "n", RaftAddress: escapes})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a bad %s: %v", name, err)
		} else {
			printsNoControl(t, "the answer to a bad "+name, err.Error())
		}
	}
	// What a report says in free words is taken.
	if err := report(func(r *pb.ShardReport) {
		r.InstructionAcks = []*pb.InstructAck{{InstructionId: escapes, Reason: escapes}}
	})(); err != nil {
		t.Errorf("a report with free text: %v", err)
	}
}

// printsNoControl fails the test if a text holds anything that a terminal acts on but
// line feeds.
func printsNoControl(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "forged") {
			t.Errorf("%s holds a forged line: %q", what, text)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%s holds %U: %q", what, r, line)
				return
			}
		}
	}
}
