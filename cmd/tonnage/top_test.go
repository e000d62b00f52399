package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/web"
)

func TestTop(t *testing.T) {
	feed := web.NewFeed(web.Info{})
	feed.Publish(web.Frame{
		Cycle: 1234, At: 1, Mode: web.ModePaused, Sessions: 7, Needs: 10, Satisfied: 7, CycleMillis: 1.5,
		Reasons: []web.ReasonCount{{Reason: "no_matching_supply", Count: 3}},
		Unmet: []web.UnmetNeed{
			{Cluster: "less", Priority: 9, Reason: "parked", AgeSeconds: 60},
			{Cluster: "more", Priority: 5, Reason: "no_matching_supply", AgeSeconds: 5}, {Cluster: "more", Priority: 5, AgeSeconds: 7},
		},
		Did: []web.Action{{Kind: "Preempt", Machine: "m-1", Cluster: "more", From: "less", Reason: "phase2.preempt"}},
	})
	server := httptest.NewServer(web.New(web.Config{Feed: feed}))
	defer server.Close()
	got := call("", true, "top", "--once", "--shard", server.URL)
	for _, want := range []string{"cycle 1,234 at ", "[paused]", "sessions   7", "7 of 10 satisfied", "3 unmet: no_matching_supply", "Preempt", "m-1"} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("exit %d: %s %s; want %q", got.code, got.out, got.err, want)
		}
	}
	if strings.Index(got.out, "\nmore ") > strings.Index(got.out, "\nless ") {
		t.Errorf("the cluster that is short of most is not first:\n%s", got.out)
	}
	if strings.Contains(got.out, clearScreen) {
		t.Error("the screen is cleared for one picture")
	}
}

func TestTopSaysWhatIsWrong(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for want, address := range map[string]string{"404": server.URL, "is no address": "http://", "does not answer": "http://127.0.0.1:1", `--shard: "ftp://x" is no address; give one like http://`: "ftp://x"} {
		if got := call("", true, "top", "--shard", address); got.code == exitOK || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d: %s", address, got.code, got.err)
		}
	}
}
