package helm

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the loader tells of every link that it follows
	m.Run()
}

// needed are the values without which a chart does not render.
var needed = map[string]map[string]any{
	"tonnage":          {"shard": map[string]any{"provider": map[string]any{"addr": "provider.fleet.svc:9000"}}},
	"tonnage-operator": {"clusterID": "cluster-1", "shardAddress": "shard-0:7780"},
	"tonnage-pods":     {},
	"tonnage-provider": {"pools": map[string]any{
		"drivers": []any{map[string]any{"name": "sim", "kind": "simulated"}},
		"pools": []any{map[string]any{
			"name": "p", "driver": "sim", "machines": 4, "zones": []any{"a"},
			"types": []any{map[string]any{"name": "t", "resources": map[string]any{"cpu": 2}, "prices": []any{map[string]any{"capacityType": "OnDemand", "pricePerHour": 1}}}},
		}},
	}},
}

// render returns the objects of a chart, text by text.
func render(chart string, values map[string]any) (string, error) {
	return Render(filepath.Join(root, "deploy/charts", chart), "rel", "bigfleet-system", values)
}

func mustRender(t *testing.T, chart string, values map[string]any) string {
	t.Helper()
	out, err := render(chart, values)
	if err != nil {
		t.Fatalf("%s: %v", chart, err)
	}
	return out
}

// with returns the needed values of a chart with one more at a path.
func with(chart string, path []string, value any) map[string]any {
	out := clone(needed[chart])
	at := out
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	return out
}

func clone(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if sub, ok := v.(map[string]any); ok {
			v = clone(sub)
		}
		out[k] = v
	}
	return out
}

// foreign are kinds that an API server does not know by itself.
var foreign = map[string]bool{"PodMonitor": true}

// TestObjectsAreThoseOfKubernetes: no field is misspelt, with everything on and
// with the least.
func TestObjectsAreThoseOfKubernetes(t *testing.T) {
	types := runtime.NewScheme()
	if err := scheme.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	if err := apiextensions.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	for chart := range needed {
		for _, values := range []map[string]any{needed[chart], everything(chart)} {
			kinds := map[string]int{}
			for _, text := range strings.Split(mustRender(t, chart, values), "\n---") {
				var head struct{ Kind, APIVersion string }
				if err := yaml.Unmarshal([]byte(text), &head); err != nil {
					t.Fatalf("%s: %v in\n%s", chart, err, text)
				}
				if head.Kind == "" || foreign[head.Kind] {
					continue
				}
				kinds[head.Kind]++
				if _, _, err := decoder.Decode([]byte(text), nil, nil); err != nil {
					t.Errorf("%s: %s: %v", chart, head.Kind, err)
				}
			}
			if kinds["PodDisruptionBudget"] == 0 || kinds["ServiceAccount"] == 0 || kinds["StatefulSet"]+kinds["Deployment"] == 0 {
				t.Errorf("%s renders %v", chart, kinds)
			}
		}
	}
}

