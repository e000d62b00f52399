package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"

	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/coordinator/client"
	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/internal/mtls"
)

// How long others are asked, and how often.
const (
	probeFor     = 5 * time.Second
	probeEach    = time.Second
	joinFirst    = 250 * time.Millisecond
	joinPauseMax = 15 * time.Second
	joinTimeout  = 4 * time.Second
)

// opener brings a replica into its group.
type opener struct {
	config   *Config
	material *mtls.Material
	address  string // of this replica's gRPC service
	log      *slog.Logger
}

func (o *opener) open(ctx context.Context) (*store.Store, error) {
	c := o.config
	if len(c.EtcdEndpoints) > 0 {
		private, err := mtls.Load(c.EtcdTLS, o.log)
		if err != nil {
			return nil, err
		}
		return store.OpenExternal(ctx, c.EtcdEndpoints, private.ClientConfig(), c.ID, o.address)
	}
	has, err := store.HasState(c.DataDir)
	if err != nil {
		return nil, err
	}
	switch {
	case has:
		return o.resume(ctx)
	case c.JoinAddr == "" && !c.Bootstrap:
		return nil, &FlagError{"data-dir", c.DataDir, errors.New("holds no state; start a new group with --bootstrap, or join one with --join-addr")}
	case c.JoinAddr == "":
		o.log.Info("starts a group of its own", "replica", c.ID)
		return o.start(ctx, nil)
	case c.Bootstrap && c.first() && !o.anyHasState(ctx):
		o.log.Info("starts a group, since no other replica has state", "replica", c.ID)
		return o.start(ctx, nil)
	}
	return o.join(ctx)
}

// start starts the member; peers are those of a group that is there.
func (o *opener) start(ctx context.Context, peers map[string]string) (*store.Store, error) {
	s, err := store.OpenMember(ctx, o.member(peers))
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		return nil, &FlagError{"raft-bind", o.config.RaftBind, op}
	}
	if errors.Is(err, store.ErrPeers) {
		return nil, &FlagError{"data-dir", o.config.DataDir, fmt.Errorf("%w; with mutual TLS they speak over certificates of a CA of their own: give %s, %s and %s",
			err, o.config.RaftTLS.Flag("cert"), o.config.RaftTLS.Flag("key"), o.config.RaftTLS.Flag("ca"))}
	}
	return s, err
}

func (o *opener) member(peers map[string]string) store.MemberConfig {
	return store.MemberConfig{
		Replica: o.config.ID, Dir: o.config.DataDir, PeerListen: o.config.RaftBind, PeerAdvertise: o.config.peerAddress(),
		Address: o.address, TLS: o.config.raftFiles(), Alone: o.config.alone(),
		Peers: peers, Log: etcdLog(o.log),
	}
}

// resume takes the replica's place in its group again. The group is told where
// it is now as soon as one of the others answers; it may not be able to take part
// before that.
func (o *opener) resume(ctx context.Context) (*store.Store, error) {
	if o.config.JoinAddr != "" {
		told, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			if _, err := o.ask(told, true); err != nil && told.Err() == nil {
				o.log.Warn("the group does not take this replica back", "error", err)
			}
		}()
	}
	return o.start(ctx, nil)
}

// join asks to be let in until it is.
func (o *opener) join(ctx context.Context) (*store.Store, error) {
	pause := joinFirst
	for {
		peers, err := o.ask(ctx, false)
		if err == nil {
			var s *store.Store
			if s, err = o.start(ctx, peers); err == nil {
				return s, nil
			}
		}
		if _, ok := errors.AsType[*FlagError](err); ok {
			return nil, err // no waiting mends it
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o.log.Info("waits to be let into the group", "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, joinPauseMax)
	}
}

// ask asks the leader to let this replica in, and returns the members by name.
func (o *opener) ask(ctx context.Context, hasState bool) (map[string]string, error) {
	c, err := client.New(o.config.JoinAddr, o.material.DialOptionsTo(mtls.CoordinatorServer())...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var reply *tonnage.JoinReply
	err = c.Call(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		var err error
		reply, err = tonnage.NewFleetClient(conn).Join(ctx, &tonnage.JoinRequest{
			Replica: o.config.ID, RaftAddress: o.config.peerAddress(), HasState: hasState,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	own := store.PeerURL(o.config.peerAddress(), o.config.TLS.Given())
	peers := map[string]string{}
	for i, m := range reply.GetMembers() {
		if len(m.GetPeerUrls()) == 0 {
			continue
		}
		name := m.GetReplica()
		if name == "" { // it has not started; its name does not matter yet
			name = "unstarted-" + strconv.Itoa(i)
		}
		if m.GetPeerUrls()[0] == own {
			name = o.config.ID
		}
		peers[name] = m.GetPeerUrls()[0]
	}
	if peers[o.config.ID] == "" {
		return nil, errors.New("the group does not list this replica after letting it in")
	}
	return peers, nil
}

// anyHasState asks every other replica whether it has state, for a while: some
// may be starting just now. When all are listed one by one and each has said that
// it has none, there is nobody left to wait for.
func (o *opener) anyHasState(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	for {
		others, listed := o.others(ctx)
		answered := 0
		for _, address := range others {
			has, known := o.hasState(ctx, address)
			if has {
				o.log.Info("another replica has state: joins it", "address", address)
				return true
			}
			if known {
				answered++
			}
		}
		if listed && answered == len(others) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(probeEach / 4):
		}
	}
}

// others are the addresses behind --join-addr, one for each replica that a name
// stands for; listed tells whether there are several, each for itself.
func (o *opener) others(ctx context.Context) (out []string, listed bool) {
	c, err := client.New(o.config.JoinAddr)
	if err != nil {
		return nil, false
	}
	listed = len(c.Addresses()) > 1
	for _, a := range c.Addresses() {
		host, port, _ := net.SplitHostPort(a)
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return out, false
		}
		listed = listed && len(ips) == 1
		for _, ip := range ips {
			out = append(out, net.JoinHostPort(ip, port))
		}
	}
	return out, listed
}

// hasState asks one replica; this one is known to have none.
func (o *opener) hasState(ctx context.Context, address string) (has, known bool) {
	ctx, cancel := context.WithTimeout(ctx, probeEach)
	defer cancel()
	conn, err := grpc.NewClient(address, o.material.DialOptionsTo(mtls.CoordinatorServer())...)
	if err != nil {
		return false, false
	}
	defer conn.Close()
	reply, err := tonnage.NewFleetClient(conn).Status(ctx, &tonnage.StatusRequest{})
	return err == nil && reply.GetHasState() && reply.GetReplica() != o.config.ID, err == nil
}
