package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// exportStamp begins the name of each export, so that names sort by age.
const exportStamp = "20060102-150405"

const latestName = "latest"

// Export saves a snapshot as a folder below dir with meta.json and state, lets
// the link "latest" lead to it, and removes all but the newest keep exports.
func (s *Store) Export(ctx context.Context, dir string, term int64, now time.Time, keep int) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	state, meta, err := s.Snapshot(ctx, dir, term)
	if err != nil {
		return "", err
	}
	defer os.Remove(state)
	name := fmt.Sprintf("%s-%d-%d", now.UTC().Format(exportStamp), meta.Term, meta.Index)
	part := filepath.Join(dir, name+".part")
	defer os.RemoveAll(part)
	if err := os.MkdirAll(part, 0o700); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return "", err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(part, metaName), append(text, '\n'), 0o600),
		os.Rename(state, filepath.Join(part, stateName)),
	)
	if err != nil {
		return "", err
	}
	whole := filepath.Join(dir, name)
	// The same second, term and revision: that export holds the same state.
	if err := os.Rename(part, whole); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	link := filepath.Join(dir, latestName)
	_ = os.Remove(link + ".part")
	if err := os.Symlink(name, link+".part"); err != nil {
		return "", err
	}
	if err := os.Rename(link+".part", link); err != nil {
		return "", err
	}
	return whole, prune(dir, keep)
}

// prune removes the oldest exports, and what is left of those that were cut
// short. Other files in the folder are left alone.
func prune(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var exports []string
	for _, e := range entries {
		stamp, _, ok := strings.Cut(e.Name(), "-")
		if !ok || len(stamp) != len("20060102") || !e.IsDir() || strings.HasSuffix(e.Name(), ".part") {
			continue
		}
		if _, err := time.Parse(exportStamp, e.Name()[:min(len(exportStamp), len(e.Name()))]); err == nil {
			exports = append(exports, e.Name())
		}
	}
	slices.Sort(exports)
	for _, name := range exports[:max(0, len(exports)-keep)] {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
