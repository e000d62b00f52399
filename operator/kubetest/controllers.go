package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// stopPatience is how long a program may take to end.
const stopPatience = 10 * time.Second

// Controllers runs controllers of the real controller manager until stop is
// called; dir is a folder for what it is told.
func (c *Cluster) Controllers(dir string, names ...string) (stop func() error, err error) {
	kubeconfig, err := c.admin(dir, "controllers")
	if err != nil {
		return nil, err
	}
	return c.run("kube-controller-manager", "--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false", "--controllers="+strings.Join(names, ","))
}

// Scheduler runs the real scheduler until stop is called; dir is a folder for what it is told.
func (c *Cluster) Scheduler(dir string) (stop func() error, err error) {
	kubeconfig, err := c.admin(dir, "scheduler")
	if err != nil {
		return nil, err
	}
	return c.run("kube-scheduler", "--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false")
}

// admin writes a kubeconfig of a user who may do everything.
func (c *Cluster) admin(dir, name string) (file string, err error) {
	user, err := c.environment.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return "", err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, name+".kubeconfig")
	return file, os.WriteFile(file, text, 0o600)
}

// run runs a program of Kubernetes until stop is called.
func (c *Cluster) run(name string, args ...string) (stop func() error, err error) {
	cmd := exec.CommandContext(context.Background(), filepath.Join(c.environment.BinaryAssetsDirectory, name), args...)
	var log bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &log, stopPatience
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended by itself: %w: %s", name, err, log.String())
		default:
		}
		_ = cmd.Process.Kill()
		if err := <-ended; err == nil {
			return fmt.Errorf("%s ended well, although it was killed", name)
		}
		return nil
	}, nil
}