// everything switches on all that a chart has.
func everything(chart string) map[string]any {
	out := clone(needed[chart])
	set := func(value any, path ...string) {
		at := out
		for _, key := range path[:len(path)-1] {
			if _, ok := at[key].(map[string]any); !ok {
				at[key] = map[string]any{}
			}
			at = at[key].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
	set(true, "podMonitor", "enabled")
	set(true, "networkPolicy", "enabled")
	set([]any{map[string]any{"podSelector": map[string]any{}}}, "networkPolicy", "metricsFrom")
	switch chart {
	case "tonnage":
		set([]any{map[string]any{"namespaceSelector": map[string]any{}}}, "networkPolicy", "from")
		set("coordinator-tls", "coordinator", "tls", "secretName")
		set("denied.txt", "coordinator", "tls", "denyKey")
		set("coordinator-raft-tls", "coordinator", "raftTLS", "secretName")
		set("shard-tls", "shard", "tls", "secretName")
		set("denied.txt", "shard", "tls", "denyKey")
		set("bigfleet://provider/p", "shard", "provider", "identity")
		set("/var/lib/bigfleet-shard/audit.jsonl", "shard", "auditLog")
		set("/export", "coordinator", "snapshotExport", "dir")
		set([]any{map[string]any{"name": "export", "emptyDir": map[string]any{}}}, "coordinator", "extraVolumes")
		set([]any{map[string]any{"name": "export", "mountPath": "/export"}}, "coordinator", "extraVolumeMounts")
	case "tonnage-operator":
		set("operator-tls", "tls", "secretName")
		set("denied.txt", "tls", "denyKey")
		set("#cloud-config\n# {{ .ClusterID }}\n", "bootstrapTemplate")
	case "tonnage-provider":
		set([]any{map[string]any{"namespaceSelector": map[string]any{}}}, "networkPolicy", "from")
		set("provider-tls", "tls", "secretName")
		set("denied.txt", "tls", "denyKey")
		set("fast", "storage", "storageClassName")
		set([]any{"fleet", "lab"}, "clusterApi", "namespaces")
		set([]any{map[string]any{"name": "scripts", "configMap": map[string]any{"name": "scripts", "defaultMode": 0o555}}}, "extraVolumes")
		set([]any{map[string]any{"name": "scripts", "mountPath": "/scripts"}}, "extraVolumeMounts")
		set([]any{map[string]any{"name": "MACHINES", "value": "/data/machines"}}, "env")
	case "tonnage-pods":
		set(map[string]any{"critical": map[string]any{"interruptionPenalty": "64"}}, "priorityClassDefaults")
	}
	return out
}

// unused are values that change nothing, and say so where they stand.
var unused = map[string]bool{"tonnage rbac.create": true}

// raftTLS are a coordinator's values for mutual TLS.
var raftTLS = map[string]any{"coordinator": map[string]any{"tls": map[string]any{"secretName": "t"}, "raftTLS": map[string]any{"secretName": "r"}}}

// parents are values that count only beside others.
var beside = map[string]map[string]any{
	"tonnage coordinator.snapshotExport.interval": {"coordinator": map[string]any{"snapshotExport": map[string]any{"dir": "/export"}}},
	"tonnage coordinator.tls.denyKey":             raftTLS,
	"tonnage coordinator.raftTLS.secretName":      {"coordinator": map[string]any{"tls": map[string]any{"secretName": "t"}, "replicas": 1}},
	"tonnage coordinator.etcdTLS.secretName":      {"coordinator": map[string]any{"etcdEndpoints": "http://etcd:2379"}},
	"tonnage shard.tls.denyKey":                   {"shard": map[string]any{"tls": map[string]any{"secretName": "t"}}},
	"tonnage shard.provider.identity":             {"shard": map[string]any{"tls": map[string]any{"secretName": "t"}}},
	"tonnage-operator tls.denyKey":                {"tls": map[string]any{"secretName": "t"}},
	"tonnage networkPolicy.from":                  {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage networkPolicy.metricsFrom":           {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage podMonitor.interval":                 {"podMonitor": map[string]any{"enabled": true}},
	"tonnage-operator networkPolicy.metricsFrom":  {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage-operator podMonitor.interval":        {"podMonitor": map[string]any{"enabled": true}},
	"tonnage-pods networkPolicy.metricsFrom":      {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage-provider networkPolicy.from":         {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage-provider networkPolicy.metricsFrom":  {"networkPolicy": map[string]any{"enabled": true}},
	"tonnage-provider podMonitor.interval":        {"podMonitor": map[string]any{"enabled": true}},
	"tonnage-provider tls.denyKey":                {"tls": map[string]any{"secretName": "t"}},
	"tonnage-pods podMonitor.interval":            {"podMonitor": map[string]any{"enabled": true}},
}

// TestEveryValueCounts: a value that is changed changes what is rendered, or
// renders an error that names it.
func TestEveryValueCounts(t *testing.T) {
	for chart := range needed {
		c, err := loader.Load(filepath.Join(root, "deploy/charts", chart))
		if err != nil {
			t.Fatal(err)
		}
		walk(c.Values, nil, func(path []string, value any) {
			name := chart + " " + strings.Join(path, ".")
			if unused[name] {
				return
			}
			base := clone(needed[chart])
			merge(base, beside[name])
			before := mustRender(t, chart, base)
			changed := with(chart, path, other(value))
			merge(changed, beside[name])
			after, err := render(chart, changed)
			switch {
			case err != nil && !strings.Contains(err.Error(), path[0]):
				t.Errorf("%s: %v", name, err)
			case err == nil && after == before:
				t.Errorf("%s counts for nothing", name)
			}
		})
	}
}

func merge(into, more map[string]any) {
	for k, v := range more {
		sub, ok := v.(map[string]any)
		if have, both := into[k].(map[string]any); ok && both {
			merge(have, sub)
		} else if _, there := into[k]; !there {
			into[k] = v
		}
	}
}

// walk visits the leaves of values; an empty object is one.
func walk(values map[string]any, path []string, visit func([]string, any)) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clone(path), key)
		if sub, ok := values[key].(map[string]any); ok && len(sub) > 0 {
			walk(sub, at, visit)
		} else {
			visit(at, values[key])
		}
	}
}

// other returns another value of the same kind.
func other(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case string:
		return v + "7"
	case []any:
		return []any{map[string]any{"name": "other"}}
	}
	return map[string]any{"other": "1"}
}

var flagPattern = regexp.MustCompile(`(?m)^\s*- "?--([a-z-]+)=`)

// TestFlagsExist: every flag that a chart gives is one of the program's.
func TestFlagsExist(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"tonnage", "tonnage-operator", "tonnage-provider"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, program), "./cmd/"+program)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, c := range []struct {
		chart, part string // part of the file's name
		command     []string
	}{
		{"tonnage", "templates/shard.yaml", []string{"tonnage", "shard"}},
		{"tonnage", "templates/coordinator.yaml", []string{"tonnage", "coordinator"}},
		{"tonnage-operator", "templates/deployment.yaml", []string{"tonnage-operator"}},
		{"tonnage-pods", "templates/deployment.yaml", []string{"tonnage-operator", "pods"}},
		{"tonnage-provider", "templates/statefulset.yaml", []string{"tonnage-provider", "serve"}},
	} {
		help, err := exec.Command(filepath.Join(dir, c.command[0]), append(c.command[1:], "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v --help: %v", c.command, err)
		}
		text := mustRender(t, c.chart, everything(c.chart))
		_, text, found := strings.Cut(text, "# "+c.chart+"/"+c.part)
		if !found {
			t.Fatalf("%s has no %s", c.chart, c.part)
		}
		text, _, _ = strings.Cut(text, "\n---\n# ")
		flags := flagPattern.FindAllStringSubmatch(text, -1)
		if len(flags) < 4 {
			t.Errorf("%s: %d flags are found", c.part, len(flags))
		}
		for _, f := range flags {
			if !regexp.MustCompile(`(?m)^\s+(-\w, )?--?` + f[1] + `\b`).Match(help) {
				t.Errorf("%s: %v has no flag --%s", c.part, c.command, f[1])
			}
		}
	}
}

