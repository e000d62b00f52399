package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// saysIdle is what a machine says that is in no cluster.
	saysIdle = "idle"
	// orderBytesMax bounds what it is told: bootstrap data of 4 MiB, in base64.
	orderBytesMax = 8 << 20
	askTimeout    = 10 * time.Second
	// readyTimeout is how long its node may take to be ready.
	readyTimeout = 5 * time.Minute
)

func ip4(text string) []byte { return netip.MustParseAddr(text).AsSlice() }

// order is what the machine is told to do.
type order struct {
	Do          string            `json:"do"` // idle, join or leave
	Cluster     string            `json:"cluster"`
	Name        string            `json:"name"` // of the node
	ProviderID  string            `json:"providerID"`
	Labels      map[string]string `json:"labels"`
	Taints      []taint           `json:"taints"`
	Allocatable map[string]string `json:"allocatable"`
	Bootstrap   string            `json:"bootstrap"` // a kubeconfig in JSON, in base64
	Deadline    int64             `json:"deadline"`  // of leave, Unix seconds
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// agent does what it is told.
type agent struct {
	said  string // what it has come to: a line for whoever tells it
	node  *node  // nil: it is in no cluster
	since time.Time
	log   func(text string)
}

// say notes what it has come to.
func (a *agent) say(text string) {
	if kind, _, _ := strings.Cut(text, "\t"); a.said != text {
		a.log(kind)
	}
	a.said = text
}

// round asks what is to be done, and does a little of it.
func (a *agent) round(ctx context.Context, at string) {
	o, err := ask(ctx, at, a.said)
	if err != nil {
		a.log(fmt.Sprintf("%s: %v", at, err))
		return
	}
	switch {
	case o.Do == "join" && a.node == nil && a.said == saysIdle:
		a.join(ctx, o)
	case a.node == nil:
	case o.Do == "leave":
		a.leave(ctx, time.Unix(o.Deadline, 0))
	default:
		a.keep(ctx)
	}
}

// ask says what it has come to, and hears what is to be done.
func ask(ctx context.Context, at, said string) (*order, error) {
	d := net.Dialer{Timeout: askTimeout}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(conn, said); err != nil {
		return nil, err
	}
	text, err := bufio.NewReader(io.LimitReader(conn, orderBytesMax)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the answer does not end: %w", err)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	return &o, nil
}

// join makes the node. Bootstrap data that are none, or that are refused, will not get better.
func (a *agent) join(ctx context.Context, o *order) {
	data, err := base64.StdEncoding.DecodeString(o.Bootstrap)
	if err == nil {
		var s *server
		if s, err = newServer(data); err == nil {
			a.node, a.since = &node{order: o, server: s}, time.Now()
			a.keep(ctx)
			return
		}
	}
	a.say(fmt.Sprintf("failed the bootstrap data cannot be used: %v", err))
}

// keep brings the node nearer to what it shall be, and says so when it is.
func (a *agent) keep(ctx context.Context) {
	facts, err := a.node.keep(ctx)
	var refused *refusal
	switch {
	case err == nil && facts != "":
		a.say("joined " + a.node.order.Cluster + "\t" + facts)
	case a.said != saysIdle: // it has joined: what is in the way now may go away
	case errors.As(err, &refused):
		a.say("failed " + refused.Error())
		a.node = nil
	case time.Since(a.since) > readyTimeout:
		a.say(fmt.Sprintf("failed the node is not ready within %v: %v", readyTimeout, err))
		a.node = nil
	}
	if err != nil {
		a.log(err.Error())
	}
}

// leave removes the node when no pod is left on it, or at the deadline.
func (a *agent) leave(ctx context.Context, deadline time.Time) {
	left, err := a.node.pods(ctx)
	if err == nil && left == 0 || time.Now().After(deadline) {
		err = a.node.remove(ctx)
		if err == nil {
			a.node = nil
			a.say(saysIdle)
			return
		}
	}
	if err != nil {
		a.log(err.Error())
	}
}
