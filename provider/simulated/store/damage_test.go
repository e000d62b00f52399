package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// file returns the file of a store that was closed.
func file(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	s, err := Open(Config{Path: path, Seed: seedOf(40, model.Speculative)})
	if err != nil {
		t.Fatal(err)
	}
	for seq := range int64(5) {
		if _, err := call(s, shard.OpCreate, "m0"+string(rune('0'+seq)), seq+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func openDamaged(t *testing.T, content []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Path: path, Seed: seedOf(40, model.Speculative)})
	if err == nil {
		if s.Seeded() {
			t.Error("a file that was there is filled for the second time")
		}
		return s.Close()
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file: %v", err)
	}
	return err
}

// TestCutOffFileIsRefused: also when nothing is left of it.
func TestCutOffFileIsRefused(t *testing.T) {
	content := file(t)
	for _, n := range []int{0, 1, 100, 4095, 4096, 5000, 8191, 8192, 12288, len(content) / 2, len(content) - 4096, len(content) - 1} {
		if err := openDamaged(t, content[:n]); !errors.Is(err, ErrDamaged) && n < len(content)-4096 {
			t.Errorf("cut at %d of %d: %v", n, len(content), err)
		}
	}
}

// TestPagesOfZerosAreRefused: as a file system leaves them where blocks are lost.
func TestPagesOfZerosAreRefused(t *testing.T) {
	content := file(t)
	inUse := 0
	for page := 4096; page < len(content); page += 4096 {
		damaged := append([]byte{}, content...)
		clear(damaged[page : page+4096])
		if err := openDamaged(t, damaged); errors.Is(err, ErrDamaged) {
			inUse++
		} else if err != nil {
			t.Errorf("zeros at %d: %v", page, err)
		}
	}
	if inUse == 0 {
		t.Error("no page of the file matters")
	}
}
