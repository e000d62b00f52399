package session

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// guarded is a shard that greets whom it may.
type guarded struct {
	bigfleet.UnimplementedShardServer
	verdicts chan error
}

func (g *guarded) Session(stream bigfleet.Shard_SessionServer) error {
	err := mtls.Require(stream.Context(), mtls.Cluster("blue"))
	if err == nil {
		err = stream.Send(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_Ack{Ack: &bigfleet.Acknowledgement{Echo: "hello"}}})
	}
	g.verdicts <- err
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

// TestCertificates: a session is had with the cluster's own name, not with
// another's, and not without.
func TestCertificates(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	authority := mtlstest.NewAuthority(t)
	load := func(uri string) *mtls.Material {
		m, err := mtls.Load(authority.Files(t, uri), log)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{verdicts: make(chan error, 10)}
	server := grpc.NewServer(load("bigfleet://shard/s").ServerOptions()...)
	bigfleet.RegisterShardServer(server, g)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	for name, c := range map[string]struct {
		material *mtls.Material
		want     string // in the error; "" = the shard greets
	}{
		"its own":   {load("bigfleet://cluster/blue"), ""},
		"another's": {load("bigfleet://cluster/red"), "PermissionDenied"},
		"plaintext": {nil, "Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, context.DeadlineExceeded)
			defer cancel()
			stream, err := DialGRPC(c.material.DialOptions()...)(ctx, l.Addr().String())
			if err == nil {
				_, err = stream.Recv()
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
		})
	}
}
