package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/world"
)

func TestProgressOfReadingAWorld(t *testing.T) {
	var out bytes.Buffer
	p := &console{out: &out}
	if n, err := io.Copy(io.Discard, &countedReader{in: strings.NewReader(strings.Repeat("x", 3<<20)), progress: p}); n != 3<<20 || err != nil {
		t.Fatal(n, err)
	}
	if got := out.String(); !strings.HasPrefix(got, "reading the world of the shard: 0 MiB\n") {
		t.Errorf("said %q", got)
	}
	// Where nobody watches nothing is said.
	f := worldFlags{shard: "http://127.0.0.1:1"}
	done := f.deciding(streams{err: &out}, &world.World{})
	out.Reset()
	if done(); out.Len() > 0 {
		t.Errorf("said %q", out.String())
	}
}
