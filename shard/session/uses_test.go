package session_test

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/shard/session"
)

// naming is a roll-up whose only row names these attribute keys.
func naming(cluster string, keys ...string) *pb.OperatorMessage {
	r := rollup(cluster, 1)
	r.GetRollup().Needs[0].Requirements = nil
	for _, k := range keys {
		r.GetRollup().Needs[0].Requirements = append(r.GetRollup().Needs[0].Requirements,
			&pb.NodeSelectorRequirement{Key: k, Operator: pb.NodeSelectorRequirement_OPERATOR_EXISTS})
	}
	return r
}

func keysOf(cluster string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s/%d", cluster, i))
	}
	return keys
}

// One cluster names as many keys as it can, then others do: who comes too late
// is refused, and everybody else goes on as before.
func TestKeysOfOneClusterDoNotStopTheOthers(t *testing.T) {
	f := serve(t, session.Deps{})
	report := func(o *operator, m *pb.OperatorMessage, refused string) {
		t.Helper()
		o.send(m)
		if refused == "" {
			await(t, f.core.taken)
			o.ack("rollup")
			return
		}
		if got := await(t, f.core.taken); !strings.HasSuffix(got, " 0") {
			t.Fatalf("the shard takes in %q, want it refused", got)
		}
		until(t, "it is noted", func() bool { return strings.Contains(errorOf(f, m.GetRollup().GetClusterId()), refused) })
	}
	greedy := f.connect(t, "greedy")
	report(greedy, naming("greedy", keysOf("greedy", session.ClusterKeysDefault+1)...), "of a cluster")
	most := session.KeysMax / session.ClusterKeysDefault
	operators := make([]*operator, most)
	for i := range operators {
		id := fmt.Sprintf("c%d", i)
		operators[i] = f.connect(t, id)
		report(operators[i], naming(id, keysOf(id, session.ClusterKeysDefault)...), "")
	}
	report(greedy, naming("greedy", "one/more"), "the clusters of the shard")
	report(greedy, naming("greedy", "c0/0", "c1/1"), "") // that others name
	report(operators[0], naming("c0", keysOf("c0", session.ClusterKeysDefault)...), "")
	report(operators[0], naming("c0", "c0/0"), "")
	report(greedy, naming("greedy", "one/more"), "") // there is room now
	if rows := f.core.rows("c1"); rows != 1 {
		t.Errorf("another cluster has %d rows, want the one it had", rows)
	}
}

func errorOf(f *fixture, cluster string) string {
	for _, info := range f.server.Sessions() {
		if info.Cluster == cluster && info.Rollup.Err != nil {
			return info.Rollup.Err.Error()
		}
	}
	return ""
}

// mustBound sends a roll-up of the most that is accepted of something, and one of one
// more, which must be refused with these words.
func mustBound(t *testing.T, most int, of func(n int) *pb.OperatorMessage, words string) {
	t.Helper()
	f := serve(t, session.Deps{})
	o := f.connect(t, "a")
	o.send(of(most))
	await(t, f.core.taken)
	o.ack("rollup")
	o.send(of(most + 1))
	await(t, f.core.taken)
	until(t, "it is refused", func() bool { return strings.Contains(errorOf(f, "a"), words) })
	if rows, want := f.core.rows("a"), len(of(most).GetRollup().GetNeeds()); rows != want {
		t.Errorf("%d rows, want the %d of the last good roll-up", rows, want)
	}
}

func TestUnitsOfOneClusterAreBounded(t *testing.T) {
	mustBound(t, session.ClusterKindsMax, func(n int) *pb.OperatorMessage {
		m := rollup("a", n+8) // some are alike
		for i, need := range m.GetRollup().GetNeeds() {
			need.MinUnit = map[string]string{"cpu": fmt.Sprint(1+i%n, "m")}
		}
		return m
	}, "minimum unit")
}

func TestKindsOfOneClusterAreBounded(t *testing.T) {
	mustBound(t, session.ClusterRequirementSetsDefault, func(n int) *pb.OperatorMessage {
		m := rollup("a", n)
		for i, need := range m.GetRollup().GetNeeds() {
			need.Requirements[0].Values = []string{fmt.Sprint(i)}
		}
		return m
	}, "sets of requirements")
}

func TestGangsOfOneClusterAreBounded(t *testing.T) {
	mustBound(t, session.ClusterGangsDefault, func(n int) *pb.OperatorMessage {
		m := rollup("a", n+8) // some are none
		for _, need := range m.GetRollup().GetNeeds()[:n] {
			need.Requirements[0] = &pb.NodeSelectorRequirement{Key: "rack", Operator: pb.NodeSelectorRequirement_OPERATOR_SAME}
		}
		return m
	}, "4097 of its rows are gangs, which have a Same requirement; at most 4096 are accepted of a cluster: report fewer, larger ones, or raise --cluster-gangs-max")
}

func TestRowsOfOneClusterAreBounded(t *testing.T) {
	mustBound(t, session.ClusterRowsDefault, func(n int) *pb.OperatorMessage { return rollup("a", n) },
		"32769 rows; at most 32768 are accepted: report fewer, larger ones, or raise --cluster-rows-max")
}

func TestLimitsCanBeSet(t *testing.T) {
	f := serve(t, session.Deps{Limits: session.ClusterLimits{Rows: 2}})
	o := f.connect(t, "a")
	o.send(rollup("a", 3))
	await(t, f.core.taken)
	until(t, "it is refused", func() bool { return strings.Contains(errorOf(f, "a"), "3 rows; at most 2") })
	for _, limits := range []session.ClusterLimits{{Rows: -1}, {Rows: 1<<20 + 1}, {Gangs: -1}, {RequirementSets: session.MatchersMax + 1}, {Keys: session.KeysMax + 1}} {
		if _, err := session.NewServer(session.Deps{Core: f.core, Limits: limits}); err == nil || !strings.Contains(err.Error(), "must be between 1 and") {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}
