package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// serverPatience is how long an API server may take to be ready, or to end.
	serverPatience = 90 * time.Second
	serverTick     = 50 * time.Millisecond
	// drainTime is how long one that is ended in good order waits for open watches.
	drainTime = 3 * time.Second
)

// Server is one more API server of a cluster, over the same etcd, that a test kills and
// starts again while the cluster's own goes on.
type Server struct {
	cluster *Cluster
	address string
	log     string // its file

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// Another makes an API server at an address of loopback, which is not started yet. dir is
// a folder for its log.
func (c *Cluster) Another(dir, address string) *Server {
	return &Server{cluster: c, address: address, log: filepath.Join(dir, "another-apiserver.log")}
}

// Through returns the configuration of a user that reaches the cluster through this server.
func (s *Server) Through(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Host = "https://" + s.address
	return out
}

// Start starts it; it returns at once.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	plane := &s.cluster.environment.ControlPlane
	dir := plane.APIServer.CertDir
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(context.Background(), filepath.Join(s.cluster.environment.BinaryAssetsDirectory, "kube-apiserver"),
		"--etcd-servers="+plane.Etcd.URL.String(), "--bind-address=127.0.0.1", "--secure-port="+port, "--advertise-address=127.0.0.1",
		"--cert-dir="+dir, "--client-ca-file="+filepath.Join(dir, "client-cert-auth-ca.crt"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://127.0.0.1/", "--service-account-key-file="+filepath.Join(dir, "sa-signer.crt"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa-signer.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", "--request-timeout="+drainTime.String(), "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("another API server: %w", err)
	}
	ended := make(chan struct{})
	s.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(ended)
	}(s.cmd)
	return nil
}

// Ready waits until it answers.
func (s *Server) Ready() error {
	client, err := rest.HTTPClientFor(s.Through(s.cluster.Config))
	if err != nil {
		return err
	}
	client.Timeout = time.Second
	defer client.CloseIdleConnections()
	limit := time.Now().Add(serverPatience)
	tick := time.NewTicker(serverTick)
	defer tick.Stop()
	for time.Now().Before(limit) {
		answer, err := client.Get("https://" + s.address + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.ended:
			return fmt.Errorf("another API server ended by itself; its log is %s", s.log)
		case <-tick.C:
		}
	}
	return errors.New("another API server is not ready")
}

// Kill ends it as a power cut would, and End as a node that is shut down does: what is
// under way may finish.
func (s *Server) Kill() error { return s.signal(syscall.SIGKILL) }

// End ends it in good order.
func (s *Server) End() error { return s.signal(syscall.SIGTERM) }

func (s *Server) signal(how syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		s.cmd = nil
		return nil
	case <-time.After(serverPatience):
		_ = s.cmd.Process.Kill()
		return errors.New("another API server does not end")
	}
}
