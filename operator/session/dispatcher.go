package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tonnage/tonnage/operator/telemetry"
)

// Limits of what is carried out for the shard.
const (
	workersMax = 32
	// lanesMax is how many machines and hints may have something waiting, and
	// laneJobsMax how much each; a session that is beyond them is begun anew.
	lanesMax    = 1 << 18
	laneJobsMax = 16
	// A job that fails is tried again after retryMin, then twice as late each time.
	retryMin = 250 * time.Millisecond
	retryMax = 15 * time.Second
	// graceSecondsMax keeps a grace representable; nobody waits a year.
	graceSecondsMax = 365 * 24 * 3600
)

var errBehind = errors.New("the cluster is too far behind the shard's messages")

// job is one message to be carried out.
type job struct {
	run func(context.Context) error
	// replaces: a newer job of the same sort makes this one needless.
	replaces bool
}

// lane is what waits for one machine or hint. Its jobs run one after the other.
type lane struct {
	jobs   []job
	active bool // it is in ready, being worked on, or pausing before a retry
	retry  time.Duration
}

// dispatcher carries jobs out: those of one key in their order, others at the
// same time.
type dispatcher struct {
	metrics *telemetry.Metrics
	log     *slog.Logger

	mu    sync.Mutex
	lanes map[string]*lane
	ready []string
	more  *sync.Cond
	ended bool
}

func newDispatcher(m *telemetry.Metrics, log *slog.Logger) *dispatcher {
	d := &dispatcher{metrics: m, log: log, lanes: map[string]*lane{}}
	d.more = sync.NewCond(&d.mu)
	return d
}

// run starts the workers; they end with ctx.
func (d *dispatcher) run(ctx context.Context, wg *sync.WaitGroup) {
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		d.ended = true
		d.mu.Unlock()
		d.more.Broadcast()
	})
	for range workersMax {
		wg.Go(func() { d.worker(ctx) })
	}
}

// add queues a job.
func (d *dispatcher) add(key string, j job) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[key]
	if l == nil {
		if len(d.lanes) == lanesMax {
			return errBehind
		}
		l = &lane{}
		d.lanes[key] = l
	}
	if n := len(l.jobs); n > 0 && j.replaces && l.jobs[n-1].replaces {
		l.jobs[n-1] = j
		return nil
	}
	if len(l.jobs) == laneJobsMax {
		return errBehind
	}
	l.jobs = append(l.jobs, j)
	d.activate(key, l)
	return nil
}

// activate puts a lane in line unless it is already.
func (d *dispatcher) activate(key string, l *lane) {
	if l.active {
		return
	}
	l.active = true
	d.ready = append(d.ready, key)
	d.more.Signal()
}

func (d *dispatcher) worker(ctx context.Context) {
	for {
		key, j, ok := d.take()
		if !ok {
			return
		}
		d.metrics.Inflight(1)
		err := j.run(ctx)
		d.metrics.Inflight(-1)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("a message of the shard could not be carried out and is tried again", "about", key, "error", err)
		}
		d.done(key, j, err)
	}
}

// take waits for a job. It stays out of its lane until done.
func (d *dispatcher) take() (string, job, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.ready) == 0 && !d.ended {
		d.more.Wait()
	}
	if d.ended {
		return "", job{}, false
	}
	key := d.ready[0]
	d.ready = d.ready[1:]
	l := d.lanes[key]
	j := l.jobs[0]
	l.jobs = l.jobs[1:]
	return key, j, true
}

// done lets the lane go on: with the next job, or after a pause with the same.
func (d *dispatcher) done(key string, j job, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lanes[key]
	if err == nil {
		l.active, l.retry = false, 0
		if len(l.jobs) > 0 {
			d.activate(key, l)
		} else {
			delete(d.lanes, key)
		}
		return
	}
	if !j.replaces || len(l.jobs) == 0 || !l.jobs[0].replaces {
		l.jobs = append([]job{j}, l.jobs...)
	}
	l.retry = min(max(2*l.retry, retryMin), retryMax)
	time.AfterFunc(l.retry, func() { // after the end of the session it wakes nobody
		d.mu.Lock()
		defer d.mu.Unlock()
		l.active = false
		d.activate(key, l)
	})
}
