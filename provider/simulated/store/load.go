package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// load reads the file, or fills a new one.
func (s *Store) load() error {
	isNew := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			isNew = true
			return nil
		}
		if is := meta.Get(keyFormat); string(is) != format {
			return fmt.Errorf("the file has format %q, this program reads %q; give each its own", is, format)
		}
		return s.read(tx)
	})
	if err != nil || !isNew {
		return err
	}
	return s.seed()
}

func (s *Store) config() simulated.Config {
	return simulated.Config{Latencies: s.cfg.Latencies, Seed: s.cfg.Random, Now: s.cfg.Now().UnixNano()}
}

// read takes over what the file holds.
func (s *Store) read(tx *bbolt.Tx) error {
	counters, err := decodeCounters(tx.Bucket(bucketMeta).Get(keyCounters))
	if err != nil {
		return err
	}
	var list wire.List
	var entries []simulated.Entry
	err = tx.Bucket(bucketMachines).ForEach(func(id, value []byte) error {
		e, err := decode(&list, bytes.Clone(value)) // the file's own bytes go with the transaction
		if err == nil && e.Machine.ID != string(id) {
			err = errFormat
		}
		if err != nil {
			return fmt.Errorf("machine %q: %w; restore the file from a copy, or begin with a new one", id, err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return err
	}
	if s.fleet, err = simulated.Restore(s.config(), entries, counters); err != nil {
		return err
	}
	// An older version may have written less of a machine than listings have now.
	s.fleet.Changed(0, func(e *simulated.Entry) bool {
		value, n := appendEntry(nil, e)
		s.set(e, value[:n:n])
		return true
	})
	s.saved = counters
	return tx.Bucket(bucketMarks).ForEach(func(k, v []byte) error {
		return s.fence.Load(k, v)
	})
}

// seed fills a new file. It is only taken for one when it is complete: all of
// it is one transaction.
func (s *Store) seed() error {
	cfg := s.config()
	if s.cfg.Seed != nil {
		for m := range s.cfg.Seed {
			cfg.Machines = append(cfg.Machines, *m)
		}
	}
	var err error
	if s.fleet, err = simulated.New(cfg); err != nil {
		return fmt.Errorf("machines to begin with: %w", err)
	}
	s.seeded = true
	err = s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucketMachines)
		_, err2 := tx.CreateBucket(bucketMarks)
		meta, err3 := tx.CreateBucket(bucketMeta)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		return errors.Join(s.put(tx), meta.Put(keyFormat, []byte(format)))
	})
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(s.cfg.Path))
}

// syncFolder has the names in a folder on disk: a new file is not there after a
// loss of power until its folder is.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// set notes how a machine is listed.
func (s *Store) set(e *simulated.Entry, record []byte) {
	for e.Slot >= len(s.items) {
		s.items = append(s.items, item{})
	}
	x := &s.items[e.Slot]
	if x.record != nil {
		s.machines[x.state]--
	}
	s.machines[e.Machine.State]++
	*x = item{record: record, state: e.Machine.State}
	if e.Machine.State == model.Failed {
		s.planRepair(e.Machine.ID)
	}
}

// put writes what has changed since the last transaction.
func (s *Store) put(tx *bbolt.Tx) error {
	now := s.fleet.Counters()
	machines, marks := tx.Bucket(bucketMachines), tx.Bucket(bucketMarks)
	// Deletions first: a machine that was removed may be there again.
	for _, id := range s.gone {
		if err := machines.Delete([]byte(id)); err != nil {
			return err
		}
	}
	var changed []simulated.Entry
	s.fleet.Changed(s.saved.Revision, func(e *simulated.Entry) bool {
		changed = append(changed, *e)
		return true
	})
	slices.SortFunc(changed, func(a, b simulated.Entry) int { return bytes.Compare([]byte(a.Machine.ID), []byte(b.Machine.ID)) })
	for i := range changed {
		value, n := appendEntry(nil, &changed[i])
		s.set(&changed[i], value[:n:n])
		if err := machines.Put([]byte(changed[i].Machine.ID), value); err != nil {
			return err
		}
	}
	if err := s.fence.Save(marks.Put, marks.Delete); err != nil {
		return err
	}
	if err := tx.Bucket(bucketMeta).Put(keyCounters, encodeCounters(now)); err != nil {
		return err
	}
	s.saved, s.gone = now, s.gone[:0]
	return nil
}
