package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// worldOf serves a world. It is held in memory until it is complete: whoever writes it must not wait for a slow reader.
func worldOf(write func(io.Writer) error) http.Handler {
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
		packs := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		var text bytes.Buffer
		if err := writeTo(&text, packs, write); err != nil {
			http.Error(w, fmt.Sprintf("the world cannot be written: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if packs {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, _ = text.WriteTo(w) // the reader is gone, and will know
	})
}

func writeTo(text *bytes.Buffer, packs bool, write func(io.Writer) error) error {
	if !packs {
		return write(text)
	}
	z, err := gzip.NewWriterLevel(text, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}
