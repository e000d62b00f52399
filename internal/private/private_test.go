package private

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// openToAll has new files and folders get every bit that is asked for.
func openToAll(t *testing.T) {
	t.Helper()
	old := unix.Umask(0)
	t.Cleanup(func() { unix.Umask(old) })
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestWhatIsCreatedIsForTheOwnerOnly(t *testing.T) {
	openToAll(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := WriteFile(file, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): FolderMode, dir: FolderMode, file: FileMode} {
		if got := modeOf(t, path); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestOpenFileTightensWhatOthersCanRead(t *testing.T) {
	openToAll(t)
	for was, want := range map[os.FileMode]os.FileMode{0o644: 0o600, 0o666: 0o600, 0o604: 0o600, 0o640: 0o640, 0o660: 0o660, 0o600: 0o600} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("kept"), was); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path, os.O_WRONLY|os.O_APPEND)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := modeOf(t, path); got != want {
			t.Errorf("a file of mode %o has mode %o after it was opened, want %o", was, got, want)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "kept" {
			t.Errorf("mode %o: the content is %q, %v", was, text, err)
		}
	}
}

func TestOpenFileLeavesDevicesAlone(t *testing.T) {
	before := modeOf(t, os.DevNull)
	f, err := OpenFile(os.DevNull, os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := modeOf(t, os.DevNull); got != before {
		t.Errorf("the mode is %o, was %o", got, before)
	}
}
