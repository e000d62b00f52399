package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The checker of accessibility, which is fetched as a package of npm and not kept here.
const (
	axePackage = "axe-core@4.10.3"
	axeSum     = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb" // SHA-256 of axe.min.js
	axeLimit   = 2 * time.Minute
)

// axe returns the checker's script. It skips the test where there is none and none can be fetched.
func axe(t *testing.T) string {
	t.Helper()
	kept := filepath.Join(root(t), "build", "axe.min.js")
	body, err := os.ReadFile(kept)
	if err != nil {
		if body, err = fetchAxe(t); err != nil {
			t.Skipf("accessibility is not checked: %s is not there, and cannot be fetched: %v", axePackage, err)
		}
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("%s is not the script of %s; remove it", kept, axePackage)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), os.WriteFile(kept, body, 0o644)); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// fetchAxe has npm fetch the package.
func fetchAxe(t *testing.T) ([]byte, error) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), axeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", axePackage, "--silent", "--ignore-scripts", "--pack-destination", dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: %s", err, strings.TrimSpace(string(out)))
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return nil, fmt.Errorf("npm pack left %d packages: %w", len(packed), err)
	}
	f, err := os.Open(packed[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s has no axe.min.js: %w", axePackage, err)
		}
		if h.Name == "package/axe.min.js" {
			return io.ReadAll(r)
		}
	}
}

// accessible checks what the page shows now. The script comes in by the debugger, so the page's policy stays as
// it is.
func (p *page) accessible(what, script string) {
	p.t.Helper()
	var loaded bool
	if p.must(`typeof axe === 'object'`, &loaded); !loaded {
		p.must(script+`; true`, nil)
	}
	var findings []string
	p.must(`axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.flatMap((v) =>
		v.nodes.slice(0, 3).map((n) => v.id + ': ' + v.help + ': ' + n.target.join(' ') + ': ' + n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? ''))))`, &findings)
	for _, f := range findings {
		p.t.Errorf("%s: %s", what, f)
	}
}
