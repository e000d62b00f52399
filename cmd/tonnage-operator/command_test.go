package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runs runs a command line that ends by itself.
func runs(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, &o, &e)
	return code, o.String(), e.String()
}

// TestFaultsAreNamed: what the caller has to mend, with the flag that mends it.
func TestFaultsAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		args string
		want []string
	}{
		"nothing given": {"", []string{"--cluster-id", "--shard-addr"}},
		"several": {"--log-level=loud --qps=0 --tls-cert=x --bootstrap-template-file=" + dir + "/none --kubeconfig=" + dir + "/none",
			[]string{"--cluster-id", "--shard-addr", "--log-level", "--qps", "--tls-key", "--bootstrap-template-file", "--kubeconfig"}},
		"pods: several":     {"pods --log-level=loud --qps=0 --priority-class-defaults=" + dir + "/none", []string{"--log-level", "--qps", "--priority-class-defaults"}},
		"an unknown flag":   {"--cluster-idd=x", []string{"cluster-idd"}},
		"an argument":       {"--cluster-id=x --shard-addr=y z", []string{`"z"`}},
		"an interval":       {"--cluster-id=x --shard-addr=y --rollup-interval=1ms", []string{"--rollup-interval"}},
		"an empty address":  {"--cluster-id=x --shard-addr=y,", []string{"--shard-addr"}},
		"a concurrency":     {"--cluster-id=x --shard-addr=y --ack-concurrency=0", []string{"--ack-concurrency"}},
		"a log level":       {"--cluster-id=x --shard-addr=y --log-level=loud", []string{"--log-level"}},
		"part of TLS":       {"--cluster-id=x --shard-addr=y --tls-cert=" + write("cert", ""), []string{"--tls-key"}},
		"no template":       {"--cluster-id=x --shard-addr=y --bootstrap-template-file=" + dir + "/none", []string{"--bootstrap-template-file"}},
		"a bad template":    {"--cluster-id=x --shard-addr=y --bootstrap-template-file=" + write("tmpl", "{{"), []string{"bootstrap template"}},
		"no cluster":        {"-cluster-id=x -shard-addr=y -kubeconfig=" + dir + "/none", []string{"--kubeconfig"}},
		"a rate":            {"--cluster-id=x --shard-addr=y --qps=0", []string{"--qps"}},
		"pods: bad default": {"pods --priority-class-defaults=" + write("bad.yaml", "a: {x: 1}"), []string{"bad.yaml"}},
		"pods: patience":    {"pods --keep-spare=-1s --stuck-after=-1s", []string{"--keep-spare", "--stuck-after"}},
		"pods: no file":     {"pods --priority-class-defaults=" + dir + "/none", []string{"--priority-class-defaults"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, err := runs(t, strings.Fields(c.args)...)
			if code != exitBadInput {
				t.Errorf("exit code is %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(err, want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
		})
	}
}

// TestAClusterWithoutTheResources: both commands say what is to be installed there.
func TestAClusterWithoutTheResources(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = io.WriteString(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
		case "/api/v1":
			_, _ = io.WriteString(w, `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node"}, {"name": "pods", "kind": "Pod", "namespaced": true},
				{"name": "persistentvolumes", "kind": "PersistentVolume"}, {"name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim", "namespaced": true}]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		}
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: "`+server.URL+`"}}],
		contexts: [{name: x, context: {cluster: x, user: x}}], users: [{name: x, user: {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--cluster-id=x --shard-addr=y --kubeconfig=" + config, "pods --kubeconfig=" + config} {
		code, _, err := runs(t, strings.Fields(args)...)
		if want := server.URL + " has no "; code != exitBadInput || !strings.Contains(err, want) || !strings.Contains(err, " of bigfleet.lucy.sh/v1alpha1: install the chart tonnage-operator there, or kubectl apply -f deploy/crds") {
			t.Errorf("%s: exit %d: %s", args, code, err)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-version"} {
		if code, out, _ := runs(t, arg); code != exitOK || !strings.HasPrefix(out, "tonnage-operator ") {
			t.Errorf("%s: %d, %q", arg, code, out)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash("docs/reference/operator.md")))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-help"}, {"pods", "--help"}} {
		code, help, _ := runs(t, args...)
		if code != exitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-[a-z], )? *--([a-z-]+)`).FindAllStringSubmatch(help, -1) {
			if flag[1] != "help" && flag[1] != "version" && !strings.Contains(string(page), "`--"+flag[1]+"`") {
				t.Errorf("docs/reference/operator.md does not list --%s", flag[1])
			}
		}
	}
}

// TestEnvironmentAndCompletion: flags come from the environment too, and a misspelt one names the one it is near to.
func TestEnvironmentAndCompletion(t *testing.T) {
	t.Setenv("TONNAGE_CLUSTER_ID", "x")
	t.Setenv("TONNAGE_QPS", "many")
	if code, _, err := runs(t, "--shard-addr=y", "-kubeconfig=/none"); code != exitBadInput || !strings.Contains(err, "TONNAGE_QPS: ") {
		t.Errorf("exit %d: %s", code, err)
	}
	t.Setenv("TONNAGE_QPS", "0")
	if code, _, err := runs(t, "--shard-addr=y"); code != exitBadInput || !strings.Contains(err, "--qps and --burst must be positive") || strings.Contains(err, "--cluster-id") {
		t.Errorf("exit %d: %s", code, err)
	}
	for arg, want := range map[string]string{"--cluster-idd=x": "did you mean --cluster-id?", "pod": "did you mean pods?"} {
		if code, _, err := runs(t, arg); code != exitBadInput || !strings.Contains(err, want) {
			t.Errorf("%s: exit %d: %s", arg, code, err)
		}
	}
	if code, out, _ := runs(t, "completion", "bash"); code != exitOK || !strings.Contains(out, "tonnage-operator") {
		t.Errorf("exit %d: %.100s", code, out)
	}
	if code, out, _ := runs(t, "__complete", "--early"); code != exitOK || !strings.HasPrefix(out, "--early-rollups") {
		t.Errorf("exit %d: %s", code, out)
	}
}
