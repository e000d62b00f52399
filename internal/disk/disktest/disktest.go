// Package disktest is a file system in memory that remembers every change, so that
// a test can ask what a crash at any moment could have left on the disk.
//
// # The model
//
// Each file and each folder has a list of changes of its own: writes and truncations of
// a file, names of a folder. A sync makes all changes of its object durable. A
// crash keeps the durable changes of each object, and any prefix of those behind
// them; of a write also any prefix of its bytes. Objects are independent: a name
// may be durable before the content that it leads to.
package disktest

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tonnage/tonnage/internal/disk"
)

// FS is a disk.FS in memory. Every folder is there. Safe for concurrent use.
type FS struct {
	mu      sync.Mutex
	objects []object
	names   map[string]int // path → file
	dirs    map[string]int // path → folder
	steps   []step
	full    bool
}

// object is a file or a folder.
type object struct {
	content []byte
	changes []change
	isDir   bool
}

// change is one change of an object.
type change struct {
	write  []byte // of a file: appended
	size   int    // of a file without write: truncated to it
	remove string // of a folder: a name that goes
	add    string // of a folder: a name that leads to file
	file   int
}

// step is a change of an object or, when it is a sync, the end of its changes.
type step struct {
	object int
	sync   bool
}

// New returns an empty file system.
func New() *FS { return &FS{names: map[string]int{}, dirs: map[string]int{}} }

// SetFull lets every write fail from now on, or no longer.
func (f *FS) SetFull(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

// Put places a file that is durable, as if it had been there before.
func (f *FS) Put(path string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.create(path)
	f.change(at, change{write: slices.Clone(content)})
	f.sync(at)
	f.sync(f.dir(filepath.Dir(path)))
}

// Files returns the contents of all files by path.
func (f *FS) Files() map[string][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]byte{}
	for path, at := range f.names {
		out[path] = slices.Clone(f.objects[at].content)
	}
	return out
}

// Steps returns the number of changes and syncs so far.
func (f *FS) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.steps)
}

// Moments returns the numbers of steps after which to crash: before each sync, and at
// the end. What a crash at any other moment leaves, one at the next of these leaves
// too.
func (f *FS) Moments() (out []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.steps {
		if s.sync && (i == 0 || !f.steps[i-1].sync) {
			out = append(out, i)
		}
	}
	return append(out, len(f.steps))
}

// ReadFile is disk.FS's.
func (f *FS) ReadFile(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.names[path]
	if !ok {
		return nil, missing("read", path)
	}
	return slices.Clone(f.objects[at].content), nil
}

func missing(op, path string) error {
	return &os.PathError{Op: op, Path: path, Err: os.ErrNotExist}
}

// Append is disk.FS's.
func (f *FS) Append(path string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.names[path]
	if !ok {
		at = f.create(path)
	}
	return &file{fs: f, at: at}, nil
}

// Create is disk.FS's.
func (f *FS) Create(path string) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.names[path]
	if ok {
		f.change(at, change{})
	} else {
		at = f.create(path)
	}
	return &file{fs: f, at: at}, nil
}

// Rename is disk.FS's, within a folder.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.names[from]
	if !ok {
		return missing("rename", from)
	}
	delete(f.names, from)
	f.names[to] = at
	f.change(f.dir(filepath.Dir(to)), change{remove: from, add: to, file: at})
	return nil
}

// Remove is disk.FS's.
func (f *FS) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.names[path]; !ok {
		return missing("remove", path)
	}
	delete(f.names, path)
	f.change(f.dir(filepath.Dir(path)), change{remove: path})
	return nil
}

// Names is disk.FS's.
func (f *FS) Names(dir string) (out []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path := range f.names {
		if filepath.Dir(path) == dir {
			out = append(out, filepath.Base(path))
		}
	}
	return out, nil
}

// SyncDir is disk.FS's.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sync(f.dir(dir))
	return nil
}

func (f *FS) create(path string) int {
	at := len(f.objects)
	f.objects = append(f.objects, object{})
	f.names[path] = at
	f.change(f.dir(filepath.Dir(path)), change{add: path, file: at})
	return at
}

func (f *FS) dir(path string) int {
	at, ok := f.dirs[path]
	if !ok {
		at = len(f.objects)
		f.objects = append(f.objects, object{isDir: true})
		f.dirs[path] = at
	}
	return at
}

