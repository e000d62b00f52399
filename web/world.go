package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// worldOf serves a world. It is held in memory, packed, until it is complete: write holds more memory than that, and must not wait
// for a slow reader. One is sent at a time.
func worldOf(write func(context.Context, io.Writer) error) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		default:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "somebody else is being sent the world; ask again in a moment", http.StatusTooManyRequests)
			return
		}
		var packed bytes.Buffer
		if err := pack(r.Context(), &packed, write); err != nil {
			http.Error(w, fmt.Sprintf("the world cannot be written: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = packed.WriteTo(w) // the reader is gone, and will know
			return
		}
		if text, err := gzip.NewReader(&packed); err == nil {
			_, _ = io.Copy(w, text) //nolint:gosec // what was packed above
		}
	})
}

// pack writes a world with gzip.
func pack(ctx context.Context, into *bytes.Buffer, write func(context.Context, io.Writer) error) error {
	z, err := gzip.NewWriterLevel(into, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(ctx, z); err != nil {
		return err
	}
	return z.Close()
}
