package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FlagsDefault is how the names of the flags begin that name a process's files.
const FlagsDefault = "tls"

// Files names the files of a process's certificate, all in PEM but the deny-list.
// Cert, Key and CA are all given, or none.
type Files struct {
	Cert string // the leaf, and what is between it and the CA
	Key  string
	CA   string // whom peers' certificates must come from; one or several
	Deny string // serial numbers of certificates that are refused; empty = none
	// Flags is how the names of the flags begin that name the files, for error
	// messages; empty = FlagsDefault.
	Flags string
}

// Given tells whether any file is named.
func (f Files) Given() bool { return f.Cert != "" || f.Key != "" || f.CA != "" || f.Deny != "" }

// Flag returns the name of the flag for a file: cert, key, ca or deny.
func (f Files) Flag(file string) string {
	if f.Flags == "" {
		return "--" + FlagsDefault + "-" + file
	}
	return "--" + f.Flags + "-" + file
}

// check refuses a part of the files, by the names of their flags.
func (f Files) check() error {
	var given, missing []string
	for _, x := range [...]struct{ file, value string }{{"cert", f.Cert}, {"key", f.Key}, {"ca", f.CA}} {
		if x.value == "" {
			missing = append(missing, f.Flag(x.file))
		} else {
			given = append(given, f.Flag(x.file))
		}
	}
	if len(given) == 0 && f.Deny != "" {
		return fmt.Errorf("%s without %s: a deny-list is for mutual TLS", f.Flag("deny"), strings.Join(missing, " and "))
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
	log *slog.Logger

	mu   sync.Mutex
	pair source[*tls.Certificate]
	ca   source[*authorities]
	deny *source[*denyList] // nil = no file; set once

	loaded     time.Time
	denied     atomic.Pointer[denyList] // the value of deny
	denyLooked atomic.Int64             // when open connections had deny looked at, in ns since loaded
}

// authorities are the certificates of a CA file.
type authorities struct {
	certs []*x509.Certificate
	pool  *x509.CertPool
}

// Load reads the files; nil when none is named. The error says which flag is
// missing, or which file cannot be used and why. What becomes of changed files
// later goes to log, which may be nil.
func Load(files Files, log *slog.Logger) (*Material, error) {
	if err := files.check(); err != nil {
		return nil, err
	}
	if !files.Given() {
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Material{
		log: log, loaded: time.Now(),
		pair: source[*tls.Certificate]{
			what: "certificate", files: []string{files.Cert, files.Key},
			parse: func() (*tls.Certificate, error) { return readPair(files.Cert, files.Key) },
		},
		ca: source[*authorities]{
			what: "CA", files: []string{files.CA},
			parse: func() (*authorities, error) { return readCA(files.CA) },
		},
	}
	if err := m.ca.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Flag("ca"), err)
	}
	if err := m.pair.read(); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", files.Flag("cert"), files.Flag("key"), err)
	}
	if files.Deny == "" {
		return m, nil
	}
	m.deny = &source[*denyList]{
		what: "deny-list", files: []string{files.Deny},
		parse: func() (*denyList, error) {
			text, err := readFile(files.Deny)
			if err != nil {
				return nil, err
			}
			list, err := parseDenyList(files.Deny, text)
			return &list, err
		},
	}
	if err := m.deny.read(); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Flag("deny"), err)
	}
	m.denied.Store(m.deny.value)
	return m, nil
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, certErr := readFile(certFile)
	key, keyErr := readFile(keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

// readCA reads every certificate of a file. One that cannot be parsed is a fault
// of the whole file: a bundle that was cut short must not drop a CA silently.
func readCA(file string) (*authorities, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	out := &authorities{pool: x509.NewCertPool()}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s, certificate %d: %w", file, len(out.certs)+1, err)
		}
		out.certs = append(out.certs, cert)
		out.pool.AddCert(cert)
	}
	if len(out.certs) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM", file)
	}
	return out, nil
}

// current returns the newest pair that fits together.
func (m *Material) current() *tls.Certificate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pair.current(m.log)
}

// currentCA returns the newest CA that could be read.
func (m *Material) currentCA() *x509.CertPool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ca.current(m.log).pool
}

// ServerConfig returns the settings of a server, nil for plaintext. Each
// handshake uses the CA and the deny-list as they are then, by way of
// GetConfigForClient: fields that a caller sets on the result have no effect.
func (m *Material) ServerConfig() *tls.Config {
	if m == nil {
		return nil
	}
	return m.eachHandshake(tls.RequireAndVerifyClientCert)
}

// OptionalClientConfig is ServerConfig for a server that also serves clients
// without a certificate, and asks them for something else. A certificate that is
// shown must be good.
func (m *Material) OptionalClientConfig() *tls.Config {
	if m == nil {
		return nil
	}
	return m.eachHandshake(tls.VerifyClientCertIfGiven)
}

func (m *Material) eachHandshake(client tls.ClientAuthType) *tls.Config {
	config := m.serverConfig(client)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.serverConfig(client), nil }
	return config
}

// serverConfig returns the settings for one handshake.
func (m *Material) serverConfig(client tls.ClientAuthType) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     client,
		ClientCAs:      m.currentCA(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.current(), nil },
		// A session that is taken up again shows no certificate.
		SessionTicketsDisabled: true,
		VerifyConnection:       m.admit,
	}
}

// ClientConfig returns the settings of a client, nil for plaintext. The server
// must have a certificate for the name that it is dialled by. The CA is the one
// of now: a client that lives long and speaks gRPC takes DialOptionsTo.
func (m *Material) ClientConfig() *tls.Config {
	if m == nil {
		return nil
	}
	return m.clientConfig(AnyServer())
}
