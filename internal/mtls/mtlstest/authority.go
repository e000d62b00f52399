// Package mtlstest makes certificates for tests.
package mtlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/internal/mtls"
)

// Authority signs certificates that are made as they are needed.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
	// chain is what certificates need beside them: this authority, when another
	// signed it, in PEM.
	chain []byte
}

// NewAuthority returns an authority of its own; its files last as long as the
// test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.make(t, nil)
	return a
}

// Intermediate returns an authority that a has signed. Its certificates pass
// where a's own do.
func (a *Authority) Intermediate(t testing.TB) *Authority {
	t.Helper()
	b := &Authority{}
	b.make(t, a)
	return b
}

func (a *Authority) make(t testing.TB, by *Authority) {
	t.Helper()
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	parent, signer := template, a.key
	if by != nil {
		template.Subject.CommonName = "intermediate authority"
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &a.key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.file = filepath.Join(t.TempDir(), "ca.crt")
	write(t, a.file, text)
	if by != nil {
		a.chain = slices.Concat(text, by.chain)
	}
}

// File is the authority's own certificate.
func (a *Authority) File() string { return a.file }

// Files writes a certificate for loopback with these URIs, and its key.
func (a *Authority) Files(t testing.TB, uris ...string) mtls.Files {
	t.Helper()
	return a.FilesOf(t, func(c *x509.Certificate) {
		for _, text := range uris {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
	})
}

// FilesOf writes a certificate for loopback that change may have altered before
// it is signed, and its key.
func (a *Authority) FilesOf(t testing.TB, change func(*x509.Certificate)) mtls.Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := mtls.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: a.file}
	write(t, files.Cert, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), a.chain...))
	write(t, files.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	return files
}

// Flags are the arguments that name the files to a program.
func Flags(f mtls.Files) []string {
	out := []string{f.Flag("cert"), f.Cert, f.Flag("key"), f.Key, f.Flag("ca"), f.CA}
	if f.Deny != "" {
		out = append(out, f.Flag("deny"), f.Deny)
	}
	return out
}

// Serial returns the serial number of a certificate file as openssl writes it.
func Serial(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%X", cert.SerialNumber)
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
