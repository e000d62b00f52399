package store

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// Meta is what goes before a snapshot's bytes.
type Meta struct {
	Index  uint64 `json:"index"` // of the last entry that it holds, or the revision where there is no own member
	Term   int64  `json:"term"`
	Size   int64  `json:"size"` // bytes of the state
	SHA256 string `json:"sha256"`
	// Created is Unix seconds.
	Created int64 `json:"created"`
}

// Bounds of what restore reads.
const (
	metaBytesMax     = 1 << 20
	snapshotTimeout  = 10 * time.Minute
	metaName         = "meta.json"
	stateName        = "state"
	restoredTokenLen = 16
)

// Snapshot writes etcd's own snapshot into a new file in dir and returns its
// name. The caller removes it.
func (s *Store) Snapshot(ctx context.Context, dir string, term int64) (name string, meta Meta, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	file, err := os.CreateTemp(dir, "snapshot-*.part")
	if err != nil {
		return "", meta, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	defer file.Close()
	got, err := s.client.Get(ctx, keyHead, clientv3.WithKeysOnly()) // what was committed before this call is in the snapshot
	if err != nil {
		return "", meta, err
	}
	index := uint64(got.Header.GetRevision())
	if s.member != nil {
		index = s.member.server.AppliedIndex()
	}
	stream, err := s.client.Snapshot(ctx)
	if err != nil {
		return "", meta, err
	}
	defer stream.Close()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), stream)
	if err != nil {
		return "", meta, err
	}
	meta = Meta{Index: index, Term: term, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Created: time.Now().Unix()}
	return file.Name(), meta, file.Sync()
}

// WriteTar writes a snapshot as a tar of meta.json and state, in this order.
func WriteTar(w io.Writer, meta []byte, size int64, state io.Reader) error {
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Name: metaName, Mode: 0o600, Size: int64(len(meta))}); err != nil {
		return err
	}
	if _, err := t.Write(meta); err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: stateName, Mode: 0o600, Size: size}); err != nil {
		return err
	}
	if _, err := io.Copy(t, state); err != nil {
		return err
	}
	return t.Close()
}

// Restore makes a data folder of a saved snapshot: a tar, or a folder that was
// exported. The member in it is the only one of a new group; others join with
// empty folders. What the data folder held before is replaced.
func Restore(from, dir, replica, peerAdvertise string, secure bool) (Meta, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Meta{}, err
	}
	work, err := os.MkdirTemp(dir, "restore-*.part")
	if err != nil {
		return Meta{}, err
	}
	defer os.RemoveAll(work)
	state := filepath.Join(work, stateName)
	meta, err := unpack(from, state)
	if err != nil {
		return meta, fmt.Errorf("%s: %w", from, err)
	}
	if meta.Index == 0 {
		return meta, fmt.Errorf("%s: the snapshot has index 0, it holds nothing", from)
	}
	token := make([]byte, restoredTokenLen)
	if _, err := rand.Read(token); err != nil {
		return meta, err
	}
	peer := PeerURL(peerAdvertise, secure)
	fresh := filepath.Join(work, "data")
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: state, Name: replica, OutputDataDir: fresh, PeerURLs: []string{peer},
		InitialCluster: replica + "=" + peer, InitialClusterToken: hex.EncodeToString(token),
	})
	if err != nil {
		return meta, fmt.Errorf("%s: %w", from, err)
	}
	old := filepath.Join(dir, "member")
	if err := os.RemoveAll(old); err != nil {
		return meta, err
	}
	return meta, os.Rename(filepath.Join(fresh, "member"), old)
}

// unpack copies the state out of a tar or a folder, and checks it against its
// meta data.
func unpack(from, to string) (Meta, error) {
	info, err := os.Stat(from)
	if err != nil {
		return Meta{}, err
	}
	if info.IsDir() {
		text, err := os.ReadFile(filepath.Join(from, metaName))
		if err != nil {
			return Meta{}, err
		}
		state, err := os.Open(filepath.Join(from, stateName))
		if err != nil {
			return Meta{}, err
		}
		defer state.Close()
		return check(text, state, to)
	}
	file, err := os.Open(from)
	if err != nil {
		return Meta{}, err
	}
	defer file.Close()
	t := tar.NewReader(file)
	h, err := t.Next()
	if err != nil || h.Name != metaName {
		return Meta{}, errors.New("not a snapshot: a tar whose first entry is " + metaName + " is expected")
	}
	text, err := io.ReadAll(io.LimitReader(t, metaBytesMax))
	if err != nil {
		return Meta{}, err
	}
	if h, err = t.Next(); err != nil || h.Name != stateName {
		return Meta{}, errors.New("not a snapshot: its second entry must be " + stateName)
	}
	return check(text, t, to)
}

func check(text []byte, state io.Reader, to string) (Meta, error) {
	var meta Meta
	if err := json.Unmarshal(text, &meta); err != nil {
		return meta, fmt.Errorf("%s: %w", metaName, err)
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return meta, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), state)
	if err != nil {
		return meta, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); size != meta.Size || got != meta.SHA256 {
		return meta, fmt.Errorf("damaged: it holds %d bytes with SHA-256 %s, its meta data says %d and %s", size, got, meta.Size, meta.SHA256)
	}
	return meta, file.Sync()
}
