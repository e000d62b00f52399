package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// TestCtlRefusesBeforeItAsks: what the command line has wrong is said with exit
// code 2 and the remedy, and nobody is asked. Nothing listens at these addresses:
// who asked would wait.
func TestCtlRefusesBeforeItAsks(t *testing.T) {
	help := func(command string) string { return "(see `tonnage ctl " + command + " --help`)" }
	for _, c := range []struct {
		args string
		says []string
	}{
		{"list-shards --timeout 0s", []string{"--timeout must be positive, got 0s; give one such as 10s"}},
		{"needs --timeout -1s -o xml", []string{"--timeout must be positive, got -1s", `unknown output format "xml"`}},
		{"snapshot save --timeout 0s x.tar", []string{"--timeout must be positive"}},
		{"list-shards -o xml", []string{`unknown output format "xml"; use -o json, -o yaml or -o table`}},
		{"needs -o svg", []string{`unknown output format "svg"`}},
		{"needs --limit -1", []string{"--limit cannot be negative, got -1"}},
		{"retire", []string{"MACHINE is expected, got 0 arguments " + help("retire")}},
		{"retire a b", []string{"MACHINE is expected, got 2 arguments " + help("retire")}},
		{"audit", []string{"--audit-log is missing " + help("audit")}},
		{"assign-domain --value v", []string{"--key is missing " + help("assign-domain"), "--shard is missing"}},
		{"unassign-domain", []string{"--key is missing " + help("unassign-domain"), "--value is missing"}},
		{"remove-shard", []string{"--shard is missing " + help("remove-shard")}},
		{"remove-member", []string{"--replica is missing " + help("remove-member")}},
		{"machines --shard foo://x", []string{`--shard: "foo://x" is no address; give one like http://`}},
		{"retire --shard foo://x m", []string{`--shard: "foo://x" is no address`}},
	} {
		got := call("", true, append([]string{"ctl", "--coordinator", "127.0.0.1:1"}, strings.Fields(c.args)...)...)
		for _, want := range c.says {
			if got.code != exitBadInput || got.out != "" || !strings.Contains(got.err, want) {
				t.Errorf("ctl %s: exit %d: %s%s; want %q", c.args, got.code, got.out, got.err, want)
			}
		}
	}
}

// snapshots is a coordinator that answers SnapshotSave as a test says.
type snapshots struct {
	pb.UnimplementedCoordinatorServer
	save func(pb.Coordinator_SnapshotSaveServer) error
}

func (s *snapshots) SnapshotSave(_ *pb.SnapshotSaveRequest, stream pb.Coordinator_SnapshotSaveServer) error {
	return s.save(stream)
}

// coordinatorThat serves snapshots until the test ends, and returns its address.
func coordinatorThat(t *testing.T, save func(pb.Coordinator_SnapshotSaveServer) error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterCoordinatorServer(server, &snapshots{save: save})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestSnapshotSaveDoesNotWaitForEver: a coordinator that is not there or says
// nothing is reported, and so is what cannot be written, before anybody is asked.
func TestSnapshotSaveDoesNotWaitForEver(t *testing.T) {
	dir := t.TempDir()
	silent := coordinatorThat(t, func(stream pb.Coordinator_SnapshotSaveServer) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	begun := coordinatorThat(t, func(stream pb.Coordinator_SnapshotSaveServer) error {
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	var asked atomic.Int64
	failing := coordinatorThat(t, func(stream pb.Coordinator_SnapshotSaveServer) error {
		asked.Add(1)
		return errors.Join(stream.SendHeader(nil), status.Error(codes.Unavailable, "the disk is full"))
	})
	for name, c := range map[string]struct {
		file, address string
		args          []string
		code          int
		says          string
	}{
		"nobody":      {"a.tar", "127.0.0.1:1", []string{"--timeout", "50ms"}, exitInternal, "no snapshot within --timeout 50ms"},
		"silent":      {"a.tar", silent, []string{"--timeout", "50ms"}, exitInternal, "no snapshot within --timeout 50ms"},
		"begun":       {"a.tar", begun, []string{"--timeout", "50ms"}, exitInternal, "no snapshot within --timeout 50ms"},
		"failing":     {"a.tar", failing, nil, exitInternal, "the disk is full"},
		"no folder":   {"none/a.tar", "127.0.0.1:1", nil, exitBadInput, "cannot be written: "},
		"is a folder": {".", "127.0.0.1:1", nil, exitBadInput, "is a folder; name a file"},
	} {
		args := append([]string{"ctl", "--coordinator", c.address, "snapshot", "save", filepath.Join(dir, c.file)}, c.args...)
		if got := call("", true, args...); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%s: exit %d: %s; want %q", name, got.code, got.err, c.says)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("one that failed while it answered was asked %d times", n)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSnapshotSave: the file is what the coordinator sent, and there under its
// name only then.
func TestSnapshotSave(t *testing.T) {
	sum := sha256.Sum256([]byte("abcd"))
	address := coordinatorThat(t, func(stream pb.Coordinator_SnapshotSaveServer) error {
		meta, err := json.Marshal(map[string]any{"size": 4, "index": 1, "sha256": hex.EncodeToString(sum[:])})
		return errors.Join(err,
			stream.Send(&pb.SnapshotSaveChunk{Payload: &pb.SnapshotSaveChunk_MetaJson{MetaJson: meta}}),
			stream.Send(&pb.SnapshotSaveChunk{Payload: &pb.SnapshotSaveChunk_Data{Data: []byte("abcd")}}))
	})
	file := filepath.Join(t.TempDir(), "a.tar")
	if got := call("", true, "ctl", "--coordinator", address, "snapshot", "save", file); got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "abcd") {
		t.Errorf("%q, %v", text, err)
	}
	silent := coordinatorThat(t, func(stream pb.Coordinator_SnapshotSaveServer) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	c := &ctl{coordinator: silent, timeout: 50 * time.Millisecond} // as the default, not given
	if err := c.saveSnapshot(t.Context(), file, false); err == nil || !strings.Contains(err.Error(), "the coordinator did not answer within 50ms") {
		t.Errorf("got %v", err)
	}
}
