package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// againMin and againMax are how long a table waits before it lists again after a failure; the
	// wait doubles.
	againMin, againMax = 200 * time.Millisecond, 5 * time.Second
)

// Scope says which objects a table holds.
type Scope struct {
	Resource  schema.GroupVersionResource
	Namespace string // empty = all, or of a kind that has none
	Selector  string // of labels, empty = all
	// MetadataOnly has nothing but the metadata be sent.
	MetadataOnly bool
}

// Table holds a value for each object of a scope. Safe for concurrent use.
type Table[T any] struct {
	endpoint *Endpoint
	scope    Scope
	convert  func(o runtime.Object) (T, error)
	changed  func()

	mu      sync.Mutex
	rows    map[string]T // by namespace/name, or name
	seen    string       // the newest resourceVersion
	synced  bool         // it was listed once
	trouble error        // why it may be behind
	moved   chan struct{}
}

// NewTable returns an empty table. changed is called after each change and must not block; may be nil.
func NewTable[T any](e *Endpoint, s Scope, convert func(o runtime.Object) (T, error), changed func()) *Table[T] {
	if changed == nil {
		changed = func() {}
	}
	return &Table[T]{endpoint: e, scope: s, convert: convert, changed: changed, rows: map[string]T{}, moved: make(chan struct{}), trouble: errNotListed}
}

var errNotListed = errors.New("it was not listed yet")

// Run keeps the table until the context ends.
func (t *Table[T]) Run(ctx context.Context) {
	again := againMin
	for ctx.Err() == nil {
		c, err := t.endpoint.Clients(ctx)
		if err == nil {
			again, err = t.follow(ctx, c, again)
		}
		if err != nil && ctx.Err() == nil {
			t.fail(err)
		}
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		again = min(2*again, againMax)
	}
}

// follow lists and watches with clients of one time, until they are stale or the server fails.
func (t *Table[T]) follow(ctx context.Context, c *Clients, again time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.Stale:
			cancel()
		case <-ctx.Done():
		}
	}()
	reflector := cache.NewReflectorWithOptions(t.source(c), nil, (*store[T])(t), cache.ReflectorOptions{
		Name: t.scope.Resource.String(), TypeDescription: t.scope.Resource.Resource,
	})
	begun := time.Now()
	err := reflector.ListAndWatchWithContext(ctx)
	if time.Since(begun) > againMax {
		again = againMin
	}
	if err != nil {
		err = t.endpoint.Explain(err)
	}
	return again, err
}

// source lists and watches. What the API server has cached may be old, so a list asks for the newest.
func (t *Table[T]) source(c *Clients) *cache.ListWatch {
	fresh := func(o metav1.ListOptions) metav1.ListOptions {
		if o.ResourceVersion == "0" {
			o.ResourceVersion, o.ResourceVersionMatch = "", ""
		}
		o.LabelSelector = t.scope.Selector
		return o
	}
	// What a watch fails with is no error of ListAndWatch when it only could not be begun.
	note := func(w watch.Interface, err error) (watch.Interface, error) {
		if err != nil {
			t.fail(t.endpoint.Explain(err))
		}
		return w, err
	}
	if t.scope.MetadataOnly {
		r := c.Metadata.Resource(t.scope.Resource).Namespace(t.scope.Namespace)
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, fresh(o)) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return note(r.Watch(ctx, fresh(o)))
			},
		}
	}
	r := c.Dynamic.Resource(t.scope.Resource).Namespace(t.scope.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, fresh(o)) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return note(r.Watch(ctx, fresh(o)))
		},
	}
}

func (t *Table[T]) fail(err error) {
	t.mu.Lock()
	t.trouble = fmt.Errorf("%s: %w", t.scope.Resource.Resource, err)
	t.move()
	t.mu.Unlock()
	t.changed()
}

// move wakes the waiting goroutines. The lock is held.
func (t *Table[T]) move() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// Trouble says why the table may be behind, nil = it is not.
func (t *Table[T]) Trouble() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// Synced tells whether the table was listed once.
func (t *Table[T]) Synced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced
}

// Get returns the value of an object; its name, with namespace/ before it where the kind has one.
func (t *Table[T]) Get(key string) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.rows[key]
	return v, ok
}

// Each calls do for every object, in no order, under the table's lock.
func (t *Table[T]) Each(do func(key string, v T)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range t.rows {
		do(k, v)
	}
}

