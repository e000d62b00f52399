package operator_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/shard/session"
)

// judge is a shard that reads every roll-up as the real one does, judges it, and
// acknowledges it.
type judge struct {
	bigfleet.UnimplementedShardServer
	address string
	limits  rollup.Limits     // that it tells
	offered map[string]string // that it tells

	mu       sync.Mutex
	look     func(needs []*bigfleet.CapacityNeed) string // what is wrong; nil = nothing is
	last     []*bigfleet.CapacityNeed
	rollups  int
	sessions int
	longest  int // bytes
	faults   []string
	decoder  *session.Decoder
	builder  *demand.Builder
}

// faultsMax is how many faults are kept.
const faultsMax = 5

func newJudge(t *testing.T, limits rollup.Limits, offered map[string]string) *judge {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{address: l.Addr().String(), limits: limits, offered: offered, decoder: session.NewDecoder(), builder: demand.NewBuilder()}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(session.MessageBytesMax + 1<<10))
	bigfleet.RegisterShardServer(server, j)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return j
}

// header tells the limits as a shard does.
func (j *judge) header() metadata.MD {
	h := metadata.MD{}
	for key, n := range map[string]int{"rows": j.limits.Rows, "gangs": j.limits.Gangs, "requirement-sets": j.limits.Sets, "keys": j.limits.Keys} {
		if n > 0 {
			h.Set("tonnage-max-"+key, strconv.Itoa(n))
		}
	}
	var b strings.Builder
	for name, amount := range j.offered {
		b.WriteString(name + "=" + amount + "\n")
	}
	h.Set("tonnage-offered-bin", b.String())
	return h
}

// Session implements the service.
func (j *judge) Session(stream bigfleet.Shard_SessionServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		echo := "hello"
		if r := m.GetRollup(); r != nil {
			j.judge(r)
			echo = "rollup"
		} else if m.GetHello() != nil {
			j.mu.Lock()
			j.sessions++
			j.mu.Unlock()
			if err := stream.SetHeader(j.header()); err != nil {
				return err
			}
		} else {
			continue
		}
		if err := stream.Send(acknowledgement(echo)); err != nil {
			return err
		}
	}
}

// judge notes what is wrong with a roll-up.
func (j *judge) judge(r *bigfleet.ClusterCapacityNeeds) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rollups++
	j.last = r.Needs
	text, err := proto.Marshal(r)
	j.longest = max(j.longest, len(text))
	faults := j.exceeded(r.Needs)
	if err == nil {
		err = j.decoder.Decode("blue", text, j.builder)
	}
	if err != nil {
		faults = append(faults, err.Error())
	}
	if j.look != nil {
		if why := j.look(r.Needs); why != "" {
			faults = append(faults, why)
		}
	}
	for _, f := range faults {
		if len(j.faults) < faultsMax {
			j.faults = append(j.faults, fmt.Sprintf("roll-up %d of session %d: %s", j.rollups, j.sessions, f))
		}
	}
}

// exceeded names the limits that rows are above of.
func (j *judge) exceeded(needs []*bigfleet.CapacityNeed) (faults []string) {
	sets, keys, strange, gangs := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for _, n := range needs {
		set := ""
		for _, r := range n.Requirements {
			set += fmt.Sprintf("%q %d %q\n", r.Key, r.Operator, r.Values)
			keys[r.Key] = true
			if r.Operator == bigfleet.NodeSelectorRequirement_OPERATOR_SAME {
				gangs++
			}
		}
		sets[set] = true
		for _, s := range n.Spread {
			keys[s.TopologyKey] = true
		}
		for name := range n.AggregateResources {
			if _, some := j.offered[name]; !some {
				strange[name] = true
			}
		}
	}
	for _, x := range []struct {
		what    string
		n, most int
	}{
		{"rows", len(needs), j.limits.Rows}, {"gangs", gangs, j.limits.Gangs}, {"sets", len(sets), j.limits.Sets}, {"keys", len(keys), j.limits.Keys},
		{"resources that nobody offers", len(strange), rollup.UnofferedMax},
	} {
		if x.most > 0 && x.n > x.most {
			faults = append(faults, fmt.Sprintf("%d %s, at most %d are accepted", x.n, x.what, x.most))
		}
	}
	return faults
}

// watch has every roll-up from now on looked at.
func (j *judge) watch(look func(needs []*bigfleet.CapacityNeed) string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look = look
}

// newest returns the last roll-up and how many there were.
func (j *judge) newest() ([]*bigfleet.CapacityNeed, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last, j.rollups
}

// more is a condition of eventually: so many more roll-ups have come since it was made.
func (j *judge) more(n int) func() string {
	_, from := j.newest()
	return func() string {
		if _, now := j.newest(); now < from+n {
			return fmt.Sprintf("%d roll-ups since, want %d", now-from, n)
		}
		return ""
	}
}

// sentence fails the test when a roll-up was wrong.
func (j *judge) sentence(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.faults {
		t.Error(f)
	}
	t.Logf("%d roll-ups in %d sessions, the longest of %d bytes, the last of %d rows", j.rollups, j.sessions, j.longest, len(j.last))
}