func TestMissingAndWrongValuesAreNamed(t *testing.T) {
	for _, c := range []struct {
		chart  string
		values map[string]any
		want   string
	}{
		{"tonnage", map[string]any{}, "shard.provider.addr: is missing"},
		{"tonnage-operator", map[string]any{"shardAddress": "s:1"}, "clusterID: is missing"},
		{"tonnage-operator", map[string]any{"clusterID": "c"}, "shardAddress: is missing"},
		{"tonnage-provider", map[string]any{}, "pools: is missing"},
		{"tonnage-provider", with("tonnage-provider", []string{"replicas"}, 4), "replicas: must be 1 to 3, got 4"},
		{"tonnage", with("tonnage", []string{"coordinator", "replicas"}, 7), "coordinator.replicas: must be 1 to 5, got 7"},
		{"tonnage", map[string]any{"shard": map[string]any{"provider": map[string]any{"addr": "p:1"}, "replicas": 2, "tls": map[string]any{"secretName": "s"}}}, "one certificate holds one shard's id"},
		{"tonnage", with("tonnage", []string{"coordinator", "tls", "secretName"}, "s"), "coordinator.raftTLS.secretName: with coordinator.tls"},
		{"tonnage", with("tonnage", []string{"coordinator", "raftTLS", "secretName"}, "s"), "give coordinator.tls.secretName too"},
		{"tonnage", with("tonnage", []string{"coordinator"}, map[string]any{"etcdEndpoints": "etcd:2379", "tls": map[string]any{"secretName": "s"}}), "coordinator.etcdTLS.secretName: with coordinator.tls"},
	} {
		if _, err := render(c.chart, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.chart, err, c.want)
		}
	}
}

