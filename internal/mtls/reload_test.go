package mtls_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// replace writes a file whole, as secrets are exchanged, so that it differs from
// the one before even within one tick of the clock.
func replace(t *testing.T, file string, parts ...string) {
	t.Helper()
	next := file + ".next"
	write(t, next, []byte(strings.Join(parts, "")))
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// A CA is exchanged under a running server and under a running client, by way of
// a file that has both. A file that cannot be used changes nothing.
func TestChangedCAIsTaken(t *testing.T) {
	before, after := mtlstest.NewAuthority(t), mtlstest.NewAuthority(t)
	for _, side := range []string{"server", "client"} {
		t.Run(side, func(t *testing.T) {
			log := &lines{}
			own := before.Files(t, "bigfleet://admin")
			own.CA = filepath.Join(t.TempDir(), "ca.crt")
			replace(t, own.CA, content(t, before.File()))
			mine, err := mtls.Load(own, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			// Peers believe both, and come from one each.
			both := filepath.Join(t.TempDir(), "both.crt")
			replace(t, both, content(t, before.File()), content(t, after.File()))
			peer := func(a *mtlstest.Authority) *mtls.Material {
				files := a.Files(t, "bigfleet://admin")
				files.CA = both
				return load(t, files)
			}
			call := func(of *mtls.Material) error { return check(t, serve(t, mine), of) }
			if side == "client" {
				call = func(of *mtls.Material) error { return check(t, serve(t, of), mine) }
			}
			passes := func(what string, peer *mtls.Material, want codes.Code) {
				t.Helper()
				if err := call(peer); status.Code(err) != want {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			old, next := peer(before), peer(after)
			passes("the old CA, before the change", old, codes.OK)
			passes("the new CA, before the change", next, codes.Unavailable)
			replace(t, own.CA, content(t, before.File()), content(t, after.File()))
			passes("the old CA, with both", old, codes.OK)
			passes("the new CA, with both", next, codes.OK)
			for _, broken := range []string{"nonsense", content(t, after.File()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
				before := log.count("cannot be used")
				replace(t, own.CA, broken)
				passes("the old CA, with a broken file", old, codes.OK)
				passes("the new CA, with a broken file", next, codes.OK)
				if got := log.count("cannot be used") - before; got != 1 {
					t.Errorf("a broken file is logged %d times, want once", got)
				}
			}
			replace(t, own.CA, content(t, after.File()))
			passes("the old CA, after the change", old, codes.Unavailable)
			passes("the new CA, after the change", next, codes.OK)
		})
	}
}

// A serial number on the deny-list ends handshakes from then on, on either side.
func TestDeniedSerialsAreRefused(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	for _, side := range []string{"server", "client"} {
		t.Run(side, func(t *testing.T) {
			own, peer := ca.Files(t, "bigfleet://admin"), ca.Files(t, "bigfleet://shard/a")
			own.Deny = filepath.Join(t.TempDir(), "denied.txt")
			replace(t, own.Deny, "# nobody yet\n")
			mine, other := load(t, own), load(t, peer)
			call := func() error { return check(t, serve(t, mine), other) }
			if side == "client" {
				call = func() error { return check(t, serve(t, other), mine) }
			}
			if err := call(); err != nil {
				t.Fatalf("before: %v", err)
			}
			replace(t, own.Deny, "0a:0B # another\n", mtlstest.Serial(t, peer.Cert), "\n")
			if err := call(); status.Code(err) != codes.Unavailable {
				t.Errorf("denied: %v, want Unavailable", err)
			}
			replace(t, own.Deny, "not hexadecimal\n")
			if err := call(); status.Code(err) != codes.Unavailable {
				t.Errorf("denied, and the file broken since: %v, want Unavailable", err)
			}
			if err := os.Remove(own.Deny); err != nil {
				t.Fatal(err)
			}
			if err := call(); status.Code(err) != codes.Unavailable {
				t.Errorf("denied, and the file removed since: %v, want Unavailable", err)
			}
			replace(t, own.Deny, "")
			if err := call(); err != nil {
				t.Errorf("no longer denied: %v", err)
			}
		})
	}
}

// A connection that is open when its certificate comes onto the list ends, too.
func TestDeniedConnectionsEnd(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	own, denied, other := ca.Files(t), ca.Files(t, "bigfleet://cluster/a"), ca.Files(t, "bigfleet://cluster/b")
	own.Deny = filepath.Join(t.TempDir(), "denied.txt")
	replace(t, own.Deny, "")
	address := serve(t, load(t, own))
	dial := func(m *mtls.Material) (healthpb.HealthClient, func() int) {
		t.Helper()
		connections := 0
		options := append(m.DialOptions(), grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			connections++
			return (&net.Dialer{}).DialContext(ctx, "tcp", to)
		}))
		conn, err := grpc.NewClient("passthrough:///"+address, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return healthpb.NewHealthClient(conn), func() int { return connections }
	}
	mine, _ := dial(load(t, denied))
	theirs, dialled := dial(load(t, other))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ask := func(client healthpb.HealthClient) error {
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}
	for _, client := range []healthpb.HealthClient{mine, theirs} {
		if err := ask(client); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, own.Deny, mtlstest.Serial(t, denied.Cert))
	for ask(mine) == nil { // until the list is looked at again
		if ctx.Err() != nil {
			t.Fatal("calls over an open connection are answered though its certificate is denied")
		}
	}
	if err := ask(theirs); err != nil || dialled() != 1 {
		t.Errorf("another client: %v, after %d connections; want no error and one", err, dialled())
	}
}

func TestDenyListsThatCannotBeReadEndTheStart(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	files := ca.Files(t)
	files.Deny = filepath.Join(t.TempDir(), "denied.txt")
	for text, want := range map[string]string{
		"":                                 "",
		"# a comment only\n\n":             "",
		"0x1F\n1f:2e # both\r\n  00ff":     "",
		"12\nzz\n":                         `line 2: a serial number of 1 to 64 hexadecimal digits is expected, got "zz"`,
		"-1":                               "line 1: ",
		"0x":                               "line 1: ",
		"12 34":                            "line 1: ",
		strings.Repeat("1", 65):            "line 1: ",
		serials(mtls.SerialsDeniedMax + 1): "line 65537: more than 65536 serial numbers",
	} {
		replace(t, files.Deny, text)
		_, err := mtls.Load(files, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "--tls-deny: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if _, err := mtls.Load(mtls.Files{Deny: files.Deny}, nil); err == nil || !strings.HasPrefix(err.Error(), "--tls-deny without --tls-cert and --tls-key and --tls-ca") {
		t.Errorf("a deny-list alone: %v", err)
	}
}

func serials(n int) string {
	var out strings.Builder
	for i := range n {
		out.WriteString("1")
		for bit := 16; bit >= 0; bit-- {
			out.WriteByte("01"[i>>bit&1])
		}
		out.WriteByte('\n')
	}
	return out.String()
}
