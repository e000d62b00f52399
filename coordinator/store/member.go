package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Timing of the Raft group. A leader that is gone is replaced within one to two
// election timeouts, when no vote is split.
const (
	heartbeatMillis  = 100
	electionMillis   = 800
	quotaBytes       = 2 << 30
	compactRevisions = "1000"
	defragAtStartMB  = 64
	learnersMax      = 4
	readyTimeout     = 90 * time.Second
)

// Files are a certificate, its key and the CA, as names of files; all or none.
type Files struct{ Cert, Key, CA string }

// MemberConfig is one member of the Raft group.
type MemberConfig struct {
	Replica string // its name, unique in the group
	Dir     string // the data folder
	// PeerListen is host:port to listen on for other members, PeerAdvertise where
	// they reach it.
	PeerListen    string
	PeerAdvertise string
	// Address is where the replica's gRPC service is reached.
	Address string
	// TLS is for other members, checked in both directions. The CA signs nothing
	// but their certificates: etcd looks at no name in them that we could ask for.
	TLS Files
	// Alone opens no port for other members: there are none, and none can join.
	// OpenMember fails with ErrPeers when the folder knows of some.
	Alone bool
	// Peers are all members of an existing group, this one included, by name; nil
	// starts a group of one. It matters only while the folder is empty.
	Peers map[string]string
	// Log gets the lines of etcd; nil discards them.
	Log zapcore.Core
}

// Member is a member of the Raft group that runs in this process.
type Member struct {
	etcd   *embed.Etcd
	server *etcdserver.EtcdServer
}

// HasState tells whether a data folder holds the state of a member.
func HasState(dir string) (bool, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "member", "wal"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("data folder %s: %w", dir, err)
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".wal") }), nil
}

// ErrWAL says that a file of the write-ahead log holds nothing.
var ErrWAL = errors.New("it holds no record, so the state is not whole; restore the data folder with `tonnage ctl snapshot restore`, " +
	"or, when other replicas have the state, take this one out with `tonnage ctl remove-member`, empty its data folder and let it join anew")

// checkWAL refuses files of the write-ahead log that are empty, or that hold nothing
// but the zeros that a file begins with. etcd never leaves one, and ends with a
// trace where it finds one.
func checkWAL(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return err
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		var length [8]byte // of the first record
		_, err = io.ReadFull(f, length[:])
		if err := f.Close(); err != nil {
			return err
		}
		if err != nil || length == [8]byte{} {
			return fmt.Errorf("%s: %w", path, ErrWAL)
		}
	}
	return nil
}

// PeerURL is the URL of a member's address.
func PeerURL(hostPort string, tls bool) string {
	if tls {
		return "https://" + hostPort
	}
	return "http://" + hostPort
}

// ErrPeers says that a member that is to be alone has peers.
var ErrPeers = errors.New("the data folder is that of a group of several replicas")

// OpenMember starts a member and waits until it takes part in its group.
func OpenMember(ctx context.Context, c MemberConfig) (*Store, error) {
	cfg, err := c.embed()
	if err != nil {
		return nil, err
	}
	if err := checkWAL(c.Dir); err != nil {
		return nil, err
	}
	e, err := start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot start the member in %s: %w", c.Dir, err)
	}
	m := &Member{etcd: e, server: e.Server}
	if c.Alone && len(e.Server.Cluster().Members()) > 1 {
		e.Close()
		return nil, ErrPeers
	}
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StopNotify():
		e.Close()
		return nil, errors.New("the member was removed from its group; empty its data folder to let it join anew")
	case <-ctx.Done():
		e.Close()
		return nil, ctx.Err()
	case <-timeout.C:
		e.Close()
		return nil, fmt.Errorf("no majority of the members answered within %v", readyTimeout)
	}
	return &Store{client: v3client.New(e.Server), member: m, replica: c.Replica, address: c.Address}, nil
}

// abandonAfter is how long a start that nobody waits for any more may take to end.
const abandonAfter = 5 * time.Second

// start starts etcd. When ctx ends meanwhile, it waits for what was begun: etcd panics when its folder goes while
// it starts. It waits without end for a file that another process has, and is left to that after abandonAfter.
func start(ctx context.Context, cfg *embed.Config) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		e, err := embed.StartEtcd(cfg)
		started <- result{e, err}
	}()
	select {
	case r := <-started:
		return r.etcd, r.err
	case <-ctx.Done():
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if r := <-started; r.err == nil {
			r.etcd.Close()
		}
	}()
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil, ctx.Err()
}

func (c *MemberConfig) embed() (*embed.Config, error) {
	secure := c.TLS.Cert != "" || c.Alone
	listen, err := url.Parse(PeerURL(c.PeerListen, secure))
	if err != nil {
		return nil, fmt.Errorf("--raft-bind %q: %w", c.PeerListen, err)
	}
	if host, port, err := net.SplitHostPort(c.PeerListen); err == nil && net.ParseIP(host) == nil {
		// etcd binds to addresses only; a name is looked up here.
		ip := "0.0.0.0"
		if host != "" {
			addrs, err := net.LookupHost(host)
			if err != nil {
				return nil, fmt.Errorf("--raft-bind %q: %w", c.PeerListen, err)
			}
			ip = addrs[0]
		}
		listen.Host = net.JoinHostPort(ip, port)
	}
	advertise, err := url.Parse(PeerURL(c.PeerAdvertise, secure))
	if err != nil {
		return nil, fmt.Errorf("--raft-advertise %q: %w", c.PeerAdvertise, err)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = c.Replica, c.Dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*listen}, []url.URL{*advertise}
	if c.Alone {
		cfg.ListenPeerUrls = nil
	}
	// Clients are in this process; etcd listens for no other.
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, nil
	cfg.TickMs, cfg.ElectionMs, cfg.PreVote = heartbeatMillis, electionMillis, true
	cfg.QuotaBackendBytes, cfg.MaxLearners, cfg.StrictReconfigCheck = quotaBytes, learnersMax, true
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModeRevision, compactRevisions
	cfg.BootstrapDefragThresholdMegabytes = defragAtStartMB
	cfg.SnapshotCount = 10_000
	cfg.InitialCluster, cfg.ClusterState = c.initialCluster(secure), embed.ClusterStateFlagNew
	if c.Peers != nil {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	if c.TLS.Cert != "" {
		cfg.PeerTLSInfo = transport.TLSInfo{
			CertFile: c.TLS.Cert, KeyFile: c.TLS.Key, ClientCertFile: c.TLS.Cert, ClientKeyFile: c.TLS.Key,
			TrustedCAFile: c.TLS.CA, ClientCertAuth: true,
		}
		cfg.TlsMinVersion = "TLS1.3"
	}
	core := c.Log
	if core == nil {
		core = zapcore.NewNopCore()
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core))
	return cfg, os.MkdirAll(c.Dir, 0o700)
}

