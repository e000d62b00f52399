package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/session"
)

func TestTheFirstFrameIsAHello(t *testing.T) {
	f := serve(t, session.Deps{})
	conn := f.dial(t, nil)
	for name, first := range map[string]*pb.OperatorMessage{
		"a roll-up":              rollup("a", 1),
		"nothing that is known":  {},
		"an answer":              {Payload: &pb.OperatorMessage_ReclaimAck{ReclaimAck: &pb.ReclaimAck{}}},
		"a hello of nobody":      hello(""),
		"a hello with a long id": hello(strings.Repeat("x", model.NameBytesMax+1)),
	} {
		o := f.open(t, conn)
		o.send(first)
		if got := o.end(); got != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, got)
		}
	}
	if n := f.server.Count(); n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

func TestAStreamThatSaysNothingIsEnded(t *testing.T) {
	var deps session.Deps
	deps.SetHelloWait(time.Millisecond)
	f := serve(t, deps)
	if got := f.open(t, f.dial(t, nil)).end(); got != codes.DeadlineExceeded {
		t.Errorf("%v, want DeadlineExceeded", got)
	}
}

func TestHelloIsAcknowledgedThenMachinesAreTold(t *testing.T) {
	f := serve(t, session.Deps{Epoch: func() int64 { return 7 }, Term: func() int64 { return 3 }})
	f.core.bound["a"] = []string{"m1", "m2"}
	o := f.open(t, f.dial(t, nil))
	for range 2 { // a later hello is legal
		o.send(hello("a"))
		if ack := o.ack("hello"); ack.GetShardEpoch() != 7 || ack.GetCoordinatorTerm() != 3 {
			t.Errorf("acknowledged with %v, want epoch 7 and term 3", ack)
		}
		for _, want := range []string{"m1", "m2"} {
			if got := o.next().GetNodeStateUpdate().GetMachineId(); got != want {
				t.Errorf("told of %q, want %q", got, want)
			}
		}
		until(t, "the machines are told", func() bool { return f.server.Idle("a") })
	}
	o.send(hello("b"))
	if got := o.end(); got != codes.InvalidArgument {
		t.Errorf("a hello of another cluster: %v, want InvalidArgument", got)
	}
}

