package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/provider"
)

// script is a driver of files: a machine is a file of DIR/machines. What stands in DIR/on-VERB goes before.
const script = `#!/bin/sh
set -eu
in=$(cat)
[ ! -e "$DIR/on-$1" ] || . "$DIR/on-$1"
record=$(printf '%s\n' "$in" | sed -n 's/^  "record": "\(.*\)",*$/\1/p')
case $1 in
create) printf '{"record":"%s","phase":"Idle","ref":"ref-%s"}\n' "$record" "$TONNAGE_NAME" >"$DIR/new" ;;
configure) printf '{"record":"%s","phase":"Configured","ref":"ref-%s","node":"%s","labels":{"disk":"hdd"}}\n' "$record" "$TONNAGE_NAME" "$TONNAGE_NAME" >"$DIR/new" ;;
drain) sed 's/Configured/Idle/' "$DIR/machines/$TONNAGE_NAME" >"$DIR/new" ;;
delete) rm -f "$DIR/machines/$TONNAGE_NAME"; exit ;;
observe) cat "$DIR"/machines/* 2>/dev/null || true; exit ;;
esac
mv "$DIR/new" "$DIR/machines/$TONNAGE_NAME"
`

const faultPools = `drivers:
- {name: d, kind: exec, launchesPerMinute: 60000, config: {command: [DIR/script], env: {DIR: DIR}, timeouts: {create: 1s}}}
pools:
- {name: p, driver: d, machines: 2, freeSlots: 2, zones: [a], labels: {disk: ssd}, timeouts: {create: 4s, configure: 2s}, types: [{name: t, resources: {cpu: 2}, prices: [{capacityType: OnDemand, pricePerHour: 1}]}]}
`

// trouble is a provider of one pool of the driver exec to which something happens.
type trouble struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test's waiting
	dir    string
	child  *child
	client pb.CapacityProviderClient
	tokens int64
	said   []string // by commands that ended
}

func (x *trouble) path(name string) string { return filepath.Join(x.dir, name) }

func (x *trouble) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%v\n%s", err, x.log())
	}
}

// on has something happen before a verb; nothing = as it should be.
func (x *trouble) on(verb, what string) { put(x.t, x.dir, "on-"+verb, what+"\n") }

func (x *trouble) pools(old, with string) {
	x.t.Helper()
	text := strings.ReplaceAll(faultPools, "DIR: DIR", "DIR: "+x.dir)
	text = strings.ReplaceAll(text, "DIR/script", x.path("script"))
	if !strings.Contains(text, old) {
		x.t.Fatalf("the pools have no %q", old)
	}
	put(x.t, x.dir, "pools.new", strings.Replace(text, old, with, 1))
	x.must(os.Rename(x.path("pools.new"), x.path("pools.yaml")))
}

func (x *trouble) start(args ...string) {
	x.t.Helper()
	x.child = spawn(x.t, x.dir, "127.0.0.1:0", append([]string{"--metrics-addr", "127.0.0.1:0"}, args...)...)
	x.client = dialed(x.t, x.child.address)
}

// ends runs the command and keeps what it says, behind its exit code.
func (x *trouble) ends(args ...string) {
	code, out, err := runs(x.t, "", args...)
	x.said = append(x.said, fmt.Sprintf("exit code %d %s%s", code, out, err))
}

func (x *trouble) serve() {
	x.ends("serve", "--pools", x.path("pools.yaml"), "--data-dir", x.dir, "--listen", "127.0.0.1:0", "--metrics-addr", "0")
}

func (x *trouble) get(path string) string {
	if x.child == nil {
		return ""
	}
	resp, err := http.Get("http://" + x.child.metrics + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, text)
}

func (x *trouble) log() string {
	text, _ := os.ReadFile(x.path("log"))
	return strings.ReplaceAll(string(text), `\"`, `"`)
}

// elsewhere is all that is said but to shards.
func (x *trouble) elsewhere() string {
	return x.log() + strings.Join(x.said, "\n") + x.get("/metrics") + x.get("/readyz") + x.get("/offers")
}

