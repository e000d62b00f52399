package attack_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
	"github.com/tonnage/tonnage/internal/processtest"
)

// peakBytesMax is what docs/reliability.md promises: the most memory above that
// at rest that attacks on a server's port take.
const peakBytesMax = 256 << 20

// target is a process whose port is attacked.
type target struct {
	name, address string
	process       *processtest.Process
	method        string // that takes the longest messages
	answers       string // that answers an empty message with a long one
	messageMax    int    // of the method
	hello         func(cluster string) []byte
}

// varint and field write protobuf without the product's own code.
func field(number int, body []byte) []byte {
	out := []byte{byte(number<<3 | 2)}
	n := len(body)
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(append(out, byte(n)), body...)
}

func helloOf(cluster string) []byte {
	body := field(1, append(field(1, []byte(cluster)), field(2, []byte("v1alpha1"))...))
	return message(false, len(body), body)
}

func start(t *testing.T, name string, files mtls.Files) target {
	t.Helper()
	listen := freeport.Take(t)
	args := []string{name, "--listen=" + listen, "--metrics-addr=" + freeport.Take(t), "--data-dir=" + filepath.Join(t.TempDir(), name), "--log-level=info"}
	if files != (mtls.Files{}) {
		args = append(args, "--tls-cert="+files.Cert, "--tls-key="+files.Key, "--tls-ca="+files.CA)
	}
	x := target{name: name, address: listen}
	switch name {
	case "shard":
		args = append(args, "--seed-machines=100")
		x.method, x.answers, x.messageMax, x.hello = "/bigfleet.v1alpha1.Shard/Session", "/bigfleet.v1alpha1.ShardRead/InspectNeeds", 32<<20, helloOf
	case "coordinator":
		args = append(args, "--bootstrap", "--raft-bind="+freeport.Take(t))
		x.method, x.answers, x.messageMax = "/bigfleet.v1alpha1.Coordinator/ReportShard", "/bigfleet.v1alpha1.Coordinator/ListShards", 4<<20
	case "provider":
		args = append(args, "--seed-machines=5000")
		x.method, x.answers, x.messageMax = "/bigfleet.v1alpha1.CapacityProvider/Configure", "/bigfleet.v1alpha1.CapacityProvider/List", 5<<20
	}
	x.process = processtest.Start(t, args...)
	processtest.Eventually(t, 30*time.Second, name+" is ready", func() bool { return x.process.Get("/readyz") != "" })
	return x
}

// attacker is one who attacks: with a certificate, or over plaintext.
type attacker struct {
	target
	ctx    context.Context
	secure func(i int) *tls.Config // the certificate of the i-th connection
	idOf   func(i int) string      // the cluster that it names
	proven bool                    // it says hello first
}

// open connects the i-th connection, and opens a stream of the method.
func (a *attacker) open(i int) (*peerConn, uint32) {
	p := dial(a.ctx, a.address, a.secure(i))
	if p == nil {
		return nil, 0
	}
	return p, a.stream(p, i)
}

func (a *attacker) stream(p *peerConn, i int, extra ...hpack.HeaderField) uint32 {
	id := p.call(a.method, extra...)
	if id != 0 && a.proven && a.hello != nil {
		if !p.send(id, a.hello(a.idOf(i)), 16384) {
			return 0
		}
	}
	return id
}

// each runs an attacker on each of n connections at once.
func (a *attacker) each(n int, attack func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { attack(i) })
	}
	all.Wait()
}

// bombOf returns 255 kB that inflate to 250 MiB.
var bombOf = sync.OnceValue(func() []byte {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 250<<20))
	_ = w.Close()
	return bomb.Bytes()
})

const idleConnections = "idle connections"

