package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// QueryPath begins the paths of queries: GET /api/v1/NAME.
const QueryPath = "/api/v1/"

// Query answers a question about the fleet. The answer is written as JSON and must not
// change any more. The error wraps one of those below, or is a failure. Several may ask at
// a time.
type Query func(ctx context.Context, query url.Values) (any, error)

// The errors of queries.
var (
	// ErrBadQuery: a value of the query is missing or wrong.
	ErrBadQuery = errors.New("bad query")
	// ErrNotFound: what is asked about is not there, or not kept.
	ErrNotFound = errors.New("not found")
	// ErrBusy: an answer costs much, and somebody else is getting one.
	ErrBusy = errors.New("busy")
	// ErrTooLarge: the fleet is too large for this question here.
	ErrTooLarge = errors.New("too large")
)

var queryCodes = []struct {
	err  error
	code int
}{
	{ErrBadQuery, http.StatusBadRequest}, {ErrNotFound, http.StatusNotFound},
	{ErrBusy, http.StatusTooManyRequests}, {ErrTooLarge, http.StatusUnprocessableEntity},
}

// queryOf serves one query.
func queryOf(ask Query) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := ask(r.Context(), r.URL.Query())
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		writePacked(w, r, encode(answer))
	})
}

// refuse answers with what went wrong, without the name of the kind of error.
func refuse(w http.ResponseWriter, err error) {
	code, says := http.StatusInternalServerError, err.Error()
	for _, x := range queryCodes {
		if errors.Is(err, x.err) {
			code, says = x.code, strings.TrimPrefix(says, x.err.Error()+": ")
		}
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "2")
	}
	http.Error(w, says, code)
}
