package kubee2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// documents reads the objects of a file.
func documents(t *testing.T, file string) (out []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o map[string]any
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		if o != nil {
			out = append(out, o)
		}
	}
}

// list writes objects to a file.
func (c *cluster) list(name string, objects []map[string]any) string {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// kubectl runs it as an administrator, and returns what it prints.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	all := append([]string{"--kubeconfig=" + c.ca.file("admin.kubeconfig"), "--cache-dir=" + c.dir}, args...)
	out, err := exec.Command(filepath.Join(c.p.kubernetes, "kubectl"), all...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
