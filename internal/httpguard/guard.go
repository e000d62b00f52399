package httpguard

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/internal/mtls"
)

// Config is what a Guard is made of. The zero Config lets this machine in and
// nobody else.
type Config struct {
	// Token lets its holders read and change; nil = there is none.
	Token *Token
	// Hosts are further names that requests may be addressed to, as ParseHosts
	// returns them.
	Hosts []string
	// Remedy says in an error how others are let in, as the flags of this process
	// have it; empty = they are not.
	Remedy string
}

// Guard judges requests. A nil Guard is one of the zero Config. Safe for
// concurrent use.
type Guard struct {
	config Config
	origin *http.CrossOriginProtection
}

// New returns a Guard.
func New(c Config) *Guard {
	if name, err := os.Hostname(); err == nil {
		c.Hosts = append(slices.Clone(c.Hosts), strings.ToLower(name))
	}
	return &Guard{config: c, origin: http.NewCrossOriginProtection()}
}

// class is what a route lets its callers do.
type class int

const (
	read class = iota
	inspect
	change
)

// Read admits callers that may read: this machine, readers and admins.
func (g *Guard) Read(h http.Handler) http.Handler { return g.wrap(h, read) }

// Inspect admits callers that may inspect the process: this machine and
// admins.
func (g *Guard) Inspect(h http.Handler) http.Handler { return g.wrap(h, inspect) }

// Change admits callers that may change something: admins, and this machine
// while no credential is set up.
func (g *Guard) Change(h http.Handler) http.Handler { return g.wrap(h, change) }

func (g *Guard) wrap(h http.Handler, c class) http.Handler {
	if g == nil {
		g = New(Config{})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if no := g.judge(r, c); no != nil {
			no.write(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refusal is why a request is not answered.
type refusal struct {
	code  int
	text  string
	login bool // the token would help: browsers are shown a form for it
}

// judge returns nil when the request may have what a class of routes gives.
func (g *Guard) judge(r *http.Request, c class) *refusal {
	if c == change {
		if err := g.origin.Check(r); err != nil {
			return forbidden("a page of another origin asks for a change: %v", err)
		}
	} else if foreign(r, c) {
		return forbidden("a page of another site asks for this; open it by its address")
	}
	reader, admin, no := g.credentials(r)
	if no != nil {
		return no
	}
	if admin || reader && c == read {
		return nil
	}
	if !g.knows(r) {
		return g.misdirected(r)
	}
	if c == read && g.config.Token != nil && g.config.Token.ofSession(r) {
		return nil
	}
	local, why := here(r)
	if local && (c != change || g.config.Token == nil && r.TLS == nil) {
		return nil
	}
	return g.elsewhere(c, local, why)
}

// credentials returns what a token or a certificate allows. A wrong token is
// refused, wherever it comes from.
func (g *Guard) credentials(r *http.Request) (reader, admin bool, no *refusal) {
	if shown := r.Header.Get("Authorization"); shown != "" {
		scheme, token, _ := strings.Cut(shown, " ")
		switch {
		case g.config.Token == nil:
			return false, false, &refusal{code: http.StatusUnauthorized, text: "a token is shown, and this process has none to compare it with; it is started with --token-file to have one"}
		case !strings.EqualFold(scheme, "Bearer") || !g.config.Token.is(strings.TrimSpace(token)):
			return false, false, &refusal{code: http.StatusUnauthorized, text: "the token shown is not that of this process; the file of --token-file has it"}
		}
		return true, true, nil
	}
	id := identity(r.TLS)
	admin = id == mtls.Admin()
	return admin || id == mtls.ReadOnly(), admin, nil
}

// identity returns what a verified certificate names.
func identity(state *tls.ConnectionState) mtls.Identity {
	if state == nil || len(state.VerifiedChains) == 0 {
		return mtls.Identity{}
	}
	return mtls.Of(state.PeerCertificates[0])
}

// misdirected refuses a request that names a host of somebody else.
func (g *Guard) misdirected(r *http.Request) *refusal {
	remedy := "use the address of its machine"
	if g.config.Remedy != "" {
		remedy += ", or start it with --allowed-hosts " + hostOf(r.Host)
	}
	return forbidden("the request names the host %q, which is none of this process; %s", r.Host, remedy)
}

// elsewhere refuses a request that shows nothing and needs to.
func (g *Guard) elsewhere(c class, local bool, why string) *refusal {
	remedy := g.config.Remedy
	if remedy == "" {
		remedy = "ask on that machine, or through a port forwarded to it (kubectl port-forward, ssh -L)"
	}
	if local {
		why = "a change needs the token or the certificate of an admin"
	}
	if g.config.Token == nil {
		return forbidden("%s; %s", why, remedy)
	}
	return &refusal{code: http.StatusUnauthorized, login: c == read, text: why + "; show the token: Authorization: Bearer TOKEN (tools: --token-file FILE or TONNAGE_TOKEN)"}
}

func forbidden(format string, args ...any) *refusal {
	return &refusal{code: http.StatusForbidden, text: fmt.Sprintf(format, args...)}
}

// write answers with the refusal: browsers that want a page get a form for the
// token where that helps.
func (no *refusal) write(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if no.code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if no.login && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		writeForm(w, http.StatusUnauthorized, "")
		return
	}
	http.Error(w, no.text, no.code)
}

// foreign tells whether a page of another site makes the request. Opening the
// page in a tab, as by a link, is not foreign: the other site learns nothing.
// Browsers that say nothing about it are let through, as are tools.
func foreign(r *http.Request, c class) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return c != read || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// forwardedHeaders are set by proxies that pass on a request of somebody else.
var forwardedHeaders = [...]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"}

// here tells whether a request comes from this machine, and if not why.
func here(r *http.Request) (bool, string) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false, "this is for the process's own machine only, and the request comes from elsewhere"
	}
	for _, name := range forwardedHeaders {
		if r.Header.Get(name) != "" {
			return false, "this is for the process's own machine only, and a proxy has passed on the request (" + name + ")"
		}
	}
	return true, ""
}

// knows tells whether a request is addressed to a host of this process.
func (g *Guard) knows(r *http.Request) bool {
	host := hostOf(r.Host)
	if isLoopback(host) || slices.Contains(g.config.Hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == ip.Unmap()
}

// isLoopback tells whether a host is always this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf returns the name or address that a Host header gives, without port,
// brackets and the dot at its end.
func hostOf(header string) string {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// Limits of a list of hosts.
const (
	hostsMax     = 64
	hostBytesMax = 253
)

// ParseHosts reads a list of host names and addresses with commas between, as
// --allowed-hosts gives it. The error names the entry and what is wrong with it.
func ParseHosts(list string) ([]string, error) {
	var out []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		host := strings.ToLower(strings.TrimSuffix(strings.Trim(entry, "[]"), "."))
		if _, err := netip.ParseAddr(host); err != nil && !isName(host) {
			return nil, fmt.Errorf("--allowed-hosts: %q is no host name; give names or addresses without scheme and port, as in fleet.example.com", entry)
		}
		if out = append(out, host); len(out) > hostsMax {
			return nil, fmt.Errorf("--allowed-hosts names more than %d hosts; name fewer", hostsMax)
		}
	}
	return out, nil
}

func isName(host string) bool {
	if host == "" || len(host) > hostBytesMax {
		return false
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	})
}

// Loopback reports whether only this machine can reach a listener's address.
func Loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
