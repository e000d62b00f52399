package session_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/shard/session"
)

// playVariable has the test's binary play operators in place of testing: the
// address of the server, how many there are, and how many updates make a round.
const playVariable = "TONNAGE_PLAY_OPERATORS"

func TestMain(m *testing.M) {
	if what := os.Getenv(playVariable); what != "" {
		if err := play(what, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// peek reads no more of a message than what kind it is.
type peek struct{ encoding.CodecV2 }

func (c peek) Unmarshal(data mem.BufferSlice, v any) error {
	if kind, ok := v.(*byte); ok {
		*kind = data[0].ReadOnlyData()[0] >> 3
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// play opens the sessions, says when they have begun, and then at what time the
// last update of each round was there. It ends with its input.
func play(what string, in io.Reader, out io.Writer) error {
	fields := strings.Fields(what)
	operators, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	news, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var came atomic.Int64
	var begun, failed sync.WaitGroup
	begun.Add(operators)
	var mu sync.Mutex
	for i := range operators {
		conn, err := grpc.NewClient("passthrough:///"+fields[0], (*mtls.Material)(nil).DialOptions()...)
		if err != nil {
			return err
		}
		defer conn.Close()
		stream, err := pb.NewShardClient(conn).Session(ctx, grpc.ForceCodecV2(peek{encoding.GetCodecV2(protocodec.Name)}))
		if err != nil {
			return err
		}
		if err := stream.SendMsg(hello(clusterOf(i))); err != nil {
			return err
		}
		failed.Go(func() {
			for {
				var kind byte
				switch err := stream.RecvMsg(&kind); {
				case err != nil:
					return
				case kind == 1:
					begun.Done()
				case kind == 4 && came.Add(1)%news == 0:
					mu.Lock()
					fmt.Fprintln(out, time.Now().UnixNano())
					mu.Unlock()
				}
			}
		})
	}
	begun.Wait()
	fmt.Fprintln(out, "ready")
	_, err = io.Copy(io.Discard, in)
	cancel()
	failed.Wait()
	return err
}

// TestFanOut tells the operators of many clusters of a thousand machines. They
// are played by another process, so that the processor time is the shard's alone.
func TestFanOut(t *testing.T) {
	const news, rounds = 1000, 9
	f := serve(t, session.Deps{})
	operators := min(*loadSessions, news)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", playVariable, f.address, operators, news))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the operators: %v", err)
		}
	})
	lines := make(chan string, rounds)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	if line := await(t, lines); line != "ready" {
		t.Fatalf("the operators say %q", line)
	}
	var queued, took, spent []time.Duration
	for range rounds {
		cpu, began := cpuTime(t), time.Now()
		tell(f, news, operators)
		queued = append(queued, time.Since(began).Round(10*time.Microsecond))
		at, err := strconv.ParseInt(await(t, lines), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Unix(0, at).Sub(began).Round(10*time.Microsecond))
		spent = append(spent, (cpuTime(t) - cpu).Round(10*time.Microsecond))
	}
	for _, x := range [][]time.Duration{queued, took, spent} {
		slices.Sort(x)
	}
	t.Logf("%d updates to %d operators, least and median of %d rounds: queued in %v, %v; the last read after %v, %v; processor time of the shard %v, %v",
		news, operators, rounds, queued[0], queued[rounds/2], took[0], took[rounds/2], spent[0], spent[rounds/2])
}
