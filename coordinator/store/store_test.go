package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tonnage/tonnage/coordinator/store"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func open(t *testing.T, dir, peer string) *store.Store {
	t.Helper()
	s, err := store.OpenMember(t.Context(), store.MemberConfig{Replica: "c-0", Dir: dir, PeerListen: peer, PeerAdvertise: peer, Address: "here:1"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(t *testing.T, s *store.Store) *store.Claim {
	t.Helper()
	for range 500 {
		if s.Leads() {
			if c, err := s.Claim(t.Context()); err == nil {
				return c
			} else if !errors.Is(err, store.ErrDeposed) {
				t.Fatal(err)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("no claim within ten seconds")
	return nil
}

func contents(t *testing.T, s *store.Store, c *store.Claim) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.Load(t.Context(), c, func(key string, value []byte) error {
		out[key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func one(key, value string) []store.Write { return []store.Write{{Key: key, Value: []byte(value)}} }

func TestOneMember(t *testing.T) {
	dir, peer := t.TempDir(), freeAddress(t)
	s := open(t, dir, peer)
	first := claim(t, s)
	ctx := t.Context()
	if err := s.Commit(ctx, first, one("a", "1")); err != nil {
		t.Fatal(err)
	}

	// A claim that was replaced changes nothing and is not confirmed.
	second := claim(t, s)
	if err := s.Commit(ctx, first, one("a", "stale")); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a replaced claim commits: %v", err)
	}
	if err := s.Confirm(ctx, first); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a replaced claim is confirmed: %v", err)
	}
	if err := s.Confirm(ctx, second); err != nil {
		t.Errorf("the claim is not confirmed: %v", err)
	}

	// A commit that does not know of the last one is refused: so is one that was
	// sent before it, timed out, and comes in late.
	late := *second
	if err := s.Commit(ctx, second, one("a", "2")); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(ctx, &late, one("a", "late")); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a late commit changes something: %v", err)
	}

	// More than one transaction holds, and more than one page.
	var many []store.Write
	for i := range 500 {
		many = append(many, store.Write{Key: fmt.Sprintf("many/%03d", i), Value: []byte(strings.Repeat("x", 8<<10))})
	}
	if err := s.Commit(ctx, second, append(many, store.Write{Key: "a"})); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, s, second); len(got) != 500 || got["a"] != "" {
		t.Errorf("%d keys after a commit of 500, a is %q", len(got), got["a"])
	}
	if err := s.Commit(ctx, second, []store.Write{{Key: "big", Value: make([]byte, 2<<20)}}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("more than etcd takes: %v, want refused", err)
	}
	if err := s.Commit(ctx, second, one("a", "3")); err != nil {
		t.Errorf("after a refusal nothing can be committed: %v", err)
	}
	if l, err := s.Leader(ctx); err != nil || l.Address != "here:1" || l.Term != second.Term {
		t.Errorf("the leader is %+v, %v", l, err)
	}
	s.Close()

	// The term goes up with each start, and the state is there.
	if has, err := store.HasState(dir); err != nil || !has {
		t.Errorf("state: %t, %v", has, err)
	}
	s = open(t, dir, peer)
	defer s.Close()
	third := claim(t, s)
	if third.Term <= second.Term {
		t.Errorf("term %d after %d", third.Term, second.Term)
	}
	if got := contents(t, s, third); len(got) != 501 || got["a"] != "3" {
		t.Errorf("%d keys after a start, a is %q", len(got), got["a"])
	}
	if err := s.Join(ctx, "c-9", "http://127.0.0.1:1", true); err == nil {
		t.Error("a server of another group with state is let in")
	}
}

func TestExportsArePruned(t *testing.T) {
	s := open(t, t.TempDir(), freeAddress(t))
	defer s.Close()
	c := claim(t, s)
	dir := t.TempDir()
	foreign := filepath.Join(dir, "20200101-not-ours")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	var last string
	for i := range 4 {
		if err := s.Commit(t.Context(), c, one("n", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		name, err := s.Export(t.Context(), dir, c.Term, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC), 2)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Export(t.Context(), dir, c.Term, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC), 2); err != nil || again != name {
			t.Errorf("exported again in the same second: %s, %v; want %s", again, err, name)
		}
		last = name
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 4 || !slices.Contains(names, filepath.Base(foreign)) || !slices.Contains(names, filepath.Base(last)) {
		t.Errorf("left: %q, want two exports, the link, and what is not ours", names)
	}
	if to, err := os.Readlink(filepath.Join(dir, "latest")); err != nil || to != filepath.Base(last) {
		t.Errorf("latest leads to %q, %v; want %q", to, err, filepath.Base(last))
	}
	back := t.TempDir()
	if meta, err := store.Restore(filepath.Join(dir, "latest"), back, "c-0", "127.0.0.1:1", false); err != nil || meta.Index == 0 {
		t.Errorf("restored %+v, %v", meta, err)
	}
	if _, err := store.Restore(foreign, back, "c-0", "127.0.0.1:1", false); err == nil {
		t.Error("a folder without a snapshot is restored")
	}
}

// TestSomebodyElsesEtcd: leadership hangs on a lease there.
func TestSomebodyElsesEtcd(t *testing.T) {
	endpoint := etcd(t)
	openAs := func(name string) *store.Store {
		s, err := store.OpenExternal(t.Context(), []string{endpoint}, nil, name, name+":1")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := openAs("a"), openAs("b")
	defer b.Close()
	first := claim(t, a)
	if _, err := b.Claim(t.Context()); !errors.Is(err, store.ErrDeposed) {
		t.Fatalf("two replicas lead: %v", err)
	}
	if err := a.Commit(t.Context(), first, one("k", "v")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Peers(t.Context()); !errors.Is(err, store.ErrNoMembers) {
		t.Errorf("members of somebody else's etcd: %v", err)
	}
	a.Close()
	second := claim(t, b)
	if second.Term != first.Term+1 {
		t.Errorf("term %d after %d", second.Term, first.Term)
	}
	if got := contents(t, b, second); got["k"] != "v" {
		t.Errorf("the next leader reads %v", got)
	}
	if l, err := b.Leader(t.Context()); err != nil || l.Replica != "b" || !b.LeaderKnown(t.Context()) {
		t.Errorf("the leader is %+v, %v", l, err)
	}
	b.Release()
	if err := b.Confirm(t.Context(), second); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a claim without its lease is confirmed: %v", err)
	}
}

// etcd is one that serves clients.
func etcd(t *testing.T) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	client, peer := url.URL{Scheme: "http", Host: freeAddress(t)}, url.URL{Scheme: "http", Host: freeAddress(t)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogOutputs, c.LogLevel = []string{filepath.Join(c.Dir, "log")}, "error"
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	select {
	case <-e.Server.ReadyNotify():
	case <-ctx.Done():
		t.Fatal("etcd is not ready")
	}
	return client.Host
}

// TestStartThatIsGivenUp: when OpenMember returns, nothing works in the folder any more, and it may go.
func TestStartThatIsGivenUp(t *testing.T) {
	for i := range 10 {
		dir := filepath.Join(t.TempDir(), "data")
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		peer := freeAddress(t)
		_, err := store.OpenMember(ctx, store.MemberConfig{Replica: "c-0", Dir: dir, PeerListen: peer, PeerAdvertise: peer, Address: "here:1"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d ms: %v", i, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
