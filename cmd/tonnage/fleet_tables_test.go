package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTablesOfAFleet: what an API answers, as people see it.
func TestTablesOfAFleet(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		_, _ = w.Write([]byte(map[string]string{
			"/api/v1/needs": `{"total": 3, "unmet": 1, "kept": 1, "all": 3, "needs": [
				{"name": "shop", "cluster": "web", "priority": 900, "satisfied": true, "wants": [{"name": "cpu", "value": 16000}], "machines": 2, "profile": "std", "deficit": []},
				{"name": "llm", "cluster": "train", "priority": 500, "reason": "parked", "wants": [{"name": "nvidia.com/gpu", "value": 64}], "deficit": [{"name": "nvidia.com/gpu", "value": 8}], "profile": "V100"}]}`,
			"/api/v1/preemptions": `{"since": 0, "machines": 52, "different": 8, "pairs": [
				{"from": "batch", "fromNeed": "sweep", "fromPriority": 10, "for": "train", "forNeed": "llm", "priority": 500, "machines": 52, "times": 13, "different": 8, "graceSeconds": 600, "plan": 3, "some": ["m-1", "m-2", "m-3", "m-4"]}]}`,
			"/api/v1/machine": `{"id": "m-1", "state": "Idle", "type": "std", "capacity": "Spot", "zone": "z", "price": 1, "effective": 1, "history": [` +
				strings.Repeat(`{"at": 0, "cycle": 3, "did": {"kind": "Bootstrap", "cluster": "web", "forNeed": "shop", "reason": "phase1.idle"}}, {"at": 0, "cycle": 2, "moved": {"from": "Creating", "to": "Idle"}}, `, 30) +
				`{"at": 0, "cycle": 1, "moved": {"from": "", "to": "Creating"}}]}`,
			"/api/v1/machine m-2": `{"id": "m-2", "state": "gone", "history": [{"at": 0, "cycle": 3, "moved": {"from": "Configured", "fromCluster": "web"}}, {"at": 0, "cycle": 2, "moved": {"from": "Deleting"}}]}`,
		}[strings.TrimSuffix(r.URL.Path+" "+strings.TrimPrefix(r.URL.Query().Get("id"), "m-1"), " ")]))
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct{ command, asks, want string }{
		{"needs --all --limit 2", "/api/v1/needs?all=true&limit=2", `
NEED  CLUSTER  PRIORITY  IS         WANTS              MACHINES  SHORT OF          ASKS FOR
shop  web      900       satisfied  cpu=16             2         —                 std
llm   train    500       parked     nvidia.com/gpu=64  0         nvidia.com/gpu=8  V100
3 needs, of which 1 unmet
2 of 3 needs are shown; --limit shows more
`},
		{"preemptions", "/api/v1/preemptions?from=", `
LAST  LOST BY  OF     PRIORITY  GOT BY  OF     PRIORITY  TIMES  PREEMPTIONS  MACHINES  NOTICE UP TO  PLAN  SUCH AS
—     sweep    batch  10        llm     train  500       13     52           8         10m0s         3     m-1 m-2 m-3
52 preemptions of 8 machines; what is kept begins at —
`},
		{"machine m-1 --limit 3", "/api/v1/machine?id=m-1", `
m-1: Idle, std Spot in z, $1.00 an hour, $1.00 with interruptions
AT  CYCLE  WHAT       FROM      TO    NEED  WHY
—   3      Bootstrap  —         web   shop  an idle machine that suits it
—   2      moved      Creating  Idle  —     —
—   3      Bootstrap  —         web   shop  an idle machine that suits it
3 of 61 events are shown; --limit shows more
`},
		{"machine m-2", "/api/v1/machine?id=m-2", `
m-2: the provider does not list it any more
AT  CYCLE  WHAT   FROM               TO  NEED  WHY
—   3      lost   Configured of web  —   —     the provider does not list it any more
—   2      moved  Deleting           —   —     —
`},
	} {
		asked = nil
		got := call("", true, append(append([]string{"fleet"}, strings.Fields(c.command)...), "--shard", server.URL)...)
		if got.code != exitOK || "\n"+got.out != c.want || len(asked) != 1 || !strings.HasPrefix(asked[0], c.asks) {
			t.Errorf("%s asked %q: exit %d: %s\n%s\nwant%s", c.command, asked, got.code, got.err, got.out, c.want)
		}
	}
	if got := call("", true, "fleet", "machine", "m-1", "--shard", server.URL); strings.Count(got.out, "\n") != 13 || !strings.HasSuffix(got.out, "10 of 61 events are shown; --limit shows more\n") {
		t.Errorf("by default it says\n%s", got.out)
	}
}
