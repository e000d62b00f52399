package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usageText = "usage: stages test [GO-TEST-ARGUMENT…] | stages run SUITE | stages table"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New(usageText)
	}
	root, err := checkout()
	if err != nil {
		return err
	}
	switch args[0] {
	case "test":
		return goTest(ctx, root, newPrinter(stdout), args[1:])
	case "table":
		_, err := io.WriteString(stdout, markdown())
		return err
	case "run":
		if len(args) != 2 || len(suite(args[1])) == 0 {
			return fmt.Errorf("run wants a suite: %s, %s or %s", suiteTestAll, suiteCI, suiteNightly)
		}
		list := suite(args[1])
		out := newPrinter(stdout)
		r := runner{root: root, out: out, make: func(ctx context.Context, target string) error {
			return command(ctx, root, out, "make", "--no-print-directory", target).Run()
		}}
		head, _ := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short", "HEAD").Output()
		fmt.Fprintf(out, "%d stages on %d cores, load average %.1f, revision %s\n", len(list), cores(), loadAverage(), strings.TrimSpace(string(head)))
		return report(out, r.run(ctx, list), len(list))
	}
	return errors.New(usageText)
}

// checkout is the folder of the Makefile, above the working folder.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "Makefile")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no Makefile in %s or above it; run stages within the checkout", dir)
		}
	}
}
