package mtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// SerialsDeniedMax is how many serial numbers a deny-list may hold.
	SerialsDeniedMax = 65_536
	// serialDigitsMax is how long one may be. RFC 5280 allows 20 octets.
	serialDigitsMax = 64
	// denyListCheckInterval is how long open connections use a deny-list before
	// its file is looked at again. Handshakes always look.
	denyListCheckInterval = time.Second
)

// denyList holds serial numbers of certificates that are refused. Nil and empty
// lists refuse none.
type denyList map[string]struct{}

// parseDenyList reads one serial number a line: hexadecimal digits, as openssl
// prints them, with or without colons and a 0x before them, in either case. Text
// from a # on is a comment. The error names the line.
func parseDenyList(name string, text []byte) (denyList, error) {
	list := denyList{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		content, _, _ := strings.Cut(string(line), "#")
		content = strings.TrimSpace(content)
		if content == "" {
			continue
		}
		serial, err := parseSerial(content)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, number, err)
		}
		list[serial] = struct{}{}
		if len(list) > SerialsDeniedMax {
			return nil, fmt.Errorf("%s, line %d: more than %d serial numbers; change the CA instead", name, number, SerialsDeniedMax)
		}
	}
	return list, nil
}

// parseSerial returns a serial number as serialKey writes it.
func parseSerial(text string) (string, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(text), "0x"), ":", "")
	if digits == "" || len(digits) > serialDigitsMax || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("a serial number of 1 to %d hexadecimal digits is expected, got %.80q", serialDigitsMax, text)
	}
	number, _ := new(big.Int).SetString(digits, 16)
	return serialKey(number), nil
}

func serialKey(number *big.Int) string { return number.Text(16) }

// check returns an error when one of the certificates that a peer has shown is
// on the list.
func (l denyList) check(shown []*x509.Certificate) error {
	if len(l) == 0 {
		return nil
	}
	for _, c := range shown {
		if _, denied := l[serialKey(c.SerialNumber)]; denied {
			return fmt.Errorf("the certificate with the serial number %x, of %s, is on the deny-list", c.SerialNumber, Of(c))
		}
	}
	return nil
}

// recentDenyList is the deny-list as it was at most denyListCheckInterval ago.
func (m *Material) recentDenyList() *denyList {
	now := time.Since(m.loaded)
	if looked := m.denyLooked.Load(); now-time.Duration(looked) >= denyListCheckInterval && m.denyLooked.CompareAndSwap(looked, int64(now)) {
		m.currentDenyList()
	}
	return m.denied.Load()
}

// currentDenyList is the deny-list as its file is now; nil without one.
func (m *Material) currentDenyList() *denyList {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deny == nil {
		return nil
	}
	list := m.deny.current(m.log)
	m.denied.Store(list)
	return list
}

// revocable is an open connection that ends when one of the peer's certificates
// comes onto the deny-list: with the next bytes in either direction. A server
// asks silent clients after half a minute, so that no connection stays for long.
type revocable struct {
	net.Conn
	material *Material
	shown    []*x509.Certificate
	checked  atomic.Pointer[denyList] // the list that did not refuse shown
}

// watch returns a connection that obeys the deny-list, or the connection itself
// when there is none.
func (m *Material) watch(conn net.Conn, info credentials.AuthInfo) net.Conn {
	secured, ok := info.(credentials.TLSInfo)
	if !ok || m.deny == nil {
		return conn
	}
	return &revocable{Conn: conn, material: m, shown: secured.State.PeerCertificates}
}

func (c *revocable) check() error {
	list := c.material.recentDenyList()
	if list == c.checked.Load() {
		return nil
	}
	if err := list.check(c.shown); err != nil {
		_ = c.Close()
		return err
	}
	c.checked.Store(list)
	return nil
}

func (c *revocable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if denied := c.check(); denied != nil {
		return 0, denied
	}
	return n, err
}

func (c *revocable) Write(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// admit returns an error when the deny-list refuses the peer of a handshake.
func (m *Material) admit(state tls.ConnectionState) error {
	list := m.currentDenyList()
	if list == nil {
		return nil
	}
	return list.check(state.PeerCertificates)
}