// initialCluster is how etcd writes the members of a group.
func (c *MemberConfig) initialCluster(secure bool) string {
	if c.Peers == nil {
		return c.Replica + "=" + PeerURL(c.PeerAdvertise, secure)
	}
	var parts []string
	for name, peer := range c.Peers {
		parts = append(parts, name+"="+peer)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// Leads tells whether the member leads its group, and in which Raft term.
func (m *Member) Leads() (bool, int64) {
	term := m.server.Term()
	return m.server.Leader() == m.server.MemberID(), int64(term)
}

func (m *Member) cluster() uint64 { return uint64(m.server.Cluster().ID()) }

// close hands leadership on, if the member has it, and stops.
func (m *Member) close() { m.etcd.Close() }

// Peer is a member of the group as any member knows it.
type Peer struct {
	ID       uint64
	Replica  string // empty when it has not started yet
	PeerURLs []string
	Learner  bool
}

// ErrNoMembers says that the members of somebody else's etcd are not managed
// here.
var ErrNoMembers = errors.New("the coordinator does not manage the members of an etcd that was there before it (--etcd-endpoints)")

// Peers lists the members of the group.
func (s *Store) Peers(ctx context.Context) ([]Peer, error) {
	if s.member == nil {
		return nil, ErrNoMembers
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	got, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the members: %w", err)
	}
	out := make([]Peer, 0, len(got.Members))
	for _, m := range got.Members {
		out = append(out, Peer{ID: m.GetID(), Replica: m.GetName(), PeerURLs: m.GetPeerURLs(), Learner: m.GetIsLearner()})
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.Replica, b.Replica) })
	return out, nil
}

// Join lets a replica in. One that has state and is known keeps its place; its
// address is brought up to date. One without state is added as a learner, and
// whatever entry its name or address had before goes: that was a disk which is
// gone.
func (s *Store) Join(ctx context.Context, replica, peerURL string, hasState bool) error {
	peers, err := s.Peers(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	for _, p := range peers {
		same := p.Replica == replica
		here := slices.Contains(p.PeerURLs, peerURL)
		switch {
		case same && hasState && here:
			return nil
		case same && hasState:
			_, err := s.client.MemberUpdate(ctx, p.ID, []string{peerURL})
			return err
		case p.Replica == "" && here:
			return nil // added by an earlier try, and not started yet
		case same || here:
			if p.ID == uint64(s.member.server.MemberID()) {
				return fmt.Errorf("%s at %s is this replica itself", replica, peerURL)
			}
			if _, err := s.client.MemberRemove(ctx, p.ID); err != nil {
				return fmt.Errorf("cannot remove the entry of %s that lost its disk: %w", replica, err)
			}
		}
	}
	if hasState {
		return fmt.Errorf("%s has state, and is no member of this group; empty its data folder to let it join anew", replica)
	}
	if _, err := s.client.MemberAddAsLearner(ctx, []string{peerURL}); err != nil {
		return fmt.Errorf("cannot add %s: %w", replica, err)
	}
	return nil
}

// ErrLastVoter says that the group would have nobody left.
var ErrLastVoter = errors.New("the only replica that votes cannot be removed; stop it, or let another one join first")

// HandOver lets another member lead, and returns once it does. It does nothing
// on a member that does not lead.
func (s *Store) HandOver() error {
	if s.member == nil {
		return ErrNoMembers
	}
	if leads, _ := s.member.Leads(); !leads {
		return nil
	}
	voters := 0
	for _, m := range s.member.server.Cluster().Members() {
		if !m.IsLearner {
			voters++
		}
	}
	if voters < 2 {
		return ErrLastVoter
	}
	return s.member.server.TryTransferLeadershipOnShutdown()
}

// Remove takes a member out of the group. The member must be another one: one
// that removes itself is gone before it can say so.
func (s *Store) Remove(ctx context.Context, replica string) error {
	peers, err := s.Peers(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(peers, func(p Peer) bool { return p.Replica == replica })
	if i < 0 {
		return os.ErrNotExist
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	_, err = s.client.MemberRemove(ctx, peers[i].ID)
	return err
}

// Promote makes voters of learners that have caught up. Only the leader can.
func (s *Store) Promote(ctx context.Context) (promoted []string, err error) {
	peers, err := s.Peers(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if !p.Learner || p.Replica == "" {
			continue
		}
		one, cancel := withTimeout(ctx)
		_, err := s.client.MemberPromote(one, p.ID)
		cancel()
		if err == nil {
			promoted = append(promoted, p.Replica)
		}
	}
	return promoted, nil
}