// TestNamesCarryOver: a release takes the place of what was installed before.
func TestNamesCarryOver(t *testing.T) {
	text := mustRender(t, "tonnage", needed["tonnage"])
	for _, want := range []string{
		"name: bigfleet-coordinator\n", "name: bigfleet-shard\n", "name: bigfleet-shard-headless\n",
		"app.kubernetes.io/component: coordinator", "app.kubernetes.io/component: shard",
		"- --coordinator-addr=bigfleet-coordinator-0.bigfleet-coordinator.bigfleet-system.svc:7790,bigfleet-coordinator-1.",
		"- --join-addr=bigfleet-coordinator.bigfleet-system.svc:7790",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestRightsOfTheProvider: a replica may change its Lease and the labels of the release's own pods, and nothing else; and
// the pools that are mounted are a file that the program takes.
func TestRightsOfTheProvider(t *testing.T) {
	text := mustRender(t, "tonnage-provider", with("tonnage-provider", []string{"namePrefix"}, "mine"))
	var rules []string
	for _, part := range strings.Split(text, "\n---") {
		var o struct {
			Kind  string
			Data  map[string]string
			Rules []struct{ Resources, ResourceNames, Verbs []string }
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		switch o.Kind {
		case "Role":
			for _, r := range o.Rules {
				rules = append(rules, fmt.Sprintf("%v %v: %v", r.Resources, r.ResourceNames, r.Verbs))
			}
		case "ClusterRole", "ClusterRoleBinding":
			t.Errorf("it renders a %s", o.Kind)
		case "ConfigMap":
			validate := exec.Command("go", "run", "./cmd/tonnage-provider", "pools", "validate", "-f", "/dev/stdin")
			validate.Dir, validate.Stdin = root, strings.NewReader(o.Data["pools.yaml"])
			if out, err := validate.CombinedOutput(); err != nil || !strings.Contains(string(out), "pool p: driver sim, 4 machines at most") {
				t.Errorf("the pools: %v, %s", err, out)
			}
		}
	}
	want := []string{"[leases] []: [create]", "[leases] [mine]: [get update]", "[pods] [mine-0 mine-1 mine-2]: [patch]"}
	if !slices.Equal(rules, want) {
		t.Errorf("rights %q, want %q", rules, want)
	}
}

// TestRightsOfClusterAPI: for each namespace with Clusters there are the rights of deploy/rbac, bound to the provider's account.
func TestRightsOfClusterAPI(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(root, "deploy/rbac/provider-cluster-api.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Rules    []any
		RoleRef  struct{ Name string }
		Subjects []struct{ Name, Namespace string }
	}
	var want object
	if err := yaml.Unmarshal([]byte(strings.Split(string(file), "\n---\n")[0]), &want); err != nil {
		t.Fatal(err)
	}
	text := mustRender(t, "tonnage-provider", with("tonnage-provider", []string{"clusterApi", "namespaces"}, []any{"fleet", "lab"}))
	got := map[string]int{}
	for _, part := range strings.Split(text, "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		switch {
		case o.Metadata.Name != "bigfleet-provider-cluster-api":
		case o.Kind == "Role" && len(o.Rules) > 0 && fmt.Sprint(o.Rules) == fmt.Sprint(want.Rules),
			o.Kind == "RoleBinding" && o.RoleRef.Name == o.Metadata.Name && len(o.Subjects) == 1 && o.Subjects[0] == struct{ Name, Namespace string }{"bigfleet-provider", "bigfleet-system"}:
			got[o.Kind+" "+o.Metadata.Namespace]++
		}
	}
	if fmt.Sprint(got) != "map[Role fleet:1 Role lab:1 RoleBinding fleet:1 RoleBinding lab:1]" {
		t.Errorf("it renders %v", got)
	}
}

// TestRightsOfKarpenter: where the provider makes machines in its own cluster, its account has the rights of deploy/rbac there.
func TestRightsOfKarpenter(t *testing.T) {
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Rules    []any
		RoleRef  struct{ Kind, Name string }
		Subjects []struct{ Name, Namespace string }
	}
	file, err := os.ReadFile(filepath.Join(root, "deploy/rbac/provider-karpenter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want object
	if err := yaml.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	text := mustRender(t, "tonnage-provider", with("tonnage-provider", []string{"karpenter", "inCluster"}, true))
	got := map[string]int{}
	for _, part := range strings.Split(text, "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		switch {
		case o.Metadata.Name != "bigfleet-provider-karpenter":
		case o.Kind == "ClusterRole" && len(o.Rules) > 0 && fmt.Sprint(o.Rules) == fmt.Sprint(want.Rules),
			o.Kind == "ClusterRoleBinding" && o.RoleRef.Kind == "ClusterRole" && o.RoleRef.Name == o.Metadata.Name && len(o.Subjects) == 1 && o.Subjects[0] == struct{ Name, Namespace string }{"bigfleet-provider", "bigfleet-system"}:
			got[o.Kind]++
		}
	}
	if fmt.Sprint(got) != "map[ClusterRole:1 ClusterRoleBinding:1]" {
		t.Errorf("it renders %v", got)
	}
}

// TestRightsToNominate: what nominations need is given where they are on, and nowhere else.
func TestRightsToNominate(t *testing.T) {
	for _, on := range []bool{false, true} {
		out := mustRender(t, "tonnage-pods", map[string]any{"nominate": on})
		for _, want := range []string{"- --nominate\n", "name: bigfleet-pods-nominate\n", "- pods/status\n"} {
			if strings.Contains(out, want) != on {
				t.Errorf("nominate: %v, and %q is there: %v", on, want, !on)
			}
		}
		if n := strings.Count(out, "kind: ClusterRoleBinding\n"); n != map[bool]int{false: 1, true: 2}[on] {
			t.Errorf("nominate: %v, and there are %d bindings of cluster roles", on, n)
		}
	}
}

// TestCopiesOfRights: a chart that holds copies of rights holds those of deploy/rbac. Copies, and not links, come through every archive and
// every copy of the tree; a chart without them renders roles without rules.
func TestCopiesOfRights(t *testing.T) {
	copies, err := filepath.Glob(filepath.Join(root, "deploy/charts/*/files/rbac/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]bool{}
	for _, name := range copies {
		want, err := os.ReadFile(filepath.Join(root, "deploy/rbac", filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not deploy/rbac/%s; copy it", name, filepath.Base(name))
		}
		of[filepath.Base(name)] = true
	}
	for _, name := range []string{"provider.yaml", "provider-cluster-api.yaml", "provider-karpenter.yaml", "operator.yaml", "pods.yaml", "nominate.yaml"} {
		if !of[name] {
			t.Errorf("no chart has %s", name)
		}
	}
}
