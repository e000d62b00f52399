package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhatIsSavedIsRead, in a folder that is not there yet, for the owner only.
func TestWhatIsSavedIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	c, err := Load(path)
	if err != nil || len(c.Contexts) != 0 {
		t.Fatal(c, err)
	}
	if err := c.Set("lab", Context{"shard": "127.0.0.1:8080", "tls-ca": "ca.pem"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("far", Context{"shard": "https://far:1", "token-file": "/secret/token"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := Load(path)
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Fatalf("%+v, %v; want %+v", again, err, c)
	}
	x, err := again.Get("")
	if err != nil || again.Value(x, "tls-ca") != filepath.Join(filepath.Dir(path), "ca.pem") {
		t.Errorf("%v: %q", err, again.Value(x, "tls-ca"))
	}
	if x, _ := again.Get("far"); again.Value(x, "token-file") != "/secret/token" || again.Value(x, "shard") != "https://far:1" {
		t.Errorf("%v", x)
	}
	if err := again.Use("far"); err != nil || again.Current != "far" {
		t.Error(err)
	}
	if err := again.Delete("far"); err != nil || again.Current != "" {
		t.Error(err, again.Current)
	}
	if err := again.Set("lab", Context{"tls-ca": ""}); err != nil || len(again.Contexts["lab"]) != 1 {
		t.Errorf("%v: %v", err, again.Contexts)
	}
}

func TestFaultsHaveAPlace(t *testing.T) {
	for text, want := range map[string]string{
		"contexts:\n  a:\n    shrad: x\n":   "config.yaml:3:12: contexts.a.shrad: a context has no \"shrad\"; did you mean shard?",
		"contexts:\n  a:\n    colour: x\n":  "it may have shard, shard-addr",
		"current: b\ncontexts:\n  a: {}\n":  "there is no context \"b\"",
		"currrent: b\n":                     "did you mean current?",
		"contexts:\n  a: 7\n":               "contexts.a: must be an object",
		"contexts: [":                       "config.yaml:1:",
		"contexts:\n  a:\n    shard: [1]\n": "contexts.a.shard: must be",
		"contexts:\n  \"a\\u0007b\": {}\n":  "contexts",
	} {
		if _, err := Load(fileWith(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := Load(fileWith(t, strings.Repeat("#", FileBytesMax+1))); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func TestUnknownNames(t *testing.T) {
	c := &Config{Path: "p", Contexts: map[string]Context{}}
	if x, err := c.Get(""); x != nil || err != nil {
		t.Error(x, err)
	}
	if _, err := c.Get("lab"); err == nil || !strings.Contains(err.Error(), "`tonnage context set` makes one") {
		t.Error(err)
	}
	for i := range ContextsMax {
		if err := c.Set(fmt.Sprint("c", i), Context{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set("more", Context{}); err == nil {
		t.Error("there is no bound")
	}
	for _, err := range []error{c.Use("c1x"), c.Delete("c1x")} {
		if err == nil || !strings.Contains(err.Error(), "did you mean c1") {
			t.Error(err)
		}
	}
	if err := c.Set("c0", Context{"shrad": "x"}); err == nil {
		t.Error("an unknown setting is taken")
	}
	if err := c.Set("a\x07", Context{}); err == nil {
		t.Error("a name with a control character is taken")
	}
}
