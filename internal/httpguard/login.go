package httpguard

import (
	"html"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// LoginPath is where browsers show the token.
const LoginPath = "/login"

const (
	// loginBytesMax bounds what a browser may send there: a token, and its
	// field's name, escaped.
	loginBytesMax = 4 * TokenBytesMax
	// loginPolicy lets the form have its style, and send to where it came from.
	loginPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

const form = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Tonnage: token</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:28rem;margin:15vh auto;padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem}input{width:100%;box-sizing:border-box;margin:.4rem 0 1rem}</style>
<h1>Tonnage</h1>
<form method="post" action="` + LoginPath + `">
<label for="token">Token of this process: what the file of its --token-file holds</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Show the page</button>
<p role="alert">%s</p>
</form>
</html>
`

// writeForm answers with the form for the token, and what was wrong before.
func writeForm(w http.ResponseWriter, code int, wrong string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", loginPolicy)
	// With no-referrer, browsers would send the form with Origin: null.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, strings.Replace(form, "%s", html.EscapeString(wrong), 1)) // the reader is gone, and will know
}

// Login takes a token from the form at LoginPath and gives the browser a cookie
// to read with for sessionLife. Without a token there is no such path.
func (g *Guard) Login() http.Handler {
	if g == nil || g.config.Token == nil {
		return http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.origin.Check(r); err != nil {
			forbidden("a page of another origin sends a token: %v", err).write(w, r)
			return
		}
		if !g.knows(r) {
			g.misdirected(r).write(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, loginBytesMax)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		if !g.config.Token.is(strings.TrimSpace(r.PostForm.Get("token"))) {
			writeForm(w, http.StatusUnauthorized, "This is not the token of this process.")
			return
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure as soon as the page is served over TLS
			Name: cookieName(r), Value: g.config.Token.session(time.Now()), Path: "/", MaxAge: int(sessionLife.Seconds()),
			Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
}

// cookieName differs from one port of a machine to the next: cookies do not.
func cookieName(r *http.Request) string {
	name := "tonnage-page"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(local.String()); err == nil {
			name += "-" + port
		}
	}
	return name
}

// ofSession tells whether a browser has shown the token.
func (t *Token) ofSession(r *http.Request) bool {
	c, err := r.Cookie(cookieName(r))
	return err == nil && t.holds(c.Value, time.Now())
}
