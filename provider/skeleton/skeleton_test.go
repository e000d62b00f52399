package skeleton_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider/check"
	"github.com/tonnage/tonnage/provider/skeleton"
)

// linesMax is how long the skeleton may be, so that it is read before it is copied.
const linesMax = 150

func TestItIsShort(t *testing.T) {
	text, err := os.ReadFile("skeleton.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n >= linesMax {
		t.Errorf("%d lines, must be less than %d", n, linesMax)
	}
}

// TestItKeepsTheProtocol: it passes every check of providers but those that its lack of cursors and of faults leaves out.
func TestItKeepsTheProtocol(t *testing.T) {
	var seed []*pb.Machine
	for i := range 6 {
		m := &pb.Machine{
			Id: fmt.Sprintf("m-%d", i), State: pb.MachineState_MACHINE_STATE_SPECULATIVE, InstanceType: "t", Zone: "z", CapacityType: pb.CapacityType_CAPACITY_TYPE_ON_DEMAND,
			PricePerHour: 1, Resources: &pb.Resources{Resources: map[string]string{"cpu": "2"}},
		}
		if i%2 == 1 {
			m.State, m.Host = pb.MachineState_MACHINE_STATE_IDLE, &pb.HostRef{Provider: "skeleton", Ref: "host-" + m.Id}
		}
		seed = append(seed, m)
	}
	path, address := filepath.Join(t.TempDir(), "machines.json"), "127.0.0.1:0"
	var end func()
	start := func() {
		p, err := skeleton.New(path, 150*time.Millisecond, seed)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = l.Addr().String()
		g := grpc.NewServer()
		pb.RegisterCapacityProviderServer(g, p)
		ended := make(chan error, 1)
		go func() { ended <- g.Serve(l) }()
		end = func() {
			g.Stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	start()
	t.Cleanup(func() { end() })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	x, err := check.New(t.Context(), check.Options{Conn: conn, Epoch: 10, Poll: 10 * time.Millisecond, Restart: func(context.Context) error {
		end()
		start()
		return nil
	}})
	if err == nil {
		err = x.Begin(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range check.RunAll(t.Context(), x, check.Checks(), 30*time.Second, nil) {
		switch got.Status {
		case check.Failed:
			t.Errorf("%s: expected %s, saw %s", got.ID, got.Expected, got.Seen)
		case check.Skipped:
			t.Logf("%s skipped: %s", got.ID, got.Reason)
		}
	}
}

// TestThePageBuilds: what the page has a reader write is a program.
func TestThePageBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it links a program")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash("docs/how-to/write-a-provider.md")))
	if err != nil {
		t.Fatal(err)
	}
	skeleton, err := os.ReadFile("skeleton.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := bytes.Cut(page, []byte("   ```go\n"))
	program, _, found := bytes.Cut(program, []byte("   ```\n"))
	if !found {
		t.Fatal("the page has no program")
	}
	dir := t.TempDir()
	files := map[string][]byte{"main.go": program, "provider.go": bytes.Replace(skeleton, []byte("\npackage skeleton\n"), []byte("\npackage main\n"), 1)}
	args := []string{"build", "-o", filepath.Join(dir, "program")}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
