package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/boltfile"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

const (
	// FileName is the file of the records in the data folder.
	FileName = "records.db"
	// batchMax is how many changes share one transaction of the file.
	batchMax = 512
	// queueMax is how many changes wait for the writer; more wait for a place.
	queueMax = 4 * batchMax
	// ParallelMax is how many verbs of one driver run at a time.
	ParallelMax = 32
	// slotKeptFor is how long a slot that was a machine stays when there are enough without it, so
	// that repeats of the Delete are answered.
	slotKeptFor = time.Minute
)

var (
	// ErrInUse is returned for a file that another process has open.
	ErrInUse = boltfile.ErrInUse
	// ErrDamaged is returned for a file that is not what was written to it.
	ErrDamaged = boltfile.ErrDamaged

	errOlder = errors.New("the records are not those that were used last")
)

// olderSuffix is behind the name of a file of records that was set aside.
const olderSuffix = ".older"

// Config is what a provider is opened with.
type Config struct {
	Dir   string // of the file
	Pools *pools.File
	// Last names the records that were used last, by whatever process; see Name. Other ones in the folder are
	// older: they are set aside, and machines are found again from what exists. Empty = the folder's are the last.
	Last string
	// Driver makes the driver of an entry of the pools file; called once for each name.
	Driver func(*pools.Driver) (driver.Driver, error)
	Log    *slog.Logger
	Now    func() time.Time // nil = the wall clock
	// Every is how often each driver is observed, Least how long it is left alone
	// after a round, whatever happens; 0 = the defaults.
	Every, Least time.Duration
}

// The defaults of Config. A machine that is lost is missed in two rounds.
const (
	EveryDefault = 3 * time.Second
	LeastDefault = 500 * time.Millisecond
)

// ErrDriver is wrapped by errors of Open and SetPools that say why a driver cannot be opened.
var ErrDriver = errors.New("driver")

// Provider keeps records and drives machines. It is a calls.Backend. Safe for concurrent use.
type Provider struct {
	cfg  Config
	log  *slog.Logger
	db   *bbolt.DB
	jobs chan *job
	stop chan struct{}
	done chan struct{} // closed when the writer has ended
	// started tells Run of drivers that were added.
	started chan *hand

	mu      sync.RWMutex
	books   books
	newest  bool // nobody has newer records: no id that these give is taken
	table   *table
	fence   *calls.Fence
	file    *pools.File
	quotas  map[string]*pools.Quota
	offers  map[driver.Key]*offer
	alike   map[template]*alike
	account account
	hands   map[string]*hand // by name of the driver
	pending pending
	fault   error
	stats   stats
}

var _ calls.Backend = (*Provider)(nil)

// books are the counters of the file.
type books struct {
	Format    string
	Nonce     string // in ids, drawn when the file was made
	Sequence  uint64 // of the newest id
	Operation uint64 // of the newest operation
	// Observed are the drivers that were observed since the file was made, completely or but for the clusters in Unlisted,
	// by driver: those were never listed since.
	Observed map[string]bool     `json:",omitempty"`
	Unlisted map[string][]string `json:",omitempty"`
}

// pending is what the file does not have yet.
type pending struct {
	rows    map[string]bool // records, by id
	blobs   map[string]bool
	books   bool
	account bool // limits are to be looked at again
}

// Open opens the records of a folder, or begins new ones, and starts the writer. Call Run
// to have drivers work. The error wraps ErrInUse when another process has them.
func Open(cfg Config) (*Provider, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = EveryDefault
	}
	if cfg.Least == 0 {
		cfg.Least = LeastDefault
	}
	p, err := open(cfg)
	if errors.Is(err, errOlder) {
		path := filepath.Join(cfg.Dir, FileName)
		if err := os.Rename(path, path+olderSuffix); err != nil {
			return nil, fmt.Errorf("provider records: %w", err)
		}
		cfg.Log.Warn("another process has worked since these records were used: they are set aside, and machines are found again from what exists", "file", path+olderSuffix)
		return open(cfg)
	}
	return p, err
}

// Name returns the name of the records, which is drawn when their file is made.
func (p *Provider) Name() string { return p.books.Nonce }

// open opens the records as they are, or returns errOlder.
func open(cfg Config) (*Provider, error) {
	path := filepath.Join(cfg.Dir, FileName)
	db, err := boltfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("provider records %s: %w", path, err)
	}
	p := &Provider{
		cfg: cfg, log: cfg.Log, db: db, jobs: make(chan *job, queueMax), stop: make(chan struct{}), done: make(chan struct{}),
		started: make(chan *hand, pools.DriversMax),
		fence:   calls.NewFence(), offers: map[driver.Key]*offer{}, alike: map[template]*alike{}, hands: map[string]*hand{},
		pending: pending{rows: map[string]bool{}, blobs: map[string]bool{}},
	}
	p.stats.init()
	if err := boltfile.Readable(p.load); err != nil {
		return nil, errors.Join(fmt.Errorf("provider records %s: %w", path, err), db.Close())
	}
	if err := p.takePools(cfg.Pools); err != nil {
		return nil, errors.Join(err, p.closeDrivers(), db.Close())
	}
	go p.write()
	return p, nil
}

