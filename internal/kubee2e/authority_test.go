package kubee2e

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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs the certificates of one cluster.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64 // serial number
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.sign("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	return a
}

// file names a file of the authority.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes name.crt and name.key.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.last++
	template.SerialNumber = big.NewInt(a.last)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
	return cert, key
}

func (a *authority) write(name string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.file(name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// server writes the certificate of a server on loopback.
func (a *authority) server(name string) {
	a.sign(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}, DNSNames: []string{"localhost"},
	})
}

// user writes the certificate of a user and the file by which it reaches the
// server, and returns that file's name.
func (a *authority) user(name, group, server string) string {
	a.t.Helper()
	who := pkix.Name{CommonName: name}
	if group != "" {
		who.Organization = []string{group}
	}
	file := filepath.Base(name)
	a.sign(file, &x509.Certificate{Subject: who, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	a.write(file+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: u, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server, a.file("ca.crt"), a.file(file+".crt"), a.file(file+".key")))
	return a.file(file + ".kubeconfig")
}
