package node

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/tonnage/tonnage/coordinator/store"
	"github.com/tonnage/tonnage/internal/mtls"
)

// How the names of the flags begin that name the files of the two private
// connections of a replica.
const (
	raftFlags = "raft-tls"
	etcdFlags = "etcd-tls"
)

// alone tells whether the replica opens no Raft port. With mutual TLS and without
// certificates for that port it can have no peers, and nobody else has any
// business there.
func (c *Config) alone() bool {
	return c.TLS.Given() && !c.RaftTLS.Given() && len(c.EtcdEndpoints) == 0
}

// tlsFaults are combinations of flags that would leave a door open, or one that
// has no use.
func (c *Config) tlsFaults() (faults []error) {
	external := len(c.EtcdEndpoints) > 0
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	raft, etcd := c.RaftTLS.Flag("cert"), c.EtcdTLS.Flag("cert")
	if c.RaftTLS.Given() && !c.TLS.Given() {
		fault("%s without %s: whoever reaches --listen in plaintext could still change the group; give both", raft, c.TLS.Flag("cert"))
	}
	if c.alone() && c.JoinAddr != "" {
		fault("%s with --join-addr needs %s, %s and %s: the Raft port believes a CA of its own, since any certificate that it believes can stop the group for good",
			c.TLS.Flag("cert"), raft, c.RaftTLS.Flag("key"), c.RaftTLS.Flag("ca"))
	}
	if c.RaftTLS.Given() && external {
		fault("%s does not go with --etcd-endpoints: there is no Raft port; give %s", raft, etcd)
	}
	if c.EtcdTLS.Given() && !external {
		fault("%s is for --etcd-endpoints, and none are given", etcd)
	}
	if external && c.TLS.Given() && !c.EtcdTLS.Given() && !c.etcdPlaintext() {
		fault("%s with --etcd-endpoints needs %s, %s and %s: an etcd that believes the CA of %s lets all its certificates in; http:// before each endpoint asks for plaintext",
			c.TLS.Flag("cert"), etcd, c.EtcdTLS.Flag("key"), c.EtcdTLS.Flag("ca"), c.TLS.Flag("ca"))
	}
	if external && c.EtcdTLS.Given() {
		for _, e := range c.EtcdEndpoints {
			if strings.HasPrefix(e, "http://") {
				fault("--etcd-endpoints %q is plaintext, and %s is given; write https:// or neither", e, etcd)
			}
		}
	}
	return faults
}

// etcdPlaintext tells whether each endpoint asks for plaintext in so many words.
func (c *Config) etcdPlaintext() bool {
	for _, e := range c.EtcdEndpoints {
		if !strings.HasPrefix(e, "http://") {
			return false
		}
	}
	return true
}

// CheckTLS reads all files of certificates, and reports every one that cannot be
// used, and every CA that is trusted for more than it should be.
func (c *Config) CheckTLS() error {
	var faults []error
	readable := func(files mtls.Files) bool {
		m, err := mtls.Load(files, nil)
		faults = append(faults, err)
		return m != nil
	}
	public, raft, etcd := readable(c.TLS), readable(c.RaftTLS), readable(c.EtcdTLS)
	if public && raft {
		faults = append(faults, mtls.Separate(c.TLS, c.RaftTLS))
	}
	if public && etcd {
		faults = append(faults, mtls.Separate(c.TLS, c.EtcdTLS))
	}
	if raft {
		faults = append(faults, mtls.PassesOwnCA(c.RaftTLS))
	}
	return errors.Join(faults...)
}

// raftFiles are what the member takes for its port.
func (c *Config) raftFiles() store.Files {
	return store.Files{Cert: c.RaftTLS.Cert, Key: c.RaftTLS.Key, CA: c.RaftTLS.CA}
}

// warnIfExposed warns of ports in plaintext that other machines may reach.
func (o *opener) warnIfExposed(listening net.Addr) {
	c := o.config
	o.material.WarnIfExposed(o.log, "--listen", listening)
	switch {
	case len(c.EtcdEndpoints) > 0:
	case c.alone():
		o.log.Info("no Raft port is opened, since it would need a CA of its own: this replica has no peers", "flag", c.RaftTLS.Flag("cert"))
	default:
		if raft, err := net.ResolveTCPAddr("tcp", c.RaftBind); err == nil {
			o.material.WarnIfExposed(o.log, "--raft-bind", raft)
		}
	}
}