// Await waits until the table has been listed and has seen a write: the resourceVersion that it was answered with, empty = none.
func (t *Table[T]) Await(ctx context.Context, version string) error {
	return t.await(ctx, func() bool { return version == "" || t.reached(version) })
}

// HasSeen tells whether the table has been listed and has seen a write: the resourceVersion that it was answered with.
func (t *Table[T]) HasSeen(version string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced && t.reached(version)
}

// reached tells whether the table is as new as a version. The lock is held.
func (t *Table[T]) reached(version string) bool {
	order, err := resourceversion.CompareResourceVersion(t.seen, version)
	return err == nil && order >= 0
}

// AwaitRow waits until the table has been listed and what it has of an object is as it should be.
func (t *Table[T]) AwaitRow(ctx context.Context, key string, is func(v T, ok bool) bool) error {
	return t.await(ctx, func() bool {
		v, ok := t.rows[key]
		return is(v, ok)
	})
}

func (t *Table[T]) await(ctx context.Context, done func() bool) error {
	for {
		t.mu.Lock()
		if t.synced && done() {
			t.mu.Unlock()
			return nil
		}
		moved, trouble := t.moved, t.trouble
		t.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			if trouble == nil {
				trouble = fmt.Errorf("%s: the watch is behind", t.scope.Resource.Resource)
			}
			return errors.Join(trouble, ctx.Err())
		}
	}
}

// store is a table as a reflector sees it.
type store[T any] Table[T]

// put takes an object over. One that cannot be read counts as none, and is trouble.
func (s *store[T]) put(o any) error {
	object, ok := o.(runtime.Object)
	if !ok {
		return fmt.Errorf("got %T", o)
	}
	key, version, err := identify(object)
	if err != nil {
		return err
	}
	v, err := s.convert(object)
	t := (*Table[T])(s)
	t.mu.Lock()
	if t.advance(version); err == nil {
		t.rows[key] = v
		t.trouble = nil
	} else {
		t.trouble = fmt.Errorf("%s %s: %w", t.scope.Resource.Resource, key, err)
	}
	t.mu.Unlock()
	t.changed()
	return nil
}

func (s *store[T]) Add(o any) error    { return s.put(o) }
func (s *store[T]) Update(o any) error { return s.put(o) }

func (s *store[T]) Delete(o any) error {
	object, ok := o.(runtime.Object)
	if !ok {
		return fmt.Errorf("got %T", o)
	}
	key, version, err := identify(object)
	if err != nil {
		return err
	}
	t := (*Table[T])(s)
	t.mu.Lock()
	delete(t.rows, key)
	t.advance(version)
	t.mu.Unlock()
	t.changed()
	return nil
}

func (s *store[T]) Replace(all []any, version string) error {
	rows := make(map[string]T, len(all))
	var faults []error
	for _, o := range all {
		object, ok := o.(runtime.Object)
		if !ok {
			return fmt.Errorf("got %T", o)
		}
		key, _, err := identify(object)
		if err != nil {
			return err
		}
		v, err := s.convert(object)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
			continue
		}
		rows[key] = v
	}
	t := (*Table[T])(s)
	t.mu.Lock()
	t.rows, t.synced, t.trouble = rows, true, nil
	if len(faults) > 0 {
		t.trouble = fmt.Errorf("%s: %w", t.scope.Resource.Resource, errors.Join(faults...))
	}
	t.advance(version)
	t.mu.Unlock()
	t.changed()
	return nil
}

func (s *store[T]) Resync() error { return nil }

// Bookmark takes over that nothing has changed up to a version.
func (s *store[T]) Bookmark(version string) error {
	s.UpdateResourceVersion(version)
	return nil
}

// UpdateResourceVersion does the same.
func (s *store[T]) UpdateResourceVersion(version string) {
	t := (*Table[T])(s)
	t.mu.Lock()
	t.advance(version)
	t.mu.Unlock()
}

// advance notes a version, and wakes the waiting goroutines. The lock is
// held.
func (t *Table[T]) advance(version string) {
	if order, err := resourceversion.CompareResourceVersion(version, t.seen); t.seen == "" || err != nil || order > 0 {
		t.seen = version
	}
	t.move()
}

// identify returns an object's key and version.
func identify(o runtime.Object) (key, version string, err error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return "", "", err
	}
	return Key(m.GetNamespace(), m.GetName()), m.GetResourceVersion(), nil
}

// Key is what an object is called in a table.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Into reads an object of the dynamic client into a typed one.
func Into[T any](o runtime.Object) (*T, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("got %T", o)
	}
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}
