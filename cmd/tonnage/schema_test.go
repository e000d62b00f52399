package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitIsAWorldWithoutFaults that shows something: a gang preempts, a machine is bought.
func TestInitIsAWorldWithoutFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.yaml")
	got := call("", true, "init", path)
	if got.code != exitOK || !strings.Contains(got.out, "decide -f "+path) {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if again := call("", true, "init", path); again.code != exitBadInput || !strings.Contains(again.err, "exists already") {
		t.Errorf("again: exit %d: %s", again.code, again.err)
	}
	if valid := call("", true, "validate", "-f", path); valid.code != exitOK || valid.out != path+": a world with 4 machines and 3 needs, without faults\n" {
		t.Errorf("validate: exit %d: %s%s", valid.code, valid.out, valid.err)
	}
	if plan := call("", true, "decide", "-f", path); !strings.Contains(plan.out, "1 Bootstrap, 1 Provision, 1 Preempt") || plan.err != "" {
		t.Errorf("decide: %s%s", plan.out, plan.err)
	}
	if printed := call("", true, "init"); printed.out != initWorld {
		t.Errorf("init prints %s", printed.out)
	}
}

func TestValidateSaysFaultsWarningsAndNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("needs:\n- name: a\n  cluster: c\n  interruptionPenalty: 100\n  aggregate: {cpu: 4}\n  minUnit: {cpu: 8}\n- {name: b, cluster: c, reclamationPenalty: 9e9}\n")
	want := path + ":4:24: note: needs[0].interruptionPenalty: $100 counts as $128: penalties are rounded up to a power of two\n" +
		path + ":6:12: warning: needs[0].minUnit: cpu of 8 is above the aggregate's 4: one machine is more than enough; is the aggregate the sum of all units?\n" +
		path + ":7:45: note: needs[1].reclamationPenalty: $9000000000 is above the largest bucket and counts as pinned\n" +
		path + ":7:3: warning: needs[1].aggregate: asks for nothing, so the need is satisfied without a machine; say how much it needs in all\n" +
		path + ": a world with 0 machines and 2 needs, without faults\n"
	if got := call("", true, "validate", "-f", path); got.code != exitOK || got.out != want {
		t.Errorf("exit %d:\n%s\nwant\n%s", got.code, got.out, want)
	}
	type remarks struct {
		Valid                   bool
		Faults, Warnings, Notes []struct {
			Line, Column int
			Path, Says   string
		}
	}
	asJSON := func(want int, args ...string) (v remarks) {
		t.Helper()
		got := call("", true, append([]string{"validate", "-o", "json", "-f", path}, args...)...)
		if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != want || v.Valid != (want == exitOK) {
			t.Errorf("exit %d, %v: %s%s", got.code, err, got.out, got.err)
		}
		return v
	}
	if v := asJSON(exitOK); len(v.Faults) != 0 || len(v.Notes) != 2 || len(v.Warnings) != 2 || v.Warnings[0].Line != 6 || v.Warnings[0].Column != 12 || v.Warnings[0].Path != "needs[0].minUnit" {
		t.Errorf("as JSON: %+v", v)
	}
	// Those who decide hear the warnings alone, and the answer is as it was.
	if got := call("", false, "decide", "-f", path); got.code != exitOK || strings.Count(got.err, ": warning: ") != 2 || strings.Contains(got.err, "note") || !json.Valid([]byte(got.out)) {
		t.Errorf("decide: exit %d: %s\n%s", got.code, got.out, got.err)
	}
	write("needs:\n- name: a\n")
	if got := call("", true, "validate", "-f", path); got.code != exitBadInput || got.err != path+":2:3: needs[0].cluster: is missing\n" || got.out != "" {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if v := asJSON(exitBadInput); len(v.Faults) != 1 || v.Faults[0].Line != 2 || v.Faults[0].Says != "is missing" {
		t.Errorf("as JSON: %+v", v)
	}
	write("world: {}\ncycles: 3\n")
	asJSON(exitOK, "--run")
	if got := call("", true, "validate", "--run", "-f", path); got.code != exitOK || !strings.Contains(got.out, "a run of 3 cycles") {
		t.Errorf("a run: exit %d: %s%s", got.code, got.out, got.err)
	}
	var many strings.Builder
	many.WriteString("needs:\n")
	for i := range warningsMax + 5 {
		many.WriteString("- {cluster: c, name: n" + strings.Repeat("x", i) + "}\n")
	}
	write(many.String())
	if got := call("", true, "decide", "-f", path); strings.Count(got.err, "\n") != warningsMax+1 || !strings.Contains(got.err, "tonnage validate -f "+path) {
		t.Errorf("many warnings: %s", got.err)
	}
}

func TestSchemaOfEveryKind(t *testing.T) {
	for args, want := range map[string]string{"schema": `"machines"`, "schema world": `"heldBack"`, "schema run": `"timeline"`, "schema edits": `"loseWhere"`, "schema batch": `"questions"`} {
		got := call("", true, strings.Fields(args)...)
		if got.code != exitOK || !json.Valid([]byte(got.out)) || !strings.Contains(got.out, want) {
			t.Errorf("%s: exit %d: %s%s", args, got.code, got.out, got.err)
		}
	}
	for args, want := range map[string]string{"schema plan": "use one of world, run, edits, batch", "schema world -o markdown": "one page of all kinds", "schema -o xml": "unknown output format", "schema a b": "unexpected argument"} {
		if got := call("", true, strings.Fields(args)...); got.code != exitBadInput || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d: %s", args, got.code, got.err)
		}
	}
}
