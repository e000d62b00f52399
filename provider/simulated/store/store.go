package store

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/boltfile"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/simulated"
)

const (
	// BatchMax is how many calls share one transaction of the file.
	BatchMax = 512
	// queueMax is how many calls wait for the writer; more wait for a place.
	queueMax = 4 * BatchMax
	// timerMax is how long the writer sleeps at most.
	timerMax = time.Hour
)

var (
	// ErrInUse is returned for a file that another process has open.
	ErrInUse = boltfile.ErrInUse
	// ErrDamaged is returned for a file that is not what was written to it.
	ErrDamaged = boltfile.ErrDamaged
)

// Config is what a store is opened with.
type Config struct {
	Path string // of the file; it is created
	// Seed yields the machines of a new store; nil = none. A store that exists
	// does not read it.
	Seed      iter.Seq[*model.Machine]
	Latencies simulated.Latencies
	// Random is the seed of everything that is drawn.
	Random uint64
	// RepairAfter is how long a machine stays Failed before it is whole again;
	// 0 = for ever.
	RepairAfter time.Duration
	Now         func() time.Time
}

// item is a machine as listings carry it.
type item struct {
	record []byte // wire.AppendRecord's; never changed, only replaced
	state  model.State
}

// Store is a fleet and its file. Safe for concurrent use.
type Store struct {
	cfg  Config
	db   *bbolt.DB
	jobs chan *job
	stop chan struct{}
	done chan struct{} // closed when the writer has ended

	mu       sync.RWMutex
	fleet    *simulated.Fleet
	items    []item // by slot
	machines [model.NumStates]int
	saved    simulated.Counters
	fence    *calls.Fence
	gone     []string // machines to be taken out of the file
	repairs  []repair // by time
	fault    error
	stats    calls.Stats
	seeded   bool // the file is new
}

// Open opens a store, or makes a new one with the seed's machines, and starts
// its writer. The error names the file, and says what is wrong with it.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	db, err := boltfile.Open(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("provider store %s: %w", cfg.Path, err)
	}
	s := &Store{
		cfg: cfg, db: db, jobs: make(chan *job, queueMax), stop: make(chan struct{}), done: make(chan struct{}),
		fence: calls.NewFence(),
	}
	if err := boltfile.Readable(s.load); err != nil {
		db.Close()
		return nil, fmt.Errorf("provider store %s: %w", cfg.Path, err)
	}
	go s.write()
	return s, nil
}

// Close ends the writer after the transaction under way, and closes the file.
// Calls that wait are refused. It returns why the store broke, if it did.
func (s *Store) Close() error {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.done
	s.mu.RLock()
	defer s.mu.RUnlock()
	return errors.Join(s.fault, s.db.Close())
}

// Done is closed when the store answers nothing any more: it was closed, or its
// file cannot be written.
func (s *Store) Done() <-chan struct{} { return s.done }

// Len returns the number of machines.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fleet.Len()
}

// States returns the number of machines in each state.
func (s *Store) States() [model.NumStates]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines
}

// Stats returns what the writer did so far.
func (s *Store) Stats() calls.Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := s.stats
	out.Tokens = s.fence.Len()
	return out
}

// Seeded tells whether the file is new, and its machines are those of the seed.
func (s *Store) Seeded() bool { return s.seeded }

var _ calls.Backend = (*Store)(nil)
