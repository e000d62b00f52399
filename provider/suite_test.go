package provider_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/check"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

// served is a provider on loopback that can be restarted. The clock of its cloud goes on with each Get, so that a change is
// under way for as many looks as it takes, however busy the machine is.
type served struct {
	t        *testing.T
	dir      string
	file     *pools.File
	address  string
	began    time.Time
	clock    atomic.Int64
	driver   *freeBlob
	provider *provider.Provider
	end      func()
}

// freeBlob takes every blob.
type freeBlob struct{ meddler }

func (d *freeBlob) Configure(ctx context.Context, m *driver.Machine, b *driver.Binding) error {
	return d.Cloud.Configure(ctx, m, b)
}

const (
	look  = time.Millisecond
	looks = 20
)

func (s *served) start() {
	s.t.Helper()
	span := cloud.Span(looks * look)
	p, err := provider.Open(provider.Config{
		Dir: s.dir, Pools: s.file, Every: 20 * time.Millisecond, Least: time.Millisecond,
		Driver: func(*pools.Driver) (driver.Driver, error) {
			c, err := cloud.Open(cloud.Config{File: filepath.Join(s.dir, "cloud.db"), Create: span, Configure: span, Drain: span, Delete: span}, 1,
				func() time.Time { return s.began.Add(time.Duration(s.clock.Load())) })
			s.driver = &freeBlob{meddler{Cloud: c}}
			return s.driver, err
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.provider = p
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	g := server.New(p, nil).GRPC(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- g.Serve(l) }()
	s.end = func() {
		cancel()
		g.Stop()
		if err := errors.Join(<-ended, <-ended, p.Close()); err != nil {
			s.t.Error(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); p.Ready() != nil; {
		if time.Now().After(deadline) {
			s.t.Fatal(p.Ready())
		}
		<-time.After(look)
	}
}

// TestTheProtocolIsKept: every check of providers applies to pools of both kinds, but for what a late-bound slot does at once,
// and none fails.
func TestTheProtocolIsKept(t *testing.T) {
	for name, file := range map[string]string{"early": early, "late": late} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := &served{t: t, dir: dir, file: parse(t, dir, drivers+strings.Replace(file, "machines: 3", "machines: 9", 1)), address: "127.0.0.1:0", began: time.Now()}
			s.start()
			t.Cleanup(func() { s.end() })
			step := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
				if method == pb.CapacityProvider_Get_FullMethodName {
					s.clock.Add(int64(look))
				}
				return call(ctx, method, req, reply, conn, options...)
			}
			conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(step))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			alter := func(id string, do func(*driver.Observation) bool) error {
				s.driver.set(func() {
					s.driver.alter = func(o *driver.Observation) bool { return o.ID != id || do(o) }
				})
				return nil
			}
			options := check.Options{
				Conn: conn, Epoch: 10, Poll: 2 * time.Millisecond,
				Restart: func(context.Context) error { s.end(); s.start(); return nil },
				Vanish: func(_ context.Context, id string) error {
					return alter(id, func(*driver.Observation) bool { return false })
				},
				// It fails when somebody has looked at it since it is under way: before, a check lists it as changing.
				Fail: func(_ context.Context, id string) error {
					began := int64(-1)
					return alter(id, func(o *driver.Observation) bool {
						if o.Phase == driver.Idle || o.Phase == driver.Configured {
							return true
						}
						if began < 0 {
							began = s.clock.Load()
						}
						if s.clock.Load() > began {
							o.Phase, o.Reason = driver.Failed, "asked for"
						}
						return true
					})
				},
			}
			// Create and Delete of a late-bound slot are done at once.
			skips := map[string]bool{}
			if name == "late" {
				for _, id := range []string{"create.repeat-under-way", "delete.repeat-under-way", "create.illegal-under-way", "delete.illegal-under-way"} {
					skips[id] = true
				}
			}
			x, err := check.New(t.Context(), options)
			if err == nil {
				err = x.Begin(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range check.RunAll(t.Context(), x, check.Checks(), 30*time.Second, nil) {
				if skips[got.ID] != (got.Status == check.Skipped) || got.Status == check.Failed {
					t.Errorf("%s %s: expected %s, saw %s%s", got.ID, got.Status, got.Expected, got.Seen, got.Reason)
				}
			}
		})
	}
}
