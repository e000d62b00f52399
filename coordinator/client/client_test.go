package client_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tonnage/tonnage/coordinator/client"
)

// silent returns the address of a listener that accepts connections and never answers: a stopped process,
// or a machine whose packets are lost.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// answering is the address of a server that answers checks of its health.
func answering(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func check(ctx context.Context, conn grpc.ClientConnInterface) error {
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

func dial(t *testing.T, addresses ...string) *client.Client {
	t.Helper()
	c, err := client.New(strings.Join(addresses, ","), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestAReplicaThatIsSilentIsPassedOver: it is down as far as a caller can see, and the next one is
// asked long before the call ends.
func TestAReplicaThatIsSilentIsPassedOver(t *testing.T) {
	t.Parallel()
	c := dial(t, silent(t), silent(t), answering(t))
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	if err := c.Call(ctx, check); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("the answer came after %v", took)
	}
	began = time.Now()
	if err := c.Call(ctx, check); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > limit/10 {
		t.Errorf("the replica that answered is not asked first: %v", took)
	}
}

// TestNobodyAnswers: a call ends with its context, and the error names those that were tried.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	at := silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := dial(t, at).Call(ctx, check)
	if err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("the error is %v, and should name %s", err, at)
	}
}
