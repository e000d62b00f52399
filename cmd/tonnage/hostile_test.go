package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// hostile is a text that would clear the screen, ring, colour all that follows,
// overwrite its own line, forge another, and be read backwards.
const hostile = "evil\x1b[2J\a\u009b31m\roverwritten\nforged line\u202egnp.\x7f\t\u2066end"

// poison sets every field of a message, and of all in it, to something hostile.
func poison(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			values := m.Mutable(f).Map()
			value := values.NewValue()
			if f.MapValue().Kind() == protoreflect.StringKind {
				value = protoreflect.ValueOfString(hostile)
			}
			if f.MapKey().Kind() == protoreflect.StringKind {
				values.Set(protoreflect.ValueOfString(hostile).MapKey(), value)
			}
		case f.Message() != nil && depth == 0:
		case f.IsList() && f.Message() != nil:
			poison(m.Mutable(f).List().AppendMutable().Message(), depth-1)
		case f.Message() != nil:
			poison(m.Mutable(f).Message(), depth-1)
		case f.Kind() == protoreflect.StringKind && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString(hostile))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(hostile))
		}
	}
}

// hostileServer answers every call with a poisoned message; if it refuses, with a
// poisoned error.
func hostileServer(t *testing.T, refuses bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if refuses {
			return status.Error(codes.InvalidArgument, hostile)
		}
		path, _ := grpc.MethodFromServerStream(stream)
		service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
		if err != nil {
			return err
		}
		of := d.(protoreflect.MethodDescriptor)
		if err := stream.RecvMsg(dynamicpb.NewMessage(of.Input())); err != nil {
			return err
		}
		answer := dynamicpb.NewMessage(of.Output())
		poison(answer, 5)
		var m proto.Message = answer
		return stream.SendMsg(m)
	}))
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

// harmless fails the test if an output holds anything that a terminal acts on.
func harmless(t *testing.T, got outcome, args ...string) {
	t.Helper()
	for _, text := range []string{got.out, got.err} {
		if !utf8.ValidString(text) {
			t.Errorf("%q: the output is not UTF-8: %q", args, text)
		}
		for _, r := range text {
			if model.IsControl(r) && r != '\n' {
				t.Errorf("%q: the output holds %U: %q", args, r, text)
				break
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "forged") {
				t.Errorf("%q: a line is forged: %q", args, text)
			}
		}
	}
}

// TestHostileAnswers: whatever servers answer, tables have one line a row, JSON is
// JSON with the same text in it, and a terminal has nothing to act on.
func TestHostileAnswers(t *testing.T) {
	answers, refuses := hostileServer(t, false), hostileServer(t, true)
	for _, c := range []struct {
		args  []string
		flag  string
		lines int // of the table
	}{
		{[]string{"list-shards"}, "--coordinator", 2},
		{[]string{"list-domains"}, "--coordinator", 2},
		{[]string{"shortfalls"}, "--coordinator", 2},
		{[]string{"members"}, "--coordinator", 2},
		{[]string{"rebalance", "--why"}, "--coordinator", 9},
		{[]string{"needs"}, "--shard-addr", 2},
	} {
		args := append([]string{"ctl", "--timeout=10s"}, c.args...)
		table := slices.Concat(args, []string{c.flag, answers, "-o", "table"})
		got := call("", true, table...)
		if n := strings.Count(got.out, "\n"); got.code != exitOK || n != c.lines || !strings.Contains(got.out, `evil\x1b[2J\x07\u009b31m\roverwritten\nforged line\u202egnp.\u007f\t\u2066end`) {
			t.Errorf("%q: exit %d, %d lines, want %d: %s %s", c.args, got.code, n, c.lines, got.out, got.err)
		}
		harmless(t, got, table...)
		asJSON := slices.Concat(args, []string{c.flag, answers, "-o", "json"})
		got = call("", true, asJSON...)
		var v any
		if err := json.Unmarshal([]byte(got.out), &v); err != nil || !strings.Contains(fmt.Sprint(v), hostile) {
			t.Errorf("%q: JSON: %v: %s %s", c.args, err, got.out, got.err)
		}
		harmless(t, got, asJSON...)
		refused := slices.Concat(args, []string{c.flag, refuses})
		if got = call("", true, refused...); got.code == exitOK || !strings.Contains(got.err, `evil\x1b[2J\x07\u009b31m`) {
			t.Errorf("%q: exit %d: %q", c.args, got.code, got.err)
		}
		harmless(t, got, refused...)
	}
}

// hostileWorld is a world with hostile text wherever a world may hold it.
func hostileWorld() string {
	text, _ := json.Marshal(hostile)
	return fmt.Sprintf(`{"machines": [
  {"id": "m-1", "state": "Failed", "lastError": %[1]s, "assigned": {"group": %[1]s}},
  {"id": "大-\u00a0", "state": "Configured", "cluster": "c2", "instanceType": "größe", "resources": {"cpu": "1"}, "assigned": {"group": %[1]s}},
  {"id": "m-3", "state": "Idle", "resources": {"cpu": "4"}, "reservedFor": {"cluster": "c1", "group": %[1]s}}],
 "needs": [{"name": "n1", "cluster": "c1", "group": %[1]s, "aggregate": {"cpu": "6"}}]}`, text)
}

