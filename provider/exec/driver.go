package exec

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
)

// Driver runs commands; see the package's essay. Safe for concurrent use.
type Driver struct {
	settings *Settings
	log      *slog.Logger
	slots    chan struct{} // taken by each command but observe
	env      []string
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Checker = (*Driver)(nil)
)

// New returns a driver. It writes one line to log for each command that was run.
func New(s *Settings, log *slog.Logger) *Driver {
	d := &Driver{settings: s, log: log, slots: make(chan struct{}, s.Concurrency)}
	for name, value := range s.Env {
		d.env = append(d.env, name+"="+value)
	}
	return d
}

// Check refuses a template that is no JSON object. It needs nothing of the driver, which may be nil.
func (d *Driver) Check(o *driver.Offer, _ driver.PoolTraits) error {
	if len(o.Template) == 0 {
		return nil
	}
	err := parseObject(o.Template, func(r *document.Reader, n *document.Node) {
		r.OptionalMap(n, func(string, *document.Node) {})
	})
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	return nil
}

// Create runs create.
func (d *Driver) Create(ctx context.Context, m *driver.Machine, o driver.Owner) error {
	return d.changeWithRecord(ctx, verbCreate, m, &driver.Binding{Owner: o})
}

// Configure runs configure.
func (d *Driver) Configure(ctx context.Context, m *driver.Machine, b *driver.Binding) error {
	return d.changeWithRecord(ctx, verbConfigure, m, b,
		field{"cluster", b.Cluster, "CLUSTER"},
		field{"bootstrap", base64.StdEncoding.EncodeToString(b.Blob), ""},
	)
}

// Drain runs drain.
func (d *Driver) Drain(ctx context.Context, m *driver.Machine, deadline time.Time) error {
	return d.change(ctx, newRequest(verbDrain, m, deadlineFields(deadline, time.Now())...))
}

// Delete runs delete.
func (d *Driver) Delete(ctx context.Context, m *driver.Machine) error {
	return d.change(ctx, newRequest(verbDelete, m))
}

// changeWithRecord runs a verb after which the machine has another record.
func (d *Driver) changeWithRecord(ctx context.Context, verb string, m *driver.Machine, b *driver.Binding, more ...field) error {
	text, err := recordOf(m, b)
	if err != nil {
		return fmt.Errorf("%s: record: %w: %w", verb, driver.ErrPermanent, err)
	}
	return d.change(ctx, newRequest(verb, m, append([]field{{"shard", b.Shard, "SHARD"}, {"record", text, ""}}, more...)...))
}

// change runs a command that changes a machine.
func (d *Driver) change(ctx context.Context, q *request) error {
	argv := d.settings.Commands[q.verb]
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %s: %d commands run already: %w", argv[0], q.verb, cap(d.slots), ctx.Err())
	}
	o, err := d.run(ctx, q, AnswerBytesMax)
	if err != nil {
		return err
	}
	reason := o.last
	if o.code >= 0 {
		said, err := parseAnswer(o.out)
		if err != nil && o.err == nil {
			o.err = fmt.Errorf("answer: %w", err)
		} else if said != "" {
			reason = said
		}
	}
	d.note(q, &o, reason)
	if o.err == nil {
		return nil
	}
	if reason != "" {
		o.err = fmt.Errorf("%s (%w)", reason, o.err)
	}
	switch o.code {
	case ExitOutOfStock:
		o.err = fmt.Errorf("%w: %w", driver.ErrOutOfStock, o.err)
	case ExitPermanent:
		o.err = fmt.Errorf("%w: %w", driver.ErrPermanent, o.err)
	}
	return fmt.Errorf("%s: %s: %w", argv[0], q.verb, o.err)
}

// Observe runs observe.
func (d *Driver) Observe(ctx context.Context, yield func(*driver.Observation)) error {
	q := observeRequest()
	o, err := d.run(ctx, q, ObservedBytesMax)
	if err != nil {
		return err
	}
	// What a command wrote before it failed counts as far as its last whole line.
	said := parseObserved(o.out[:bytes.LastIndexByte(o.out, '\n')+1], yield)
	if o.err == nil && len(o.out) > 0 && o.out[len(o.out)-1] != '\n' {
		said = errors.Join(said, errors.New("the last line does not end; each ends with a newline"))
	}
	if o.err == nil && said != nil {
		o.err = fmt.Errorf("answer: %w", said)
	}
	d.note(q, &o, o.last)
	if o.err == nil {
		return nil
	}
	if o.last != "" && o.code != 0 {
		o.err = fmt.Errorf("%s (%w)", o.last, o.err)
	}
	return fmt.Errorf("%s: %s: %w", d.settings.Commands[q.verb][0], q.verb, o.err)
}

// run runs the command of a request.
func (d *Driver) run(ctx context.Context, q *request, outMax int) (outcome, error) {
	in, err := q.encode()
	argv := d.settings.Commands[q.verb]
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %s: %w: %w", argv[0], q.verb, driver.ErrPermanent, err)
	}
	argv = slices.Concat(argv, []string{q.verb})
	return run(ctx, argv, slices.Concat(d.env, q.variables()), in, d.settings.Timeouts[q.verb], outMax), nil
}

// note logs a command that has ended. A look that went well is nothing new.
func (d *Driver) note(q *request, o *outcome, reason string) {
	level := slog.LevelInfo
	switch {
	case o.err != nil:
		level = slog.LevelWarn
	case q.machine == nil:
		level = slog.LevelDebug
	}
	fields := []any{"command", d.settings.Commands[q.verb][0], "verb", q.verb}
	if q.machine != nil {
		fields = append(fields, "machine", q.machine.ID, "generation", q.machine.Generation)
	}
	fields = append(fields, "seconds", o.took.Seconds(), "exit", o.code)
	if reason != "" {
		fields = append(fields, "said", reason)
	}
	if o.err != nil {
		fields = append(fields, "error", oneLine(o.err.Error()))
	}
	d.log.Log(context.Background(), level, "command", fields...)
}
