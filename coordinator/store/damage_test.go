package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/coordinator/store"
)

// TestEmptyWALIsRefused: with an error that names the file and what to do.
func TestEmptyWALIsRefused(t *testing.T) {
	dir, peer := t.TempDir(), freeAddress(t)
	s := open(t, dir, peer)
	claim(t, s)
	s.Close()
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for name, size := range map[string]int64{"empty": 0, "zeros": 64 << 10, "cut off in the first record": 3} {
		if err := errors.Join(os.Truncate(files[0], 0), os.Truncate(files[0], size)); err != nil {
			t.Fatal(err)
		}
		_, err := store.OpenMember(t.Context(), store.MemberConfig{Replica: "c-0", Dir: dir, PeerListen: peer, PeerAdvertise: peer, Address: "here:1"})
		if !errors.Is(err, store.ErrWAL) || !strings.Contains(err.Error(), files[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
