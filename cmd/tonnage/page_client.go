package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/terminal"
)

const (
	// tokenVariable holds the token where there is no file of it.
	tokenVariable = "TONNAGE_TOKEN"
	// pageErrorBytesMax bounds what is read of an answer that is an error.
	pageErrorBytesMax = 1 << 10
)

// pageClient asks the page of a running process, with what its flags say to show
// there.
type pageClient struct {
	tokenFile string
	tls       *mtls.Files // shown to a page that is https://
}

// registerToken adds the flag of the token to a set of flags.
func (p *pageClient) registerToken(cmd *cobra.Command, persistent bool) {
	flags := cmd.Flags()
	if persistent {
		flags = cmd.PersistentFlags()
	}
	flags.StringVar(&p.tokenFile, "token-file", "", tokenUsage+hereMark+"to show there; without it "+tokenVariable+" holds the token, if there is one")
	_ = cmd.MarkFlagFilename("token-file")
}

// register adds all flags: those of the token and of a certificate.
func (p *pageClient) register(cmd *cobra.Command) {
	p.tls = &mtls.Files{}
	p.registerToken(cmd, false)
	tlsFlags(cmd, p.tls)
}

// token returns what to show; "" = nothing.
func (p *pageClient) token() (string, error) {
	if p.tokenFile != "" {
		token, err := httpguard.ReadToken(p.tokenFile)
		if err != nil {
			return "", badInput(fmt.Errorf("--token-file: %w", err))
		}
		return token, nil
	}
	token := strings.TrimSpace(os.Getenv(tokenVariable))
	if token == "" {
		return "", nil
	}
	if err := httpguard.CheckToken(token); err != nil {
		return "", badInput(fmt.Errorf("%s: %w", tokenVariable, err))
	}
	return token, nil
}

// client returns what asks a page of this address.
func (p *pageClient) client(u *url.URL) (*http.Client, error) {
	c := &http.Client{
		// The token is for the page that was named and for no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if u.Scheme != "https" || p.tls == nil {
		return c, nil
	}
	material, err := mtls.Load(*p.tls, nil)
	if err != nil {
		return nil, badInput(err)
	}
	if material != nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = material.ClientConfig()
		c.Transport = t
	}
	return c, nil
}

// do makes a request. The error says what a refusal asks for.
func (p *pageClient) do(ctx context.Context, method string, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, badInput(err)
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client, err := p.client(u)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the shard does not answer: %w; is it running, and is this the address of its page?", err)
	}
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		defer res.Body.Close()
		return nil, badInput(fmt.Errorf("%s does not let this in: %s", u.Host, said(res)))
	}
	return res, nil
}

// refusal is the error for an answer other than 200 OK. It names the server, and says so if that is not the page of a shard.
func refusal(u *url.URL, res *http.Response) error {
	text := said(res)
	if res.StatusCode == http.StatusNotFound && isForeign(text) {
		return foreign(u, res)
	}
	return fmt.Errorf("the shard at %s answers %s: %s", u.Host, res.Status, text)
}

// foreign says that an address is not that of a shard's page.
func foreign(u *url.URL, res *http.Response) error {
	return fmt.Errorf("%s is no page of a Tonnage shard: it answers %s for %s; name one with --shard or TONNAGE_SHARD", u.Host, res.Status, u.Path)
}

// isForeign reports whether a refusal is that of a server which does not know the path, and not of a question.
func isForeign(text string) bool {
	return strings.HasPrefix(text, "404 page not found") || strings.HasPrefix(text, "<")
}

// said returns the beginning of what an answer says, on one line.
func said(res *http.Response) string {
	text, err := io.ReadAll(io.LimitReader(res.Body, pageErrorBytesMax))
	if len(text) == 0 && err != nil {
		return errors.Join(errors.New(res.Status), err).Error()
	}
	return terminal.Escape(string(bytes.TrimSpace(text)))
}
