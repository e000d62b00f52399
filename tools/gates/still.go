package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// change is one line of the runtime that is written otherwise.
type change struct{ file, from, to, because string }

// stillChanges make a runtime in which nothing happens at random or by the
// clock. Each line must be found exactly once.
var stillChanges = []change{
	{"rand.go", "\tglobalRand.state.Init(*seed)\n", "\t*seed = [32]byte{1}\n\tglobalRand.state.Init(*seed)\n",
		"hashes of maps follow the seed, and with them the steps of a look-up"},
	{"rand.go", "\tv := uint64(nanotime())\n", "\tv := uint64(1)\n",
		"the generator is seeded anew from the clock"},
	{"rand.go", "func maps_rand() uint64 {\n\treturn rand()\n}", "func maps_rand() uint64 {\n\treturn 1\n}",
		"maps draw their seeds from a generator of the thread, and which thread a goroutine is on differs"},
	{"rand.go", "\tmp := getg().m\n\tc := &mp.chacha8\n", "\tif true {\n\t\treturn 1\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n",
		"other tables draw seeds in whatever order threads come"},
	{"proc.go", "const haveSysmon = GOARCH != \"wasm\"\n", "const haveSysmon = false\n",
		"the monitor takes processors from goroutines by the clock"},
	{"mgc.go", "\tgo bgscavenge(c)\n", "\tc <- 1\n",
		"memory is given back by the clock"},
}

// stillRuntime writes the changed files and returns the overlay for the go
// command that puts them in place of the toolchain's.
func stillRuntime(ctx context.Context, root string) (string, error) {
	goroot, err := output(ctx, root, nil, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(goroot), "src", "runtime")
	dir := filepath.Join(workDir(root), "runtime")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, c := range stillChanges {
		text, ok := texts[c.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(source, c.file))
			if err != nil {
				return "", err
			}
			text = string(raw)
		}
		if texts[c.file], err = c.apply(text); err != nil {
			return "", err
		}
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, file+".txt") // no package of this module
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(source, file)] = to
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o644)
}

func (c *change) apply(text string) (string, error) {
	if n := strings.Count(text, c.from); n != 1 {
		return "", fmt.Errorf("runtime/%s of this Go has the line %q %d times, not once (%s); mend stillChanges in tools/gates for it",
			c.file, strings.TrimSpace(c.from), n, c.because)
	}
	return strings.Replace(text, c.from, c.to, 1), nil
}

// toolchain returns Go's version and the target that is built for.
func toolchain(ctx context.Context, root string) (version, target string, err error) {
	out, err := output(ctx, root, nil, "go", "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64")
	if err != nil {
		return "", "", err
	}
	f := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(f) != 4 {
		return "", "", fmt.Errorf("go env said %q", out)
	}
	target = f[1] + "/" + f[2]
	if f[3] != "" {
		target += "/" + f[3]
	}
	return f[0], target, nil
}