func (f *FS) change(at int, c change) {
	o := &f.objects[at]
	o.changes = append(o.changes, c)
	if !o.isDir {
		o.content = c.applied(o.content)
	}
	f.steps = append(f.steps, step{object: at})
}

func (f *FS) sync(at int) { f.steps = append(f.steps, step{object: at, sync: true}) }

// applied returns the content of a file after a change.
func (c change) applied(content []byte) []byte {
	if c.write != nil {
		return append(content, c.write...)
	}
	return content[:min(c.size, len(content))]
}

// file is an open file.
type file struct {
	fs *FS
	at int
}

func (w *file) Write(b []byte) (int, error) {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	if w.fs.full {
		return 0, fmt.Errorf("no space left")
	}
	w.fs.change(w.at, change{write: append([]byte{}, b...)})
	return len(b), nil
}

func (w *file) Truncate(size int64) error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	if int(size) < len(w.fs.objects[w.at].content) {
		w.fs.change(w.at, change{size: int(size)})
	}
	return nil
}

func (w *file) Sync() error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	w.fs.sync(w.at)
	return nil
}

func (w *file) Close() error { return nil }

// kept is how much of an object's changes a crash leaves.
type kept struct{ changes, bytes int } // bytes of the change behind them

// Crashes yields all that a crash after so many steps can leave, each as a new file
// system and a description of it.
func (f *FS) Crashes(steps int) iter.Seq2[string, *FS] {
	f.mu.Lock()
	defer f.mu.Unlock()
	done, durable := make([]int, len(f.objects)), make([]int, len(f.objects))
	for _, s := range f.steps[:steps] {
		if s.sync {
			durable[s.object] = done[s.object]
		} else {
			done[s.object]++
		}
	}
	var choices [][]kept // by object
	for at := range f.objects {
		var some []kept
		for n := durable[at]; n <= done[at]; n++ {
			some = append(some, kept{changes: n})
			if n < done[at] {
				for b := 1; b < len(f.objects[at].changes[n].write); b++ {
					some = append(some, kept{n, b})
				}
			}
		}
		choices = append(choices, some)
	}
	objects := slices.Clone(f.objects)
	return func(yield func(string, *FS) bool) {
		for pick := range product(choices) {
			if !yield(fmt.Sprintf("crash after %d steps, kept %v", steps, pick), left(objects, pick)) {
				return
			}
		}
	}
}

// product yields every way to take one of each.
func product(choices [][]kept) iter.Seq[[]kept] {
	return func(yield func([]kept) bool) {
		at := make([]int, len(choices))
		for {
			pick := make([]kept, len(choices))
			for i, c := range choices {
				pick[i] = c[at[i]]
			}
			if !yield(pick) {
				return
			}
			i := 0
			for i < len(at) {
				if at[i]++; at[i] < len(choices[i]) {
					break
				}
				at[i] = 0
				i++
			}
			if i == len(at) {
				return
			}
		}
	}
}

// left builds what a crash leaves.
func left(objects []object, pick []kept) *FS {
	out := New()
	names := map[string]int{}
	for at, o := range objects {
		if !o.isDir {
			continue
		}
		for _, c := range o.changes[:pick[at].changes] {
			delete(names, c.remove)
			if c.add != "" {
				names[c.add] = c.file
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		o, k := objects[names[path]], pick[names[path]]
		var content []byte
		for _, c := range o.changes[:k.changes] {
			content = c.applied(content)
		}
		if k.bytes > 0 {
			content = append(content, o.changes[k.changes].write[:k.bytes]...)
		}
		out.Put(path, content)
	}
	return out
}

// Flips yields the file system with each single bit of a file turned.
func (f *FS) Flips(path string) iter.Seq2[string, *FS] {
	files := f.Files()
	return func(yield func(string, *FS) bool) {
		for bit := range 8 * len(files[path]) {
			out := New()
			for name, content := range files {
				content = slices.Clone(content)
				if name == path {
					content[bit/8] ^= 1 << (bit % 8)
				}
				out.Put(name, content)
			}
			if !yield(fmt.Sprintf("bit %d of byte %d of %s", bit%8, bit/8, strings.TrimPrefix(path, "/")), out) {
				return
			}
		}
	}
}
