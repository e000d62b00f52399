package faults

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/internal/freeport"
)

var (
	soak = flag.Duration("soak", 0, "how long the runs with many faults last; 0 = short runs with one fault each")
	seed = flag.Int64("seed", 0, "seed of the faults; 0 = a new one, which is printed")
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if code, done := inOwnNetwork(); done {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "tonnage-faults-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "tonnage")
	args := []string{"build", "-o", binary, "github.com/tonnage/tonnage/cmd/tonnage"}
	if raceEnabled { // the replicas are what should be looked at
		args = slices.Insert(args, 1, "-race")
	}
	args = slices.Insert(args, 1, clockTags...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// logShown is how much of the log of a process is shown when a test has failed.
const logShown = 16 << 10

// node is one process: a replica, or what a test runs beside it.
type node struct {
	id      string
	listen  string
	raft    string
	metrics string
	dir     string
	netns   string // the namespace it runs in, empty = this one
	extra   []string

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}

func (n *node) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

// group is three replicas, and a client of them.
type group struct {
	t     testing.TB
	nodes []*node
	join  string
	etcd  string   // of somebody else; empty = each replica has a member of its own
	tls   []string // flags
	dial  []grpc.DialOption
	ca    *authority // of everybody's certificates; nil = plaintext
	marks string     // the shard that marks are assigned to; empty = s-0
}

// newGroup starts replicas on loopback and waits until all of them vote.
func newGroup(t *testing.T, extra ...string) *group {
	t.Helper()
	g := loopbackGroup(t, extra...)
	g.startAll()
	return g
}

// loopbackGroup is replicas on loopback that have not started.
func loopbackGroup(t *testing.T, extra ...string) *group {
	t.Helper()
	g := &group{t: t, dial: plaintext()}
	ports := freeport.TakeN(t, 9)
	for i := range 3 {
		g.nodes = append(g.nodes, &node{
			id: fmt.Sprintf("c-%d", i), listen: ports[i], raft: ports[3+i], metrics: ports[6+i], dir: filepath.Join(t.TempDir(), "data"), extra: extra,
		})
	}
	return g
}

// plaintext is without TLS, and past any proxy: replicas are near.
func plaintext() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()}
}

// environment is this process's, without proxies.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToLower(v), "=")
		return strings.HasSuffix(name, "_proxy")
	})
}

func (g *group) startAll() {
	g.t.Helper()
	var joins []string
	for _, n := range g.nodes {
		joins = append(joins, n.listen)
	}
	g.join = strings.Join(joins, ",")
	for _, n := range g.nodes {
		g.start(n)
	}
	g.t.Cleanup(g.stop)
	g.waitVoters(3)
}

func (g *group) start(n *node) {
	g.t.Helper()
	args := []string{binary, "coordinator", "--id", n.id, "--listen", n.listen, "--raft-bind", n.raft, "--metrics-addr", n.metrics, "--data-dir", n.dir}
	if g.etcd == "" {
		args = append(args, "--bootstrap", "--join-addr", g.join)
	} else {
		args = append(args, "--etcd-endpoints", g.etcd)
	}
	args = append(append(args, g.tls...), n.extra...)
	if n.netns != "" {
		args = append([]string{"ip", "netns", "exec", n.netns}, args...)
	}
	n.launch(g.t, args...)
}

// launch starts the node's process.
func (n *node) launch(t testing.TB, args ...string) {
	t.Helper()
	n.cmd = exec.Command(args[0], args[1:]...)
	n.cmd.Stdout, n.cmd.Stderr, n.cmd.Env = n, n, append(environment(), n.skewed(t)...)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// stop ends every replica, and shows their logs when the test has failed.
func (g *group) stop() {
	for _, n := range g.nodes {
		n.end(g.t)
	}
}

// end ends the process, and shows its log when the test has failed.
func (n *node) end(t testing.TB) {
	n.kill()
	if strings.Contains(n.text(), "DATA RACE") {
		t.Errorf("%s has a data race", n.id)
	}
	if text := n.text(); t.Failed() {
		t.Logf("the end of the log of %s:\n%s", n.id, text[max(0, len(text)-logShown):])
	}
}

func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	n.signal(syscall.SIGCONT)
	n.signal(syscall.SIGKILL)
	_ = n.cmd.Wait()
	n.cmd = nil
}

func (n *node) signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

// client is one that knows all replicas.
func (g *group) client() *client.Client {
	g.t.Helper()
	c, err := client.New(g.join, g.dial...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

// eventually waits until ask says yes, asking often.
func eventually(t testing.TB, limit time.Duration, what string, ask func(context.Context) bool) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ask(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
	return time.Since(began)
}

func (g *group) waitVoters(want int) {
	g.t.Helper()
	c := g.client()
	eventually(g.t, 60*time.Second, fmt.Sprintf("%d replicas vote", want), func(ctx context.Context) bool {
		voters := 0
		err := c.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			got, err := tonnage.NewFleetClient(conn).Members(ctx, &tonnage.MembersRequest{})
			for _, m := range got.GetMembers() {
				if !m.GetLearner() && m.GetReplica() != "" {
					voters++
				}
			}
			return err
		})
		return err == nil && voters == want
	})
}

// status asks one replica what it is.
func (g *group) status(ctx context.Context, n *node) (*tonnage.StatusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	conn, err := grpc.NewClient(n.listen, g.dial...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return tonnage.NewFleetClient(conn).Status(ctx, &tonnage.StatusRequest{})
}

// leader is the replica that leads among those given.
func (g *group) leader(among ...*node) *node {
	g.t.Helper()
	var found *node
	eventually(g.t, 20*time.Second, "a replica leads", func(ctx context.Context) bool {
		best := int64(-1)
		for _, n := range among {
			if s, err := g.status(ctx, n); err == nil && s.GetLeads() && s.GetCoordinatorTerm() > best {
				found, best = n, s.GetCoordinatorTerm()
			}
		}
		return found != nil
	})
	return found
}

func (g *group) others(n *node) []*node {
	var out []*node
	for _, x := range g.nodes {
		if x != n {
			out = append(out, x)
		}
	}
	return out
}
