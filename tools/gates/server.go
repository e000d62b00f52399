package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// side is one of two programs that are compared.
type side struct {
	name     string
	dir      string   // to run in
	binaries []string // of the same code, laid out otherwise in each
	env      []string // beside this process's
}

// serverEnv keeps the collector out of the figures: allocations have a gate of
// their own.
var serverEnv = []string{"GOMAXPROCS=1", "GOGC=400"}

// server is a process of one side that measures when it is asked.
type server struct {
	side  *side
	cmd   *exec.Cmd
	asks  io.WriteCloser
	reply *bufio.Scanner
	said  strings.Builder
}

// serve starts a process of the binary whose turn it is. It must be ended.
func (s *side) serve(ctx context.Context, number int) (*server, error) {
	v := &server{side: s}
	v.cmd = exec.CommandContext(ctx, s.binaries[number%len(s.binaries)], "-test.run", "^TestPinnedServe$", "-pinned", "serve")
	v.cmd.Dir = s.dir
	v.cmd.Env = append(append(os.Environ(), serverEnv...), s.env...)
	v.cmd.Stderr = &v.said
	var err error
	if v.asks, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	replies, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	v.reply = bufio.NewScanner(replies)
	return v, v.cmd.Start()
}

// ask returns the nanoseconds of processor time of one round of the work.
func (v *server) ask(name string) (float64, error) {
	if _, err := fmt.Fprintln(v.asks, name); err != nil {
		return 0, fmt.Errorf("%s: %s: %w", v.side.name, name, err)
	}
	if !v.reply.Scan() {
		return 0, fmt.Errorf("%s: %s: no answer", v.side.name, name)
	}
	cost, err := strconv.ParseFloat(v.reply.Text(), 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: answered %q", v.side.name, name, v.reply.Text())
	}
	return cost, nil
}

// end lets the process end and waits for it.
func (v *server) end() error {
	_ = v.asks.Close()   // a process that is gone has closed it
	for v.reply.Scan() { // what it says at its end
	}
	if err := v.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", v.side.name, err, ends(v.said.String()))
	}
	return nil
}
