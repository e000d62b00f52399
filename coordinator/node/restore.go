package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/tonnage/tonnage/coordinator/store"
)

// Restore makes the data folder of a stopped replica anew from a snapshot; see
// store.Restore. It returns one line that says what was restored.
func Restore(from, dir, id, raftAdvertise string, secure bool) (string, error) {
	if host, _, err := net.SplitHostPort(raftAdvertise); err != nil || host == "" {
		return "", fmt.Errorf("--raft-advertise must be the host:port that other replicas will reach, got %q", raftAdvertise)
	}
	meta, err := store.Restore(from, dir, id, raftAdvertise, secure)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("restored index %d of term %d, %d bytes; start this replica with --id %s --data-dir %s, and the others with empty folders and --join-addr",
		meta.Index, meta.Term, meta.Size, id, dir), nil
}

// WriteSnapshot writes a snapshot that comes in chunks as a tar; read returns
// io.EOF after the last. What is written is checked against the meta data.
func WriteSnapshot(w io.Writer, metaJSON []byte, read func() ([]byte, error)) error {
	var meta store.Meta
	if err := json.Unmarshal(metaJSON, &meta); err != nil {
		return fmt.Errorf("the meta data of the snapshot: %w", err)
	}
	from := &chunks{read: read}
	if err := store.WriteTar(w, metaJSON, meta.Size, from); err != nil {
		return fmt.Errorf("the snapshot was cut short: %w", err)
	}
	if n, err := from.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("the snapshot was cut short, or is longer than its meta data says: %w", err)
	}
	return nil
}

// chunks reads a stream of messages as bytes.
type chunks struct {
	read func() ([]byte, error)
	rest []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		next, err := c.read()
		if err != nil {
			return 0, err
		}
		c.rest = next
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