// attacks are everything that is tried, by name.
var attacks = []struct {
	name string
	run  func(*attacker)
}{
	{"half-sent messages", func(a *attacker) {
		half := message(false, a.messageMax-100, make([]byte, a.messageMax-1000))
		a.each(32, func(i int) {
			if p, id := a.open(i); id != 0 {
				p.send(id, half, 16384)
			}
		})
	}},
	{"half-sent messages of frames that fit pools badly", func(a *attacker) {
		half := message(false, a.messageMax-100, make([]byte, a.messageMax/2))
		a.each(32, func(i int) {
			if p, id := a.open(i); id != 0 {
				p.send(id, half, 4097)
			}
		})
	}},
	{"many connections with half-sent messages", func(a *attacker) {
		half := message(false, 1<<20, make([]byte, 1<<20-100))
		a.each(300, func(i int) {
			p, id := a.open(i)
			for n := 0; id != 0 && n < 8; n++ {
				p.send(id, half, 16384)
				id = a.stream(p, i)
			}
		})
	}},
	{"compressed bombs", func(a *attacker) {
		bomb := message(true, len(bombOf()), bombOf())
		a.each(24, func(i int) {
			p := dial(a.ctx, a.address, a.secure(i))
			for n := 0; p != nil && n < 4; n++ {
				id := a.stream(p, i, hpack.HeaderField{Name: "grpc-encoding", Value: "gzip"})
				if id == 0 || !p.send(id, bomb, 16384) {
					return
				}
			}
		})
	}},
	{idleConnections, func(a *attacker) {
		a.each(3000, func(int) {
			if p := dial(a.ctx, a.address, nil); p != nil { // over TLS they stop at the handshake
				p.call(a.method)
			}
		})
	}},
	{"streams without end", func(a *attacker) {
		a.each(16, func(i int) {
			p, id := a.open(i)
			for n := 0; id != 0 && n < 5000; n++ {
				id = p.call(a.method)
			}
		})
	}},
	{"one byte a frame", func(a *attacker) {
		crumbs := message(false, 1<<20, make([]byte, 1<<20))
		a.each(32, func(i int) {
			if p, id := a.open(i); id != 0 {
				p.send(id, crumbs, 1)
			}
		})
	}},
	{"endless headers", func(a *attacker) {
		long := hpack.HeaderField{Name: "x-long", Value: string(make([]byte, 1<<20))}
		a.each(64, func(i int) {
			p, id := a.open(i)
			for n := 0; id != 0 && n < 32; n++ {
				id = p.call(a.method, long)
			}
		})
	}},
	{"answers that are not read", func(a *attacker) {
		a.each(32, func(i int) {
			p := dial(a.ctx, a.address, a.secure(i))
			for n := 0; p != nil && n < 256; n++ {
				id := p.call(a.answers)
				if id == 0 || p.framer.WriteData(id, true, message(false, 0, nil)) != nil {
					return
				}
			}
		})
	}},
	{"the longest valid messages", func(a *attacker) {
		if a.hello == nil || !a.proven {
			return
		}
		a.each(24, func(i int) {
			p, id := a.open(i)
			if id == 0 {
				return
			}
			// A roll-up without rows and with a field that no one knows.
			rollup := append(field(1, []byte(a.idOf(i))), field(15, make([]byte, a.messageMax-1000))...)
			body := field(2, rollup)
			for p.send(id, message(false, len(body), body), 16384) {
			}
		})
	}},
}

// Every attack on every server: all but one at once, or each by itself (-soak).
func TestMemoryOfServers(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	const clusters = 24
	identities := map[string]func(i int) string{
		"shard":       func(i int) string { return fmt.Sprint("bigfleet://cluster/c-", i%clusters) },
		"coordinator": func(i int) string { return fmt.Sprint("bigfleet://shard/s-", i%clusters) },
		"provider":    func(i int) string { return fmt.Sprint("bigfleet://shard/s-", i%clusters) },
	}
	for _, name := range []string{"shard", "coordinator", "provider"} {
		for _, over := range []string{"plaintext", "mTLS"} {
			if over == "mTLS" && (name != "shard" || processtest.Race) && !*soak {
				continue // the same code without the shares of plaintext
			}
			t.Run(name+" over "+over, func(t *testing.T) {
				var files mtls.Files
				secure := func(int) *tls.Config { return nil }
				nobody := secure
				if over == "mTLS" {
					files = ca.Files(t, map[string]string{"shard": "bigfleet://shard/shard-0", "coordinator": "bigfleet://admin", "provider": "bigfleet://admin"}[name])
					var shown [clusters]*tls.Config
					for i := range shown {
						shown[i] = shows(t, ca.Files(t, identities[name](i)))
					}
					secure = func(i int) *tls.Config { return shown[i%clusters] }
					unknown := shows(t, ca.Files(t))
					nobody = func(int) *tls.Config { return unknown }
				}
				x := start(t, name, files)
				id := func(i int) string { return fmt.Sprint("c-", i%clusters) }
				var groups [][]int
				for i := range attacks {
					// Idle connections leave no room for other attackers.
					switch {
					case attacks[i].name == idleConnections && (name != "shard" || processtest.Race) && !*soak:
						continue
					case *soak || i == 0 || attacks[i].name == idleConnections:
						groups = append(groups, []int{i})
					default:
						groups[0] = append(groups[0], i)
					}
				}
				bombOf()
				rest := x.process.ResidentBytes()
				for _, group := range groups {
					x.process.ResetPeak()
					ctx, cancel := context.WithTimeout(t.Context(), attackFor())
					var all sync.WaitGroup
					for _, i := range group {
						for _, a := range []attacker{
							{target: x, ctx: ctx, secure: secure, idOf: id}, {target: x, ctx: ctx, secure: secure, idOf: id, proven: true},
							{target: x, ctx: ctx, secure: nobody, idOf: id, proven: true},
						} {
							all.Go(func() { attacks[i].run(&a) })
						}
					}
					all.Wait()
					<-ctx.Done()
					cancel()
					peak := x.process.PeakBytes() - rest
					what := "all other attacks at once"
					if len(group) == 1 {
						what = attacks[group[0]].name
					}
					t.Logf("%s: %d MiB above the %d MiB at rest; refused: %.0f; log: %d bytes", what, peak>>20, rest>>20, x.process.Metric("tonnage_inbound_refused_total"), len(x.process.Log()))
					if peak > peakBytesMax && !processtest.Race {
						t.Errorf("%s take %d MiB, at most %d are promised", what, peak>>20, peakBytesMax>>20)
					}
				}
				if x.process.Get("/readyz") == "" {
					t.Error("the process is not ready after the attacks")
				}
			})
		}
	}
}