// shard is what a shard sees: each machine's state and last error.
func (x *trouble) shard() string {
	if x.client == nil {
		return ""
	}
	l, err := x.client.List(x.ctx, &pb.ListFilter{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, m := range l.GetMachines() {
		fmt.Fprintf(&b, "%s %s\n", strings.TrimPrefix(m.GetState().String(), "MACHINE_STATE_"), m.GetLastError())
	}
	return b.String()
}

// call makes the next call of a machine's life. Its refusal is said.
func (x *trouble) call(id string) {
	x.t.Helper()
	m, err := x.client.Get(x.ctx, &pb.MachineRef{Id: id})
	x.must(err)
	x.tokens++
	if m.GetState() == pb.MachineState_MACHINE_STATE_IDLE {
		_, err = x.client.Configure(x.ctx, &pb.ConfigureRequest{MachineId: id, ClusterId: "c", ShardId: "s", ShardEpoch: 1, SequenceNumber: x.tokens})
	} else {
		_, err = x.client.Create(x.ctx, &pb.CreateRequest{MachineId: id, ShardId: "s", ShardEpoch: 1, SequenceNumber: x.tokens})
	}
	if err != nil {
		x.said = append(x.said, err.Error())
	}
}

// create has a slot be created, and returns its id.
func (x *trouble) create() string {
	x.t.Helper()
	id := slotsOf(x.t, x.client, 2)[0]
	x.call(id)
	return id
}

// open waits for a slot that may be taken, and returns its id.
func (x *trouble) open() string {
	x.t.Helper()
	for {
		l, err := x.client.List(x.ctx, &pb.ListFilter{States: []pb.MachineState{pb.MachineState_MACHINE_STATE_SPECULATIVE}})
		x.must(err)
		if all := l.GetMachines(); len(all) > 0 {
			return all[0].GetId()
		}
		pause(x.ctx, 50*time.Millisecond)
	}
}

func (x *trouble) made() string {
	x.t.Helper()
	id := x.create()
	w := walker{t: x.t, client: x.client}
	if m := w.settled(x.ctx, id); m.GetState() != pb.MachineState_MACHINE_STATE_IDLE {
		x.t.Fatalf("machine %v\n%s", m, x.log())
	}
	return id
}

// files returns the machines' files.
func (x *trouble) files() []string {
	all, err := filepath.Glob(x.path("machines/*"))
	x.must(err)
	return all
}

// faultRow is a row of the table of faults in docs/reference/pools.md: what happens, and what is then to be seen.
type faultRow struct {
	wrong            string // the row's first cell
	do               func(x *trouble)
	shard, elsewhere []string
	without          string // that a shard must not see
}

var faultRows = []faultRow{
	{wrong: "the pools file has a fault", do: func(x *trouble) { x.start(); x.pools("driver: d,", "driver: e,") },
		shard: []string{"SPECULATIVE"}, elsewhere: []string{"pools are not taken over", `pools.yaml:4:21: pools[0].driver: there is no driver "e"`, `tonnage_provider_pools_reloads_total{outcome="refused"} 1`}},
	{wrong: "a template is wrong, and the driver can tell", do: func(x *trouble) {
		x.pools("zones: [a],", "zones: [a], template: 3,")
		x.ends("pools", "validate", "-f", x.path("pools.yaml"))
		x.serve()
	}, elsewhere: []string{"exit code 2", `pool "p", type "t": template: must be a JSON object, got "3"`}},
	{wrong: "a template is wrong, and only the far end can tell", do: func(x *trouble) {
		x.start()
		x.on("create", "echo 'there is no image x' >&2; exit 20")
		x.create()
		for !strings.Contains(x.shard(), "held back until") && x.ctx.Err() == nil {
			pause(x.ctx, 50*time.Millisecond)
		}
		x.call(x.open()) // the next one fails too
		for !strings.Contains(x.shard(), "2 failures") && x.ctx.Err() == nil {
			pause(x.ctx, 50*time.Millisecond)
		}
		x.ends("offers", "--addr", "http://"+x.child.metrics)
	},
		shard:     []string{"FAILED ", "permanent error: there is no image x (exit code 20)", "FAILED held back until ", " after 2 failures in a row: "},
		elsewhere: []string{"machine failed", "there is no image x", "offer is held back: its machines fail", `tonnage_provider_offers_failing{pool="p"} 1`, `"failures":2,"why":"`, "exit code 0 POOL  TYPE  ZONE  CAPACITY  UNTIL"}},
	{wrong: "out of stock", do: func(x *trouble) {
		x.start()
		x.on("create", "echo 'quota of family g in zone a is used up' >&2; exit 10")
		x.create()
		for !strings.Contains(x.shard(), "insufficient capacity until") && x.ctx.Err() == nil {
			pause(x.ctx, 50*time.Millisecond)
		}
		x.ends("offers", "--addr", "http://"+x.child.metrics)
	},
		shard: []string{"FAILED insufficient capacity until "}, elsewhere: []string{"out of stock", `tonnage_provider_offers_out_of_stock{pool="p"} 1`, `"failures":0,"why":"`, "insufficient capacity: quota of family g in zone a is used up", "exit code 0 POOL  TYPE  ZONE  CAPACITY  UNTIL"}},
	{wrong: "a limit of pool or quota is reached", do: func(x *trouble) { x.start(); slotsOf(x.t, x.client, 2); x.pools("machines: 2", "machines: 1") },
		shard: []string{`FAILED pool "p" has as many machines as its limits allow`}},
	{wrong: "the driver's end is away, or refuses its credentials", do: func(x *trouble) { x.on("observe", "echo 401 Unauthorized >&2; exit 1"); x.start() },
		elsewhere: []string{"driver cannot be observed; nothing is taken for gone", "401 Unauthorized", `tonnage_provider_driver_calls_total{driver="d",outcome="transient",verb="Observe"}`, "503 ", `driver "d" has not said yet what exists`}},
	{wrong: "a verb fails for a while", do: func(x *trouble) { x.start(); x.on("create", "echo the disk is full >&2; exit 1"); x.create() },
		shard: []string{"CREATING"}, elsewhere: []string{"driver failed; it is asked again", "the disk is full (exit code 1)"}},
	{wrong: "a change never ends", do: func(x *trouble) {
		x.start()
		x.on("create", `record=$(printf '%s\n' "$in" | sed -n 's/^  "record": "\(.*\)",*$/\1/p')
printf '{"record":"%s","phase":"Creating","reason":"power is off"}\n' "$record" >"$DIR/machines/$TONNAGE_NAME"; exit 0`)
		x.create()
	}, shard: []string{"FAILED Creating took longer than 4s: power is off"}, elsewhere: []string{"machine failed"}},
	{wrong: "the node lacks what was declared", do: func(x *trouble) { x.start(); x.call(x.made()) },
		shard: []string{`FAILED Configuring took longer than 2s: label disk is "hdd", not "ssd"`}},
	{wrong: "a machine was lost, or somebody removed it", do: func(x *trouble) { x.start(); x.made(); x.must(os.Remove(x.files()[0])) },
		without: "IDLE", elsewhere: []string{"machine is gone", "tonnage_provider_machines_lost_total 1"}},
	{wrong: "somebody made a machine by hand", do: func(x *trouble) {
		x.start()
		x.made()
		away := x.path("away")
		file := x.files()[0]
		x.must(os.Rename(file, away))
		for !strings.Contains(x.log(), "machine is gone") && x.ctx.Err() == nil {
			pause(x.ctx, 50*time.Millisecond)
		}
		x.must(os.Rename(away, file))
		for !strings.Contains(x.log(), "orphan") && x.ctx.Err() == nil {
			pause(x.ctx, 50*time.Millisecond)
		}
		x.ends("orphans", "list", "--addr", "http://"+x.child.metrics)
	}, elsewhere: []string{"orphan: it exists and nobody asked for it", "exit code 1", "its machine was given up before", `tonnage_provider_orphans{driver="d"} 1`}},
	{wrong: "`records.db` was lost", do: func(x *trouble) {
		x.start()
		x.made()
		x.child.kill()
		x.must(os.Remove(x.path(provider.FileName)))
		x.start()
	},
		shard: []string{"IDLE"}, elsewhere: []string{"adopted"}},
	{wrong: "`records.db` was cut off or lacks pages", do: func(x *trouble) {
		x.start()
		x.child.kill()
		x.must(os.Truncate(x.path(provider.FileName), 5000))
		x.serve()
	}, elsewhere: []string{"exit code 2", "the file is damaged"}},
	{wrong: "`records.db` cannot be written", do: fullDisk, elsewhere: []string{"no space left on device"}},
	{wrong: "the folder is in use", do: func(x *trouble) {
		x.start()
		x.serve()
		ctx, cancel := context.WithTimeout(x.ctx, 2*time.Second)
		defer cancel()
		var log bytes.Buffer
		run(ctx, []string{"serve", "--standby", "--pools", x.path("pools.yaml"), "--data-dir", x.dir, "--metrics-addr", "0"}, streams{nil, io.Discard, &log})
		x.said = append(x.said, log.String())
	}, elsewhere: []string{"exit code 2", "is in use by another tonnage-provider", "stands by: another process has the folder"}},
	{wrong: "a command is missing", do: func(x *trouble) {
		x.must(os.Rename(x.path("script"), x.path("gone")))
		x.ends("pools", "validate", "-f", x.path("pools.yaml"))
		x.must(os.Rename(x.path("gone"), x.path("script")))
		x.start()
		x.must(os.Remove(x.path("script")))
	}, elsewhere: []string{"driver cannot be observed", "observe: cannot be run: ", "exit code 2", "command[0]: ", "no such file or directory"}},
	{wrong: "a command takes too long", do: func(x *trouble) { x.start(); x.on("create", "sleep 100"); x.create() },
		shard: []string{"CREATING"}, elsewhere: []string{"driver failed; it is asked again", "create: took longer than 1s and was killed"}},
	{wrong: "a command answers rubbish", do: func(x *trouble) { x.start(); x.made(); x.on("observe", "echo rubbish; exit 0") },
		shard: []string{"IDLE"}, elsewhere: []string{"driver cannot be observed; nothing is taken for gone", `observe: answer: line 1: must be a JSON object, got "rubbish"`}},
}

// fullDisk lets the provider run on a small file system that is full.
func fullDisk(x *trouble) {
	if os.Geteuid() != 0 {
		x.t.Skip("only root can make a small file system")
	}
	disk := x.path("disk")
	x.must(os.Mkdir(disk, 0o700))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		x.t.Skipf("a small file system cannot be made here: %v", err)
	}
	x.t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			x.t.Error(err)
		}
	})
	x.start("--data-dir", disk)
	slotsOf(x.t, x.client, 2)
	filler, err := os.Create(filepath.Join(disk, "filler"))
	x.must(err)
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	// As much metadata as takes a new page.
	for i := 0; i < 20 && x.ctx.Err() == nil; i++ {
		x.tokens++
		if _, err := x.client.Create(x.ctx, &pb.CreateRequest{MachineId: fmt.Sprintf("no-such-machine-%d", i), ShardId: strings.Repeat("s", 100) + fmt.Sprint(i), ShardEpoch: 1, SequenceNumber: x.tokens}); err != nil {
			x.said = append(x.said, err.Error())
		}
	}
}