func TestTheNewestSessionCounts(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := serve(t, session.Deps{Registerer: registry})
	first := f.connect(t, "a")
	second := f.connect(t, "a")
	if got := first.end(); got != codes.Aborted {
		t.Errorf("the session before: %v, want Aborted", got)
	}
	until(t, "the session before has left", func() bool { return f.server.Streams() == 1 })
	if !f.server.Connected("a") || f.server.Count() != 1 {
		t.Fatal("the end of the session before took the new one with it")
	}
	f.server.NodeState(shard.NodeState{Cluster: "a", Machine: "m"})
	if got := second.next().GetNodeStateUpdate().GetMachineId(); got != "m" {
		t.Errorf("told of %q, want m", got)
	}
	if err := second.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := <-second.ended; err.Error() != "EOF" {
		t.Errorf("a session that its operator ends: %v, want EOF", err)
	}
	until(t, "no session is left", func() bool { return f.server.Count() == 0 })
	want := `# HELP bigfleet_shard_session_lifecycle_total Sessions that began, ended, or took the place of another.
# TYPE bigfleet_shard_session_lifecycle_total counter
bigfleet_shard_session_lifecycle_total{event="installed"} 2
bigfleet_shard_session_lifecycle_total{event="removed"} 1
bigfleet_shard_session_lifecycle_total{event="replaced"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "bigfleet_shard_session_lifecycle_total"); err != nil {
		t.Error(err)
	}
}

func TestRollups(t *testing.T) {
	f := serve(t, session.Deps{})
	f.core.held["held"] = true
	bad := rollup("a", 3)
	bad.GetRollup().Needs[1].AggregateResources["cpu"] = "much"
	unknown := rollup("a", 2)
	unknown.GetRollup().Needs[1].Requirements[0].Operator = 9
	bucket := rollup("a", 2)
	bucket.GetRollup().Needs[0].ReclamationPenaltyBucket = 28
	tests := []struct {
		name    string
		cluster string
		send    *pb.OperatorMessage
		want    string // what the shard is told
		refused string // why
		rows    int    // that the cluster has then
	}{
		{"first", "a", rollup("a", 5), "a 5 1", "", 5},
		{"replaced", "a", rollup("a", 4), "a 4 1", "", 4},
		{"of nobody is of the session", "a", rollup("", 6), "a 6 1", "", 6},
		{"of another", "a", rollup("b", 1), "", "names cluster", 6},
		{"bad quantity", "a", bad, "", "row 1", 6},
		{"unknown operator", "a", unknown, "", "no such operator", 6},
		{"bucket out of range", "a", bucket, "", "no such bucket", 6},
		{"empty", "a", rollup("a", 0), "a 0 1", "", 0},
		{"held", "held", rollup("held", 2), "held 2 2", "", 0},
	}
	operators := map[string]*operator{}
	for _, test := range tests {
		o := operators[test.cluster]
		if o == nil {
			o = f.connect(t, test.cluster)
			operators[test.cluster] = o
		}
		o.send(test.send)
		got := await(t, f.core.taken)
		if test.refused == "" {
			o.ack("rollup")
			if got != test.want {
				t.Errorf("%s: the shard is told %q, want %q", test.name, got, test.want)
			}
		} else {
			// The answer to a hello comes after that to the roll-up, if there is one.
			// Until then there may be the fault of the roll-up before.
			until(t, fmt.Sprintf("%s: a fault with %q is noted", test.name, test.refused), func() bool {
				err := f.server.Sessions()[0].Rollup.Err
				return err != nil && strings.Contains(err.Error(), test.refused)
			})
			o.send(hello(test.cluster))
			o.ack("hello")
		}
		if rows := f.core.rows(test.cluster); rows != test.rows {
			t.Errorf("%s: %d rows, want %d", test.name, rows, test.rows)
		}
	}
}

// A library takes messages of up to 4 MiB if it is told nothing.
func TestALongRollup(t *testing.T) {
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	long := rollup("a", 11_000)
	for _, n := range long.GetRollup().GetNeeds() {
		n.Group = strings.Repeat("g", model.NameBytesMax)
	}
	if size := proto.Size(long); size < 5<<20 {
		t.Fatalf("%d bytes are not long", size)
	}
	o.send(long)
	o.ack("rollup")
	if rows := f.core.rows("a"); rows != 11_000 {
		t.Errorf("%d rows, want all", rows)
	}
}

// Of many roll-ups the newest is read when the shard has time; none that is
// older comes after it, and other clusters have their turn.
func TestTheNewestRollupWaits(t *testing.T) {
	f := serve(t, session.Deps{Readers: 1})
	f.core.release, f.core.entered = make(chan struct{}), make(chan string, 10)
	a, b := f.connect(t, "a"), f.connect(t, "b")
	a.send(rollup("a", 1))
	if got := await(t, f.core.entered); got != "a 1" {
		t.Fatalf("first read: %s", got)
	}
	for rows := 2; rows <= 9; rows++ {
		a.send(rollup("a", rows))
	}
	until(t, "all have come", func() bool { return f.server.Sessions()[0].Received == 10 })
	b.send(rollup("b", 1))
	until(t, "all have come", func() bool { return f.server.Sessions()[1].Received == 2 })
	f.core.release <- struct{}{}
	got := map[string]bool{await(t, f.core.entered): true}
	f.core.release <- struct{}{}
	got[await(t, f.core.entered)] = true
	f.core.release <- struct{}{}
	if !got["a 9"] || !got["b 1"] {
		t.Errorf("then read: %v, want a 9 and b 1", got)
	}
	a.ack("rollup")
	a.ack("rollup")
	b.ack("rollup")
	if rows := f.core.rows("a"); rows != 9 {
		t.Errorf("%d rows, want those of the newest", rows)
	}
}

// What roll-ups hold is counted while they wait and are read, a newer one in the
// place of an older one, and what reads them from then on.
func TestBytesOfRollupsAreCounted(t *testing.T) {
	f := serve(t, session.Deps{Readers: 1})
	if waiting, reading := f.server.RollupBytes(); waiting != 0 || reading != 0 {
		t.Errorf("%d bytes wait, %d are held to read; nothing has come", waiting, reading)
	}
	f.core.release, f.core.entered = make(chan struct{}), make(chan string, 10)
	a := f.connect(t, "a")
	size := func(rows int) int64 { return int64(proto.Size(rollup("a", rows).GetRollup())) }
	a.send(rollup("a", 100))
	await(t, f.core.entered)
	a.send(rollup("a", 300))
	a.send(rollup("a", 200))
	until(t, "those of 100 and 200 rows are counted", func() bool {
		waiting, _ := f.server.RollupBytes()
		return waiting == size(100)+size(200)
	})
	f.core.release <- struct{}{}
	await(t, f.core.entered)
	f.core.release <- struct{}{}
	a.ack("rollup")
	a.ack("rollup")
	until(t, "nothing waits", func() bool {
		waiting, reading := f.server.RollupBytes()
		return waiting == 0 && reading > 0
	})
}

// A roll-up of a session that was replaced while it waited is nobody's.
func TestARollupOfTheSessionBeforeIsDropped(t *testing.T) {
	f := serve(t, session.Deps{Readers: 1})
	f.core.release, f.core.entered = make(chan struct{}), make(chan string, 10)
	busy, old := f.connect(t, "busy"), f.connect(t, "a")
	busy.send(rollup("busy", 1))
	await(t, f.core.entered)
	old.send(rollup("a", 1))
	until(t, "it waits", func() bool { return f.server.Sessions()[0].Received == 2 })
	fresh := f.connect(t, "a")
	old.end()
	f.core.release <- struct{}{}
	fresh.send(rollup("a", 2))
	if got := await(t, f.core.entered); got != "a 2" {
		t.Errorf("read: %s, want that of the new session", got)
	}
	f.core.release <- struct{}{}
	fresh.ack("rollup")
}

// News never waits for an operator that does not read, and answers pass it by.
func TestAnOperatorThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	f := serve(t, session.Deps{})
	conn := f.dial(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := pb.NewShardClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(hello("a")); err != nil {
		t.Fatal(err)
	}
	until(t, "it is connected", func() bool { return f.server.Connected("a") })
	const machines = 5_000
	label := strings.Repeat("x", 1000)
	for round := range 3 {
		for i := range machines {
			f.server.NodeState(shard.NodeState{
				Cluster: "a", Machine: fmt.Sprintf("m%d", i), State: model.State(round + 1), Labels: map[string]string{"label": label},
			})
		}
	}
	info := f.server.Sessions()[0]
	if info.Waiting > machines+int(info.Sent) || info.Waiting < machines/2 {
		t.Errorf("%d messages wait and %d are sent; want about one for each of %d machines", info.Waiting, info.Sent, machines)
	}
	// What the operator reads at last ends with the newest of each.
	for current := map[string]bool{}; len(current) < machines; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch u := m.GetNodeStateUpdate(); {
		case u == nil:
		case u.GetState() == pb.MachineState_MACHINE_STATE_IDLE:
			current[u.GetMachineId()] = true
		case current[u.GetMachineId()]:
			t.Fatalf("older news of %s comes after the newest", u.GetMachineId())
		}
	}
}

func TestASessionThatStallsIsEnded(t *testing.T) {
	f := serve(t, session.Deps{})
	conn := f.dial(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := pb.NewShardClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(hello("a")); err != nil {
		t.Fatal(err)
	}
	until(t, "it is connected", func() bool { return f.server.Connected("a") })
	// Far more than the flow control of a stream that nobody reads lets out: one
	// of them is being sent for good, sooner or later.
	for i := range 1 << 11 {
		f.server.NodeState(shard.NodeState{Cluster: "a", Machine: fmt.Sprint(i), LastError: strings.Repeat("x", 4096)})
	}
	until(t, "a message is being sent", func() bool { return f.server.Sends("a") })
	f.server.EndStalled(session.SendStallMax / 2)
	if !f.server.Connected("a") {
		t.Fatal("ended too early")
	}
	until(t, "the session is ended", func() bool {
		f.server.EndStalled(2 * session.SendStallMax)
		return !f.server.Connected("a")
	})
}

func TestDrainSendsWhatWaits(t *testing.T) {
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	const news = 1000
	for i := range news {
		f.server.NodeState(shard.NodeState{Cluster: "a", Machine: fmt.Sprint(i)})
	}
	drained := make(chan error, 1)
	go func() { drained <- f.server.Drain(t.Context()) }()
	for range news {
		o.next()
	}
	if got := o.end(); got != codes.Unavailable {
		t.Errorf("the session ends with %v, want Unavailable", got)
	}
	if err := await(t, drained); err != nil {
		t.Errorf("drain: %v", err)
	}
	f.server.NodeState(shard.NodeState{Cluster: "a", Machine: "late"}) // nobody hears it
}

func TestOnlyTheClusterItselfMayConnect(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	load := func(uris ...string) *mtls.Material {
		m, err := mtls.Load(ca.Files(t, uris...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	registry := prometheus.NewRegistry()
	f := serve(t, session.Deps{TLS: load(), Registerer: registry})
	good := f.open(t, f.dial(t, load("bigfleet://cluster/a")))
	good.send(hello("a"))
	good.ack("hello")
	refused := 0
	for _, uris := range [][]string{{"bigfleet://cluster/b"}, {"bigfleet://admin"}, {}, {"bigfleet://cluster/a", "bigfleet://admin"}} {
		o := f.open(t, f.dial(t, load(uris...)))
		_ = o.stream.Send(hello("a")) // the session may be refused before it is read
		if got := o.end(); got != codes.PermissionDenied {
			t.Errorf("%q as cluster a: %v, want PermissionDenied", uris, got)
		}
		refused++
	}
	if n, err := testutil.GatherAndCount(registry, "bigfleet_shard_session_identity_rejected_total"); err != nil || n != 1 {
		t.Fatalf("%d series, %v", n, err)
	}
	want := fmt.Sprintf(`# HELP bigfleet_shard_session_identity_rejected_total Sessions whose certificate is not of the cluster that they name.
# TYPE bigfleet_shard_session_identity_rejected_total counter
bigfleet_shard_session_identity_rejected_total %d
`, refused)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "bigfleet_shard_session_identity_rejected_total"); err != nil {
		t.Error(err)
	}
	if !f.server.Connected("a") {
		t.Error("another peer ended the cluster's session")
	}
}
