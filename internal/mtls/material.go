package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// Files names the files of a process's certificate, all in PEM. All are given,
// or none.
type Files struct {
	Cert string // the leaf, and what is between it and the CA
	Key  string
	CA   string // whom peers' certificates must come from; one or several
}

// check refuses a part of the three, by the names of their flags.
func (f Files) check() error {
	var given, missing []string
	for _, x := range [...]struct{ flag, value string }{{"--tls-cert", f.Cert}, {"--tls-key", f.Key}, {"--tls-ca", f.CA}} {
		if x.value == "" {
			missing = append(missing, x.flag)
		} else {
			given = append(given, x.flag)
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		return fmt.Errorf("%s without %s: give all three for mutual TLS, or none for plaintext",
			strings.Join(given, " and "), strings.Join(missing, " and "))
	}
	return nil
}

// Material is what a process shows and whom it believes. Nil is plaintext.
// Safe for concurrent use.
type Material struct {
	files Files
	ca    *x509.CertPool
	log   *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	// What the files looked like before the pair was read of them.
	cert, key fs.FileInfo
	fault     string // why the files as they are now are not used; "" = they are
}

// Load reads the files; nil when none is named. The error says which flag is
// missing, or which file cannot be used and why. What becomes of changed files
// later goes to log, which may be nil.
func Load(files Files, log *slog.Logger) (*Material, error) {
	if err := files.check(); err != nil {
		return nil, err
	}
	if files == (Files{}) {
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Material{files: files, ca: x509.NewCertPool(), log: log}
	text, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	if !m.ca.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca: %s holds no certificate in PEM", files.CA)
	}
	if err := m.read(); err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return m, nil
}

// read takes the pair from the files, whatever they looked like before.
func (m *Material) read() error {
	cert, certErr := os.Stat(m.files.Cert)
	key, keyErr := os.Stat(m.files.Key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(m.files.Cert, m.files.Key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", m.files.Cert, m.files.Key, err)
	}
	m.pair, m.cert, m.key = &pair, cert, key
	return nil
}

// current returns the newest pair that fits together.
func (m *Material) current() *tls.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if same(m.files.Cert, m.cert) && same(m.files.Key, m.key) {
		return m.pair
	}
	if err := m.read(); err != nil {
		if m.fault != err.Error() {
			m.fault = err.Error()
			m.log.Warn("the changed certificate cannot be used; the one before it still is", "error", err)
		}
		return m.pair
	}
	m.fault = ""
	m.log.Info("certificate read again", "file", m.files.Cert, "expires", m.pair.Leaf.NotAfter)
	return m.pair
}

// same tells whether a file is as it was. A file that a link now leads to is
// another one even when it was written at the same time.
func same(name string, was fs.FileInfo) bool {
	is, err := os.Stat(name)
	return err == nil && os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) && is.Size() == was.Size()
}

// ServerConfig returns the settings of a server, nil for plaintext.
func (m *Material) ServerConfig() *tls.Config {
	if m == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      m.ca,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.current(), nil },
		// A session that is taken up again shows no certificate.
		SessionTicketsDisabled: true,
	}
}

// ClientConfig returns the settings of a client, nil for plaintext. The server
// must have a certificate for the name that it is dialled by.
func (m *Material) ClientConfig() *tls.Config {
	if m == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              m.ca,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.current(), nil },
	}
}
