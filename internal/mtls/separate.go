package mtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Separate returns an error when a port that believes the CA of private would let
// in a holder of a certificate of the CA of public, or when the certificate of
// private comes from the CA of public. Both name all three files. It looks at the
// files as they are now; the error names the flags.
func Separate(public, private Files) error {
	publicCA, publicLeaf, err := readAll(public)
	if err != nil {
		return err
	}
	privateCA, privateLeaf, err := readAll(private)
	if err != nil {
		return err
	}
	remedy := fmt.Sprintf("make a CA for %s that signs nothing else", private.Flag("ca"))
	for _, outer := range publicCA.certs {
		for _, inner := range privateCA.certs {
			if bytes.Equal(outer.RawSubjectPublicKeyInfo, inner.RawSubjectPublicKeyInfo) {
				return fmt.Errorf("%s and %s both hold the CA %q: every certificate of %s would pass; %s",
					public.Flag("ca"), private.Flag("ca"), outer.Subject, public.Flag("ca"), remedy)
			}
			if outer.CheckSignatureFrom(inner) == nil {
				return fmt.Errorf("the CA %q of %s is signed by %q of %s: every certificate of it would pass; %s",
					outer.Subject, public.Flag("ca"), inner.Subject, private.Flag("ca"), remedy)
			}
		}
	}
	if verifyChain(publicLeaf, privateCA.pool, x509.ExtKeyUsageAny) == nil {
		return fmt.Errorf("the certificate of %s comes from a CA of %s; %s", public.Flag("cert"), private.Flag("ca"), remedy)
	}
	if verifyChain(privateLeaf, publicCA.pool, x509.ExtKeyUsageAny) == nil {
		return fmt.Errorf("the certificate of %s comes from a CA of %s; %s", private.Flag("cert"), public.Flag("ca"), remedy)
	}
	return nil
}

// PassesOwnCA returns an error unless processes that all have such files would
// believe each other: the certificate comes from the CA, for serving and for
// dialling.
func PassesOwnCA(files Files) error {
	ca, leaf, err := readAll(files)
	if err != nil {
		return err
	}
	for _, usage := range []struct {
		name string
		key  x509.ExtKeyUsage
	}{{"server", x509.ExtKeyUsageServerAuth}, {"client", x509.ExtKeyUsageClientAuth}} {
		if err := verifyChain(leaf, ca.pool, usage.key); err != nil {
			return fmt.Errorf("the certificate of %s is not one of a %s that %s believes: %w", files.Flag("cert"), usage.name, files.Flag("ca"), err)
		}
	}
	return nil
}

// readAll returns the CA and the certificate with what is between them.
func readAll(files Files) (*authorities, []*x509.Certificate, error) {
	ca, err := readCA(files.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", files.Flag("ca"), err)
	}
	pair, err := readPair(files.Cert, files.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("%s and %s: %w", files.Flag("cert"), files.Flag("key"), err)
	}
	shown, err := parseShown(pair)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", files.Flag("cert"), err)
	}
	return ca, shown, nil
}

func parseShown(pair *tls.Certificate) ([]*x509.Certificate, error) {
	var shown []*x509.Certificate
	for i, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		shown = append(shown, cert)
	}
	return shown, nil
}
