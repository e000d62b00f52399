package web

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPlansAreServedAsPictures(t *testing.T) {
	s := New(Config{Feed: newFeed(), Plan: func(number uint64, out io.Writer) (bool, error) {
		if number == 8 {
			return true, errors.New("no ink")
		}
		_, err := io.WriteString(out, "<svg/>")
		return number == 7, err
	}})
	for _, c := range []struct {
		path string
		code int
		has  string
	}{
		{"/plans/7", 200, "<svg/>"},
		{"/plans/6", 404, "plan 6 is not kept; only the last ones are"},
		{"/plans/x", 404, "plans have numbers"},
		{"/plans/8", 500, "plan 8 cannot be drawn: no ink"},
	} {
		w := get(t, s, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: %d %q, want %d and %q", c.path, w.Code, w.Body, c.code, c.has)
		}
		if h := w.Header(); c.code == 200 && (h.Get("Content-Type") != "image/svg+xml" || h.Get("Content-Security-Policy") != planPolicy) {
			t.Errorf("%s: %v", c.path, h)
		}
	}
	if w := get(t, New(Config{Feed: newFeed()}), "/plans/7"); w.Code != 404 {
		t.Errorf("without plans: %d", w.Code)
	}
}
