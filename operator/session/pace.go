package session

import (
	"context"
	"fmt"
	"time"
)

const (
	// unansweredMax is how many roll-ups a shard may leave without an answer.
	unansweredMax = 3
	// An early roll-up is asked for when nothing was added for a quietPart of the
	// interval, and an apartPart of it after the one before at the soonest.
	quietPart = 10
	apartPart = 5
)

// pace decides when a roll-up is asked for. One owner.
type pace struct {
	interval time.Duration
	patience time.Duration // with one that is not answered

	due   *time.Timer // the next one of the period
	quiet *time.Timer // nothing was added for a while
	late  *time.Timer // the one under way will not be answered

	ready      bool      // one of the period is due
	early      bool      // one is wanted before
	waiting    bool      // one is under way
	unanswered int       // those of the session
	asked      time.Time // when the last one was asked for
}

func newPace(interval time.Duration) *pace {
	p := &pace{interval: interval, patience: max(2*interval, helloTimeout), due: time.NewTimer(0)}
	p.quiet, p.late = stopped(), stopped()
	return p
}

// stopped is a timer that runs when it is reset.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (p *pace) stop() {
	for _, t := range []*time.Timer{p.due, p.quiet, p.late} {
		t.Stop()
	}
}

// grown notes that the cluster asks for more.
func (p *pace) grown() {
	apart := time.Until(p.asked.Add(p.interval / apartPart))
	p.quiet.Reset(max(p.interval/quietPart, apart))
}

// answered notes that the one under way was acknowledged.
func (p *pace) answered() { p.unanswered, p.waiting = max(p.unanswered-1, 0), false }

// next says what is asked for now. It counts as under way then, and as one that
// holds all that was added before.
func (p *pace) next() (due, error) {
	if p.waiting || !p.ready && !p.early {
		return notDue, nil
	}
	if p.unanswered == unansweredMax {
		return notDue, fmt.Errorf("%d roll-ups were not acknowledged; the shard's log says whether it refused them", p.unanswered)
	}
	d := dueEarly
	if p.ready {
		d = dueNow
		p.due.Reset(p.interval)
	}
	p.unanswered++
	p.ready, p.early, p.waiting, p.asked = false, false, true, time.Now()
	p.quiet.Stop()
	p.late.Reset(p.patience)
	return d, nil
}

// report asks for roll-ups in time.
func (s *live) report(ctx context.Context) error {
	select {
	case <-s.start:
	case <-ctx.Done():
		return nil
	}
	p := newPace(s.cfg.RollupInterval)
	defer p.stop()
	for {
		select {
		case <-p.due.C:
			p.ready = true
		case <-p.quiet.C:
			p.early = true
		case <-s.cfg.Demand.Grown():
			p.grown()
		case <-s.answer:
			p.answered()
		case <-s.spared:
			p.answered() // there is nothing to wait for
		case <-p.late.C:
			p.waiting = false
		case <-ctx.Done():
			return nil
		}
		d, err := p.next()
		if err != nil {
			return err
		}
		if d != notDue {
			s.out.rollup(d)
		}
	}
}
