package web

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestWorldIsServedToOneAtATime(t *testing.T) {
	if w := get(t, New(Config{Feed: newFeed()}), "/api/world"); w.Code != 404 {
		t.Errorf("without a world: %d", w.Code)
	}
	var s *Site
	fail := false
	s = New(Config{Feed: newFeed(), World: func(_ context.Context, out io.Writer) error {
		if fail {
			return errors.New("no memory")
		}
		if w := get(t, s, "/api/world"); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("while another is served: %d", w.Code)
		}
		_, err := io.WriteString(out, `{"machines": []}`)
		return err
	}})
	if w := get(t, s, "/api/world"); w.Code != 200 || w.Body.String() != `{"machines": []}` {
		t.Errorf("code %d, %q", w.Code, w.Body)
	}
	w := get(t, s, "/api/world", "Accept-Encoding", "gzip")
	if w.Code != 200 || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("packed: code %d, %v", w.Code, w.Header())
	}
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != `{"machines": []}` {
		t.Errorf("packed: %q, %v", text, err)
	}
	fail = true
	if w := get(t, s, "/api/world"); w.Code != 500 || !strings.Contains(w.Body.String(), "no memory") {
		t.Errorf("failing: code %d, %q", w.Code, w.Body)
	}
}
