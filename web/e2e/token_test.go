package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestABrowserElsewhereShowsTheTokenAndSeesThePage: a page that other machines
// reach asks for the token, and asks again when there is another one.
func TestABrowserElsewhereShowsTheTokenAndSeesThePage(t *testing.T) {
	findChromium(t)
	token := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(token, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("first-", 6), strings.Repeat("second-", 6)
	put(first)
	x := start(t, build(t), "--listen", "0.0.0.0:0", "--token-file", token)
	at := elsewhere(t, x.url)
	if at == x.url {
		t.Skip("this machine has no address but loopback ones: the page needs no token there")
	}
	p := open(t)
	p.size(1280, 900, "light")
	p.visit(at)
	const form = `document.querySelector('#token') !== null`
	show := func(text string) {
		t.Helper()
		p.loads(func() {
			p.must(`document.querySelector('#token').value = '`+text+`'; setTimeout(() => document.querySelector('form').submit())`, nil)
		})
	}
	p.until("the form", form)
	p.shot("token-1280-light.png", 400)
	show("not-the-token-not-the-token-not-the-token")
	p.until("the word that it is wrong", form+` && document.querySelector('[role=alert]').textContent.includes('not the token')`)
	p.forget() // a refusal is the browser's to report
	show(first)
	p.until("a living page", drawn)
	p.quiet()
	var cookie string
	if p.must(`document.cookie`, &cookie); cookie != "" {
		t.Errorf("scripts of the page read the cookie %q", cookie)
	}
	put(second)
	p.loads(func() { p.must(`setTimeout(() => location.reload())`, nil) })
	p.until("the form again", form)
	p.forget()
	show(second)
	p.until("a living page again", drawn)
	p.quiet()
}

// elsewhere is a page's address as another machine has it: by an address of this
// one that is not a loopback one, if there is one.
func elsewhere(t *testing.T, url string) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return strings.Replace(url, "127.0.0.1", n.IP.String(), 1)
		}
	}
	return url
}
