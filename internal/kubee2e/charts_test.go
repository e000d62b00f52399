package kubee2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
)

// releaseNamespace is where charts are installed.
const releaseNamespace = "bigfleet-system"

// release is a chart as helm template renders it, whose objects a cluster has, and whose programs run as processes.
type release struct {
	c     *cluster
	chart string
	pods  []podOf
	data  map[string]map[string]string // of ConfigMaps, by name
	// node is where its pod is; empty = there is no pod, or, in a cluster that runs none, on none.
	node string
}

// podOf is the pod of a StatefulSet or Deployment.
type podOf struct {
	name string
	spec corev1.PodSpec
}

// install renders a chart and gives its objects to a cluster, but for those that make pods: a cluster of tests runs no programs.
func (c *cluster) install(chart string, values map[string]any) *release {
	c.t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		c.t.Fatal(err)
	}
	template := exec.Command("go", "-C", kubetest.Root("tools"), "run", "./helm/template", kubetest.Root("deploy", "charts", chart), chart, releaseNamespace)
	template.Stdin = bytes.NewReader(text)
	var errs bytes.Buffer
	template.Stderr = &errs
	out, err := template.Output()
	if err != nil {
		c.t.Fatalf("chart %s: %v: %s", chart, err, errs.String())
	}
	file := filepath.Join(c.dir, chart+".yaml")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, startLimit, "there is the namespace of releases", func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: releaseNamespace}}); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
	r := &release{c: c, chart: chart, data: map[string]map[string]string{}}
	var objects []map[string]any
	for _, o := range documents(c.t, file) {
		u := unstructured.Unstructured{Object: o}
		switch u.GetKind() {
		case "StatefulSet", "Deployment":
			var w struct {
				Spec struct {
					Template corev1.PodTemplateSpec `json:"template"`
				} `json:"spec"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &w); err != nil {
				c.t.Fatal(err)
			}
			r.pods = append(r.pods, podOf{u.GetName() + "-0", w.Spec.Template.Spec})
			continue
		case "ConfigMap":
			r.data[u.GetName()], _, _ = unstructured.NestedStringMap(o, "data")
		}
		// As helm does; objects of other namespaces say so.
		if u.GetNamespace() == "" && !strings.HasPrefix(u.GetKind(), "Cluster") && u.GetKind() != "CustomResourceDefinition" {
			u.SetNamespace(releaseNamespace)
		}
		objects = append(objects, o)
	}
	c.giveTo("", c.ca.file("admin.kubeconfig"), c.list(chart+".json", objects))
	return r
}

// asPod has a program find folders where the kubelet mounts them, which no other process sees: pairs of a folder and its place below
// mounted, then -- and the program.
const asPod = `mount -t tmpfs none /run && while [ "$1" != -- ]; do mkdir -p "$2" && mount --bind "$1" "$2" && shift 2 || exit; done && shift && exec "$@"`

const (
	// mounted is where folders are mounted for the program itself. Of others only arguments tell, which name the folder in their place.
	mounted = "/run/"
	// accountDir is where the kubelet mounts a service account.
	accountDir = mounted + "secrets/kubernetes.io/serviceaccount"
)

// run starts the program of the only pod of a release. What listens at a port of the chart listens at ports[port], a free one where none is given.
func (r *release) run(ports map[string]string) *process {
	r.c.t.Helper()
	if len(r.pods) != 1 {
		r.c.t.Fatalf("chart %s has %d pods, want 1", r.chart, len(r.pods))
	}
	p := &r.pods[0]
	main := &p.spec.Containers[0]
	host, port, _ := strings.Cut(r.c.address, ":")
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	args := []string{"--mount", "sh", "-c", asPod, "sh", r.account(p.spec.ServiceAccountName), accountDir}
	replace := []string{}
	for _, e := range main.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			e.Value = p.name
		}
		env[e.Name] = e.Value
		replace = append(replace, "$("+e.Name+")", e.Value)
	}
	for _, x := range main.Ports {
		at := ports[x.Name]
		if at == "" {
			at = freeport.Take(r.c.t)
		}
		replace = append(replace, fmt.Sprintf("=:%d", x.ContainerPort), "="+at)
	}
	mounts := main.VolumeMounts
	sort.Slice(mounts, func(i, j int) bool { return len(mounts[i].MountPath) > len(mounts[j].MountPath) })
	for _, m := range mounts {
		dir := r.volume(p, &m)
		if strings.HasPrefix(m.MountPath, mounted) {
			args = append(args, dir, m.MountPath)
		} else {
			replace = append(replace, "="+m.MountPath, "="+dir)
		}
	}
	args = append(args, "--", "/usr/bin/env")
	for name, value := range env {
		args = append(args, name+"="+value)
	}
	args = append(args, filepath.Join(r.c.p.ours, strings.Split(main.Image, ":")[0]))
	rewrite := strings.NewReplacer(replace...)
	for _, a := range main.Args {
		args = append(args, rewrite.Replace(a))
	}
	if r.c.bare || r.node != "" {
		// Nobody makes pods there; the one that is labelled is there.
		r.podObject(p)
	}
	return startAgain(r.c.t, true, r.c.dir, r.c.name+"-"+r.chart, "/usr/bin/unshare", args...)
}

// volume returns the folder or file that is mounted, with what a ConfigMap or Secret has for it.
func (r *release) volume(p *podOf, m *corev1.VolumeMount) string {
	r.c.t.Helper()
	dir := filepath.Join(r.c.dir, r.chart+"-"+m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.c.t.Fatal(err)
	}
	for _, v := range p.spec.Volumes {
		if v.Name != m.Name {
			continue
		}
		files := map[string]string{}
		if v.ConfigMap != nil {
			files = r.data[v.ConfigMap.Name]
		}
		if v.Secret != nil {
			files = r.secret(v.Secret.SecretName)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				r.c.t.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, m.SubPath)
}

// secret returns what a Secret of the namespace of releases holds.
func (r *release) secret(name string) map[string]string {
	r.c.t.Helper()
	ctx, cancel := brief()
	defer cancel()
	var s corev1.Secret
	if err := r.c.client.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: name}, &s); err != nil {
		r.c.t.Fatal(err)
	}
	files := map[string]string{}
	for file, text := range s.Data {
		files[file] = string(text)
	}
	return files
}

// account writes what the kubelet mounts of a service account.
func (r *release) account(name string) string {
	r.c.t.Helper()
	dir := filepath.Join(r.c.dir, r.chart+"-account")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.c.t.Fatal(err)
	}
	token := r.c.kubectl("-n", releaseNamespace, "create", "token", name, "--duration=24h")
	ca, err := os.ReadFile(r.c.ca.file("ca.crt"))
	if err != nil {
		r.c.t.Fatal(err)
	}
	for file, text := range map[string][]byte{"token": []byte(token), "ca.crt": ca, "namespace": []byte(releaseNamespace)} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			r.c.t.Fatal(err)
		}
	}
	return dir
}

// podObject makes the pod of which the program says that it leads.
func (r *release) podObject(p *podOf) {
	r.c.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: p.name}, Spec: p.spec}
	pod.Spec.Containers[0].VolumeMounts, pod.Spec.Volumes, pod.Spec.NodeName = nil, nil, r.node
	eventually(r.c.t, startLimit, "there is a pod "+p.name, func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := r.c.client.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
}