// TestHostileWorlds: the tools that read a world, of a file or a shard.
func TestHostileWorlds(t *testing.T) {
	pages := func(answer func(http.ResponseWriter)) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	good := pages(func(w http.ResponseWriter) { fmt.Fprint(w, hostileWorld()) })
	refusing := pages(func(w http.ResponseWriter) { http.Error(w, hostile, http.StatusConflict) })
	name, _ := json.Marshal("m" + hostile)
	bad := pages(func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"machines": [{"id": %s, %[1]s: 1, "state": %[1]s}]}`, name)
	})
	for _, c := range []struct {
		args []string
		flag string
	}{
		{[]string{"ctl", "machines"}, "--shard"}, {[]string{"explain", "need", "n1"}, "--shard"},
		{[]string{"explain", "machine", "m-1", "m-3"}, "--shard"}, {[]string{"what-if", "--lose", "m-3"}, "--shard"},
	} {
		for _, format := range []string{"table", "json"} {
			args := slices.Concat(c.args, []string{c.flag, good, "-o", format})
			got := call("", true, args...)
			if got.code != exitOK {
				t.Errorf("%q: exit %d: %s", args, got.code, got.err)
			}
			harmless(t, got, args...)
			if format == "json" && !json.Valid([]byte(got.out)) {
				t.Errorf("%q is not JSON: %s", args, got.out)
			}
		}
		for _, page := range []string{bad, refusing} {
			args := slices.Concat(c.args, []string{c.flag, page})
			got := call("", true, args...)
			if got.code == exitOK || !strings.Contains(got.err, `\x1b`) {
				t.Errorf("%q: exit %d: %s", args, got.code, got.err)
			}
			harmless(t, got, args...)
		}
	}
	for _, args := range [][]string{
		{"decide", "-f", "-", "-o", "table", "--explain"}, {"decide", "-f", "-", "-o", "json", "--explain"}, {"what-if", "-f", "-", "-o", "svg"},
	} {
		got := call(hostileWorld(), true, args...)
		if got.code != exitOK {
			t.Errorf("%q: exit %d: %s", args, got.code, got.err)
		}
		harmless(t, got, args...)
	}
}

// TestHostileTop: the feed of a page.
func TestHostileTop(t *testing.T) {
	text, _ := json.Marshal(hostile)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "data: {\"frame\": {\"cycle\": 1, \"mode\": %[1]s, \"progress\": %[1]s, \"reasons\": [{\"reason\": %[1]s, \"count\": 1}], \"unmet\": [{\"cluster\": %[1]s, \"profile\": %[1]s, \"reason\": %[1]s}]}, "+
			"\"recent\": [{\"kind\": %[1]s, \"machine\": %[1]s, \"type\": %[1]s, \"cluster\": %[1]s, \"reason\": %[1]s}]}\n\n", text)
	}))
	defer server.Close()
	args := []string{"top", "--once", "--color", "never", "--shard", server.URL}
	got := call("", true, args...)
	if got.code != exitOK || strings.Count(got.out, `\x1b[2J`) < 8 {
		t.Errorf("exit %d: %s %s", got.code, got.out, got.err)
	}
	harmless(t, got, args...)
	if got := call("", true, "ctl", "pause-state", "--shard", server.URL); strings.Count(got.out, "\n") != 1 {
		t.Errorf("the state of pausing: %q", got.out)
	} else {
		harmless(t, got)
	}
}

// TestHostileAuditLog: records that shards have written about others' names.
func TestHostileAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text, _ := json.Marshal(hostile)
	line := fmt.Sprintf(`{"disposition": %[1]s, "kind": %[1]s, "machine": %[1]s, "cluster": %[1]s, "reason": %[1]s, "outcome": %[1]s, "error": %[1]s}`+"\n", text)
	if err := os.WriteFile(path, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"table", "json"} {
		args := []string{"ctl", "audit", "--log", path, "-o", format}
		got := call("", true, args...)
		if n := strings.Count(got.out, "\n"); got.code != exitOK || n != 2 {
			t.Errorf("%q: exit %d, %d lines: %s %s", args, got.code, n, got.out, got.err)
		}
		harmless(t, got, args...)
	}
}

// TestHostileArguments: names that break the rule are refused before anybody is
// asked, and no error repeats an argument as it is.
func TestHostileArguments(t *testing.T) {
	for _, args := range [][]string{
		{"ctl", "assign-domain", "--key", hostile, "--value", "v", "--shard", "s"},
		{"ctl", "assign-domain", "--key", "k", "--value", hostile, "--shard", "s"},
		{"ctl", "assign-domain", "--key", "k", "--value", "v", "--shard", hostile},
		{"ctl", "needs", "--cluster", hostile},
		{"ctl", "machines", "--cluster", hostile},
		{"ctl", "shortfalls", "--shard-id", hostile},
		{"shard", "--id", "s\u009b"},
		{"coordinator", "--id", "s\u009b"},
		{"ctl", "machines", "--state", hostile},
		{"ctl", "audit", "--log", hostile},
		{"decide", "-f", hostile},
		{"decide", "--" + hostile},
		{hostile},
		{"top", "--shard", hostile},
	} {
		got := call("", true, args...)
		if got.code != exitBadInput {
			t.Errorf("%q: exit %d: %s", args, got.code, got.err)
		}
		got.err = strings.NewReplacer("\nforged", " ", "\t", " ").Replace(got.err) // of the caller's own
		harmless(t, got, args...)
	}
}