// TestFaults: what the table of faults says is what is to be seen.
func TestFaults(t *testing.T) {
	dir, room := t.TempDir(), make(chan struct{}, 6)
	for i, row := range faultRows {
		t.Run(row.wrong, func(t *testing.T) {
			t.Parallel()
			room <- struct{}{}
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			x := &trouble{t: t, ctx: ctx, dir: filepath.Join(dir, fmt.Sprint(i))}
			x.must(os.MkdirAll(x.path("machines"), 0o700))
			x.must(os.WriteFile(x.path("script"), []byte(script), 0o700))
			x.pools("", "")
			t.Cleanup(func() {
				if x.child != nil {
					x.child.kill()
				}
			})
			row.do(x)
			for {
				elsewhere, shard := x.elsewhere(), x.shard()
				lacks, lacksShard := missing(elsewhere, row.elsewhere), missing(shard, row.shard)
				if lacks == "" && lacksShard == "" && (row.without == "" || !strings.Contains(shard, row.without)) {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("there is no %q, and a shard does not see %q (or sees %q)\n%s\n%s", lacks, lacksShard, row.without, shard, elsewhere)
				}
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
}

// missing returns a part that is not in a text.
func missing(text string, parts []string) string {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return p
		}
	}
	return ""
}

// elsewhereTested are rows of the table that other tests show.
var elsewhereTested = map[string]string{
	"the Lease cannot be renewed, or somebody else has it": "TestReplicasWithALease",
	"the kubeconfig has a fault":                           "TestTheFileIsReadAgain",
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestTheTableOfFaultsIsTested: each row of the page is shown by a test, and so is each message in it.
func TestTheTableOfFaultsIsTested(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash("docs/reference/pools.md")))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What you see when something is wrong\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]faultRow{}
	for _, r := range faultRows {
		rows[r.wrong] = r
	}
	seen := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		wrong := strings.TrimSpace(cells[0])
		if len(cells) != 4 || wrong == "wrong" || strings.HasPrefix(wrong, "---") || elsewhereTested[wrong] != "" {
			continue
		}
		row, ok := rows[wrong]
		if !ok {
			t.Errorf("no test shows the row %q", wrong)
			continue
		}
		seen++
		shown := strings.Join(append(row.shard, row.elsewhere...), "\n")
		for _, m := range quoted.FindAllStringSubmatch(cells[1]+cells[2], -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				if part = strings.Trim(part, " :"); strings.Contains(part, " ") && !slices.Contains([]string{"tonnage-provider offers", "tonnage-provider orphans", "pools validate"}, part) && !strings.Contains(shown, part) {
					t.Errorf("row %q: no test shows %q; it shows\n%s", wrong, part, shown)
				}
			}
		}
	}
	if seen != len(faultRows) {
		t.Errorf("the page has %d of the %d rows that are tested", seen, len(faultRows))
	}
}
