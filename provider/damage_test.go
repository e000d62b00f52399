package provider_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
	"github.com/tonnage/tonnage/provider/simulated/cloud"
)

// A file of records that was cut off, or that lacks pages, is refused, and takes nobody down.
func TestADamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := parse(t, dir, drivers+early)
	open := func(content []byte) error {
		t.Helper()
		dir := t.TempDir()
		if content != nil {
			if err := os.WriteFile(filepath.Join(dir, provider.FileName), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := provider.Open(provider.Config{Dir: dir, Pools: file, Driver: func(*pools.Driver) (driver.Driver, error) {
			return cloud.Open(cloud.Config{File: filepath.Join(dir, "cloud.db")}, 1, nil)
		}})
		if err != nil {
			return err
		}
		return p.Close()
	}
	whole := t.TempDir()
	p, err := provider.Open(provider.Config{Dir: whole, Pools: file, Driver: func(*pools.Driver) (driver.Driver, error) {
		return cloud.Open(cloud.Config{File: filepath.Join(whole, "cloud.db")}, 1, nil)
	}})
	if err == nil {
		err = p.SetPools(t.Context(), file)
	}
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(whole, provider.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := open(content); err != nil {
		t.Errorf("a whole file: %v", err)
	}
	for _, n := range []int{0, 1, 100, 4096, 8192, 12288, len(content) / 2} {
		if err := open(content[:n]); !errors.Is(err, provider.ErrDamaged) {
			t.Errorf("cut at %d of %d: %v", n, len(content), err)
		}
	}
	refused := 0
	for page := 0; page < len(content); page += 4096 {
		damaged := append([]byte{}, content...)
		clear(damaged[page : page+4096])
		if err := open(damaged); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no page of the file matters")
	}
}
