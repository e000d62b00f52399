package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// stopPatience is how long the controller manager may take to end.
const stopPatience = 10 * time.Second

// Controllers runs controllers of the real controller manager until stop is
// called; dir is a folder for what it is told.
func (c *Cluster) Controllers(dir string, names ...string) (stop func() error, err error) {
	admin, err := c.environment.AddUser(envtest.User{Name: "controllers", Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return nil, err
	}
	text, err := admin.KubeConfig()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		return nil, err
	}
	program := filepath.Join(c.environment.BinaryAssetsDirectory, "kube-controller-manager")
	cmd := exec.CommandContext(context.Background(), program, "--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false",
		"--controllers="+strings.Join(names, ","))
	var log bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &log, stopPatience
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("controllers %v: %w", names, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("the controller manager ended by itself: %w: %s", err, log.String())
		default:
		}
		_ = cmd.Process.Kill()
		if err := <-ended; err == nil {
			return errors.New("the controller manager ended well, although it was killed")
		}
		return nil
	}, nil
}
