package epoch

import "github.com/tonnage/tonnage/internal/disk"

// OpenOn is Open on another file system, without a lock.
func OpenOn(fs disk.FS, dir string) (*File, error) {
	f := &File{fs: fs, dir: dir}
	return f, f.advance()
}
