package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIf(t *testing.T) {
	edits := filepath.Join(t.TempDir(), "edits.yaml")
	if err := os.WriteFile(edits, []byte("lose: [m-1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--edits", edits}, {"--lose", "m-1"}, {"--edits", edits, "--price", "m-2=0.5", "--weight", "priority=2"}} {
		got := call(goodWorld, true, append([]string{"what-if", "-f", "-"}, args...)...)
		if got.code != 0 || !strings.Contains(got.out, "  - Bootstrap m-1 cluster c1 for n1") {
			t.Errorf("%v: exit %d: %s %s", args, got.code, got.out, got.err)
		}
	}
	if got := call(goodWorld, false, "what-if", "-f", "-", "--remove", "n1"); got.code != 0 || !strings.HasPrefix(got.out, "{") {
		t.Errorf("exit %d: %s %s", got.code, got.out, got.err)
	}
}

// TestAnAddressThatIsNoShardsPage: every command that asks a page names the address, and how another one is given.
func TestAnAddressThatIsNoShardsPage(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	want := strings.TrimPrefix(server.URL, "http://") + " is no page of a Tonnage shard: it answers 404 Not Found for "
	for _, command := range [][]string{{"what-if"}, {"explain", "need", "n"}, {"fleet", "money"}, {"top", "--once"}} {
		got := call("", true, append(command, "--shard", server.URL)...)
		if got.code == 0 || !strings.Contains(got.err, want) || !strings.Contains(got.err, "; name one with --shard or TONNAGE_SHARD") {
			t.Errorf("%v: exit %d: %s; want %q", command, got.code, got.err, want)
		}
	}
}

func TestWhatIfOfARunningShard(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != worldPath {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(goodWorld))
	}))
	defer server.Close()
	if got := call("", true, "what-if", "--shard", strings.TrimPrefix(server.URL, "http://"), "--lose", "m-1"); got.code != 0 || !strings.Contains(got.out, "- Bootstrap m-1") {
		t.Errorf("exit %d: %s %s", got.code, got.out, got.err)
	}
	if got := call("", true, "what-if", "--shard", server.URL, "--price", "m-1=0x1p-2"); got.code != 0 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	for body, want := range map[string]string{"": "is no world: it is empty; is this the address of its page?", "<html>": "is no world: must be an object"} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		got := call("", true, "explain", "machine", "--shard", page.URL, "m-1")
		page.Close()
		if got.code != exitBadInput || !strings.Contains(got.err, "--shard "+page.URL+": what the shard sent "+want) {
			t.Errorf("exit %d: %s; want %q", got.code, got.err, want)
		}
	}
	if got := call("", true, "what-if", "--shard", server.URL+"/elsewhere"); got.code != exitInternal || !strings.Contains(got.err, "404") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

func TestWhatIfSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"not both", []string{"-f", "-", "--shard", "http://127.0.0.1:1"}},
		{"no world given; give --shard URL (the page of a running shard) or -f FILE", nil},
		{"cannot both be standard input", []string{"-f", "-", "--edits", "-"}},
		{"must be MACHINE=DOLLARS", []string{"-f", "-", "--price", "m-1"}},
		{"must be NAME=NUMBER", []string{"-f", "-", "--weight", "priority=much"}},
		{`no machine is named "m-3"`, []string{"-f", "-", "--lose", "m-3"}},
		{"is no address", []string{"--shard", "http://"}},
		{`--shard: "ftp://x" is no address; give one like http://`, []string{"--shard", "ftp://x"}},
		{"--weight priority=nan: must be a finite number", []string{"-f", "-", "--weight", "priority=nan"}},
		{"--price m-1=-Inf: must be a finite number", []string{"-f", "-", "--price", "m-1=-Inf"}},
		{"--price m-1=-1: must be at least 0, got -1", []string{"-f", "-", "--price", "m-2=1", "--price", "m-1=-1"}},
		{`--price m-9=1: no machine is named "m-9"`, []string{"-f", "-", "--price", "m-9=1"}},
		{"--weight height: unknown key", []string{"-f", "-", "--weight", "height=1"}},
		{`--remove: no need is named "n9"`, []string{"-f", "-", "--remove", "n9"}},
		{"unknown output format", []string{"-f", "-", "-o", "png"}},
	} {
		if got := call(goodWorld, false, append([]string{"what-if"}, c.args...)...); got.code != exitBadInput || !strings.Contains(got.err, c.says) {
			t.Errorf("%v: exit %d: %s, want %s", c.args, got.code, got.err, c.says)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"need", "-f", "-", "n1"}, []string{"need n1 of cluster c1, rank 0: not satisfied", "short of cpu=2", "takes 1 machine: m-1", "1 of them bound to cluster c2"}},
		{[]string{"need", "-f", "-", "--verbose", "n1"}, []string{"what the machines are to it: 1 claimed, 1 other_cluster"}},
		{[]string{"machine", "-f", "-", "m-1"}, []string{"machine m-1, Idle", "claimed by need n1", "Bootstrap, because phase1.idle, for need n1"}},
		{[]string{"machine", "-f", "-", "m-2"}, []string{"machine m-2, Configured in cluster c2", "claimed by no need", "Reclaim"}},
	} {
		got := call(goodWorld, true, append([]string{"explain"}, c.args...)...)
		for _, want := range c.want {
			if got.code != 0 || !strings.Contains(got.out, want) {
				t.Errorf("%v: exit %d: %s %s; want %q", c.args, got.code, got.out, got.err, want)
			}
		}
	}
	var why struct {
		Needs    map[string]struct{ Reason string }
		Machines map[string]struct{ Action string }
	}
	got := call(goodWorld, false, "explain", "machine", "-f", "-", "m-1", "m-2")
	if err := json.Unmarshal([]byte(got.out), &why); err != nil || len(why.Needs) != 0 || len(why.Machines) != 2 || why.Machines["m-2"].Action != "Reclaim" {
		t.Errorf("%v: %s %s", err, got.out, got.err)
	}
	for want, args := range map[string][]string{
		`no need is named "n2"; did you mean "n1"?`: {"need", "-f", "-", "n2"},
		"name at least one":                         {"need", "-f", "-"},
		`no machine is named "x"`:                   {"machine", "-f", "-", "x"},
	} {
		if got := call(goodWorld, true, append([]string{"explain"}, args...)...); got.code != exitBadInput || !strings.Contains(got.err, want) {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
}

func TestWhatIfIsDrawn(t *testing.T) {
	if got := call(goodWorld, true, "what-if", "-f", "-", "-o", "svg"); got.code != 0 || !strings.HasPrefix(got.out, "<svg ") {
		t.Errorf("exit %d: %.80s %s", got.code, got.out, got.err)
	}
}
