package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// netnsMissing says what is missing to put replicas into network namespaces.
func netnsMissing() string {
	if os.Getenv("TONNAGE_NO_NETNS") != "" {
		return "TONNAGE_NO_NETNS is set"
	}
	if os.Geteuid() != 0 {
		return "network namespaces need root: run the tests as root, or set TONNAGE_NO_NETNS=1 to leave them out"
	}
	for _, tool := range []struct{ name, pkg string }{{"ip", "iproute2"}, {"nft", "nftables"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Sprintf("there is no %s: apt-get install %s, or set TONNAGE_NO_NETNS=1", tool.name, tool.pkg)
		}
	}
	return ""
}

// command runs a tool and fails the test with what it says.
func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ownNetwork is the variable that tells a process of these tests that it has a network of its own.
const ownNetwork = "TONNAGE_OWN_NETWORK"

// inOwnNetwork runs the tests in a process with a network of its own, and returns how that ends; done is false in that process, and
// where namespaces cannot be had. The host's interfaces stay as they are: a browser in a test beside these drops all that it is loading
// when they change.
func inOwnNetwork() (code int, done bool) {
	if netnsMissing() != "" {
		return 0, false
	}
	if os.Getenv(ownNetwork) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "ip link set lo up: %v\n%s", err, out)
			return 1, true
		}
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	runtime.LockOSThread() // the process ends with the thread that has started it
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownNetwork+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "the tests cannot be started in a network of their own:", err)
		return 1, true
	}
	return cmd.ProcessState.ExitCode(), true
}

// newNetnsGroup starts replicas in a namespace each.
func newNetnsGroup(t *testing.T, extra ...string) *group {
	t.Helper()
	g := netnsGroup(t, extra...)
	g.startAll()
	return g
}

// networks is how many networks this run has made.
var networks atomic.Int32

// netnsGroup is replicas that have not started, in a namespace each. A bridge joins
// them; the test, and what it runs beside them, has an address on it.
func netnsGroup(t *testing.T, extra ...string) *group {
	t.Helper()
	g := &group{t: t, dial: plaintext()}
	// Two runs at a time must not share a network, nor two tests of one run. A namespace that was
	// deleted keeps its names for a while.
	number := int(networks.Add(1)) - 1
	mark := fmt.Sprintf("%dx%d", os.Getpid()%10000, number%100)
	subnet := fmt.Sprintf("10.%d.%d", 64*(1+number%3)+os.Getpid()%64, os.Getpid()/64%250+1)
	bridge := "tb" + mark
	command(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() })
	command(t, "ip", "addr", "add", subnet+".254/24", "dev", bridge)
	command(t, "ip", "link", "set", bridge, "up")
	for i := range 3 {
		ns, inside, outside := fmt.Sprintf("tn%s-%d", mark, i), "eth0", fmt.Sprintf("tv%s-%d", mark, i)
		ip := fmt.Sprintf("%s.%d", subnet, i+1)
		command(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		command(t, "ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", ns)
		command(t, "ip", "link", "set", outside, "master", bridge, "up")
		command(t, "ip", "-n", ns, "addr", "add", ip+"/24", "dev", inside)
		command(t, "ip", "-n", ns, "link", "set", inside, "up")
		command(t, "ip", "-n", ns, "link", "set", "lo", "up")
		g.nodes = append(g.nodes, &node{
			id: fmt.Sprintf("c-%d", i), listen: ip + ":7790", raft: ip + ":7791", metrics: ip + ":8790", dir: filepath.Join(t.TempDir(), "data"), netns: ns, extra: extra,
		})
	}
	return g
}

// rules replaces the packet filter of a replica's namespace.
func (g *group) rules(n *node, text string) {
	g.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", n.netns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader("flush ruleset\n" + text)
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("nft in %s: %v\n%s", n.netns, err, out)
	}
}

const (
	fromPeers = `table inet from {
		chain in { type filter hook input priority 0; tcp dport 7791 drop; tcp sport 7791 drop; }
	}`
	toPeers = `table inet to {
		chain out { type filter hook output priority 0; tcp dport 7791 drop; tcp sport 7791 drop; }
	}`
)

func open(g *group, n *node) { g.rules(n, "") }

// cuts take the leader's peers away and leave its clients: it is asked on, and
// must not answer for a group that has another leader.
var cuts = []fault{
	{"cut off", func(g *group, n *node) { g.rules(n, fromPeers+"\n"+toPeers) }, open},
	{"hears nobody", func(g *group, n *node) { g.rules(n, fromPeers) }, open},
	{"is not heard", func(g *group, n *node) { g.rules(n, toPeers) }, open},
}
