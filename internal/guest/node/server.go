package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	callTimeout   = 10 * time.Second
	bodyBytesMax  = 8 << 20
	mergePatch    = "application/merge-patch+json"
	applicationJS = "application/json"
)

// kubeconfig is as much of a kubeconfig in JSON as is used: its first cluster and user.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server     string `json:"server"`
			CA         []byte `json:"certificate-authority-data"`
			ServerName string `json:"tls-server-name"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// server is an API server.
type server struct {
	url, token string
	client     *http.Client
}

// refusal is an answer that will not become another one.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the API server answers %d: %s", r.code, r.message)
}

func newServer(data []byte) (*server, error) {
	var k kubeconfig
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("is no kubeconfig in JSON: %w", err)
	}
	if len(k.Clusters) == 0 || len(k.Users) == 0 {
		return nil, errors.New("the kubeconfig lacks a cluster or a user")
	}
	c := k.Clusters[0].Cluster
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("certificate-authority-data holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: c.ServerName, MinVersion: tls.VersionTLS12}}
	return &server{url: c.Server, token: k.Users[0].User.Token, client: &http.Client{Timeout: callTimeout, Transport: transport}}, nil
}

// call makes one call, and reads the answer into a value unless that is nil. Codes in fine are
// successes too.
func (s *server) call(ctx context.Context, method, path, kind string, in, out any, fine ...int) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", kind)
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, bodyBytesMax))
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return verdict(answer.StatusCode, text, fine)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// verdict is the error of an answer.
func verdict(code int, text []byte, fine []int) error {
	for _, f := range fine {
		if code == f {
			return nil
		}
	}
	var said struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(text, &said) // an answer without a message has a code
	if r := (&refusal{code, said.Message}); code < http.StatusInternalServerError && code != http.StatusConflict && code != http.StatusTooManyRequests {
		return r
	}
	return fmt.Errorf("%d: %s", code, said.Message)
}