// Close ends the writer, closes drivers that can be, and the file. Run must have ended. It returns why
// the file broke, if it did.
func (p *Provider) Close() error {
	p.mu.Lock()
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.mu.Unlock()
	<-p.done
	p.mu.RLock()
	defer p.mu.RUnlock()
	return errors.Join(p.fault, p.closeDrivers(), p.db.Close())
}

func (p *Provider) closeDrivers() error {
	var all []error
	for _, h := range p.hands {
		if c, ok := h.driver.(driver.Closer); ok {
			all = append(all, c.Close())
		}
	}
	return errors.Join(all...)
}

// Done is closed when the writer has ended, be it that the file broke.
func (p *Provider) Done() <-chan struct{} { return p.done }

// Len returns how many machines and slots there are.
func (p *Provider) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.table.byID)
}

// Ready returns an error while the records may lack machines of any cluster: a driver has not been observed since their file
// was made. One that cannot be observed now does not count, nor do clusters that a driver could not see, since shards could
// not reach the machines of the others.
func (p *Provider) Ready() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, h := range p.hands {
		if !p.books.Observed[name] {
			return fmt.Errorf("driver %q has not said yet what exists%s", name, because(h.trouble))
		}
	}
	return nil
}

func because(trouble string) string {
	if trouble == "" {
		return ""
	}
	return ": " + trouble
}

// SetPools takes a new pools file over. The error says why it was not; nothing has changed then.
func (p *Provider) SetPools(ctx context.Context, f *pools.File) error {
	return p.submit(ctx, func() error { return p.takePools(f) })
}

// takePools takes a pools file over: new drivers begin, offers change, and those that are gone end
// with their last machine.
func (p *Provider) takePools(f *pools.File) error {
	fresh := map[string]*hand{}
	for i := range f.Drivers {
		d := &f.Drivers[i]
		switch h := p.hands[d.Name]; {
		case h != nil && (h.spec.Kind != d.Kind || string(h.spec.Config) != string(d.Config)):
			return fmt.Errorf("driver %q has another kind or config than it was started with; that takes a restart", d.Name)
		case h == nil:
			made, err := p.cfg.Driver(d)
			if err != nil {
				return fmt.Errorf("%w %q: %w", ErrDriver, d.Name, err)
			}
			fresh[d.Name] = newHand(d, made)
		}
	}
	for name, h := range fresh {
		p.hands[name] = h
		p.started <- h
	}
	for i := range f.Drivers {
		p.hands[f.Drivers[i].Name].pace(&f.Drivers[i])
	}
	p.file, p.quotas = f, map[string]*pools.Quota{}
	for i := range f.Quotas {
		p.quotas[f.Quotas[i].Name] = &f.Quotas[i]
	}
	kept, changed := map[driver.Key]bool{}, map[*offer]bool{}
	for i := range f.Pools {
		for _, o := range f.Pools[i].Offers {
			kept[o.Key] = true
			if p.setOffer(o, &f.Pools[i]) {
				changed[p.offers[o.Key]] = true
			}
		}
	}
	for key, o := range p.offers {
		if !kept[key] && o.pool != nil {
			o.pool, o.dirty = nil, true
		}
	}
	for _, i := range p.table.kept {
		if x := &p.table.rows[i]; !x.rec.free() && changed[x.offer] {
			p.table.relist(i, p.table.state(x))
		}
	}
	p.recount()
	p.settle()
	return nil
}

// setOffer takes over what the pools file says of an offer, and tells whether that is new. The records
// of its slots are made anew; those of its machines are the caller's.
func (p *Provider) setOffer(spec *driver.Offer, pool *pools.Pool) bool {
	o := p.offers[spec.Key]
	if o == nil {
		o = &offer{}
		p.offers[spec.Key] = o
	}
	asBefore := sameOffer(&o.Offer, spec) // also when the file has it from a process before
	if o.Template != nil && !bytes.Equal(o.Template, spec.Template) {
		delete(p.alike, o.template())
	}
	same := o.pool != nil && asBefore && o.pool.LateBound == pool.LateBound
	o.Offer, o.pool = *spec, pool
	if same {
		return false
	}
	if !asBefore { // what was learnt is of other machines
		o.real = nil
	}
	o.dirty = true
	was := p.freeStates(o)
	if o.stock.failures > 0 { // what failed is not what is offered now
		o.stock = stock{}
	}
	o.writeBodies()
	p.relistFree(o, was)
	return true
}

// freeStates returns what the slots of an offer are listed as.
func (p *Provider) freeStates(o *offer) []model.State {
	was := make([]model.State, len(o.free))
	for k, i := range o.free {
		was[k] = p.table.state(&p.table.rows[i])
	}
	return was
}

// relistFree makes the records of an offer's slots anew.
func (p *Provider) relistFree(o *offer, was []model.State) {
	for k, i := range o.free {
		p.table.relist(i, was[k])
	}
}

// recount adds up all machines anew, after quotas or pools have changed.
func (p *Provider) recount() {
	p.account = account{pools: map[string]int{}, quotas: map[string]*balance{}}
	for _, o := range p.offers {
		o.used = 0
	}
	for _, i := range p.table.kept {
		if x := &p.table.rows[i]; x.rec.used() {
			p.account.charge(x.offer, 1)
		}
	}
}
