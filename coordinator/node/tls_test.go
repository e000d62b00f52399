package node_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/coordinator/node"
	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// What would leave the Raft port or etcd open to tenants ends the start.
func TestPrivatePortsNeedTheirOwnCA(t *testing.T) {
	tenants, private := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	admin := tenants.Files(t, "bigfleet://admin")
	raft, etcd := private.Files(t), private.Files(t)
	raft.Flags, etcd.Flags = "raft-tls", "etcd-tls"
	for what, c := range map[string]struct {
		change func(*node.Config)
		want   string // "" = it starts
	}{
		"several replicas with both": {func(c *node.Config) { c.TLS, c.RaftTLS, c.JoinAddr = admin, raft, "b:7790" }, ""},
		"several replicas without":   {func(c *node.Config) { c.TLS, c.JoinAddr = admin, "b:7790" }, "--tls-cert with --join-addr needs --raft-tls-cert, --raft-tls-key and --raft-tls-ca"},
		"one replica without":        {func(c *node.Config) { c.TLS, c.Bootstrap = admin, true }, ""},
		"plaintext":                  {func(c *node.Config) { c.JoinAddr = "b:7790" }, ""},
		"Raft only":                  {func(c *node.Config) { c.RaftTLS = raft }, "--raft-tls-cert without --tls-cert"},
		"a part": {func(c *node.Config) {
			c.TLS, c.RaftTLS = admin, raft
			c.RaftTLS.Key = ""
		}, "--raft-tls-cert and --raft-tls-ca without --raft-tls-key"},
		"the tenants' CA": {func(c *node.Config) {
			c.TLS, c.RaftTLS = admin, tenants.Files(t, "bigfleet://admin")
			c.RaftTLS.Flags = "raft-tls"
		}, "--tls-ca and --raft-tls-ca both hold the CA"},
		"a certificate of another CA": {func(c *node.Config) {
			c.TLS, c.RaftTLS = admin, raft
			c.RaftTLS.CA = mtlstest.NewAuthority(t).File()
		}, "the certificate of --raft-tls-cert is not one of a server that --raft-tls-ca believes"},
		"etcd with":         {func(c *node.Config) { c.TLS, c.EtcdTLS, c.EtcdEndpoints = admin, etcd, []string{"https://e:2379"} }, ""},
		"etcd without":      {func(c *node.Config) { c.TLS, c.EtcdEndpoints = admin, []string{"e:2379"} }, "--tls-cert with --etcd-endpoints needs --etcd-tls-cert"},
		"etcd in plaintext": {func(c *node.Config) { c.TLS, c.EtcdEndpoints = admin, []string{"http://e:2379"} }, ""},
		"etcd half and half": {func(c *node.Config) {
			c.TLS, c.EtcdTLS, c.EtcdEndpoints = admin, etcd, []string{"https://e:2379", "http://f:2379"}
		}, `--etcd-endpoints "http://f:2379" is plaintext`},
		"etcd and Raft":       {func(c *node.Config) { c.TLS, c.RaftTLS, c.EtcdEndpoints = admin, raft, []string{"http://e:2379"} }, "--raft-tls-cert does not go with --etcd-endpoints"},
		"etcd's without etcd": {func(c *node.Config) { c.TLS, c.EtcdTLS = admin, etcd }, "--etcd-tls-cert is for --etcd-endpoints"},
		"etcd with the tenants": {func(c *node.Config) {
			c.TLS, c.EtcdTLS, c.EtcdEndpoints = admin, tenants.Files(t, "bigfleet://admin"), []string{"e:2379"}
			c.EtcdTLS.Flags = "etcd-tls"
		}, "--tls-ca and --etcd-tls-ca both hold the CA"},
	} {
		config := node.DefaultConfig()
		config.RaftAdvertise = "127.0.0.1:7791"
		c.change(&config)
		err := errors.Join(config.Validate(), config.CheckTLS())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// A folder of a group with peers does not start without certificates for them.
func TestAGroupIsNotAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	ports := freeport.TakeN(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := store.OpenMember(ctx, store.MemberConfig{Replica: "c-0", Dir: dir, PeerListen: ports[0], PeerAdvertise: ports[0]})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Join(ctx, "c-1", store.PeerURL(ports[1], false), false)
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	c := node.DefaultConfig()
	c.ID, c.DataDir, c.Listen, c.MetricsAddr, c.RaftBind = "c-0", dir, ports[2], "0", ports[0]
	c.TLS = mtlstest.NewAuthority(t).Files(t, "bigfleet://admin")
	err = node.Run(ctx, c, slog.New(slog.DiscardHandler), nil)
	if fault, ok := errors.AsType[*node.FlagError](err); !ok || !errors.Is(err, store.ErrPeers) || !strings.Contains(fault.Error(), "--raft-tls-cert") {
		t.Errorf("%v, want a fault that names --raft-tls-cert", err)
	}
}
