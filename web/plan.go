package web

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// planPolicy lets a picture have its own style and nothing else.
const planPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// planOf serves pictures of plans.
func planOf(write func(uint64, io.Writer) (bool, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
		if err != nil {
			http.Error(w, "plans have numbers, as the links of the page have them", http.StatusNotFound)
			return
		}
		var picture bytes.Buffer
		ok, err := write(number, &picture)
		switch {
		case err != nil:
			http.Error(w, fmt.Sprintf("plan %d cannot be drawn: %v", number, err), http.StatusInternalServerError)
			return
		case !ok:
			http.Error(w, fmt.Sprintf("plan %d is not kept; only the last ones are", number), http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", planPolicy)
		h.Set("Content-Type", "image/svg+xml")
		h.Set("Cache-Control", "no-store")
		_, _ = picture.WriteTo(w) // the reader is gone, and will know
	})
}
