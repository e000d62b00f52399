package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesAreWhatIsGenerated: nobody edits the assembly by hand.
func TestFilesAreWhatIsGenerated(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Errorf("%d files, want 2", len(files))
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(have, want) {
			t.Errorf("%s is not what the generator writes; make asm writes it anew", name)
		}
	}
}
