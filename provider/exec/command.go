package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// Exit codes of commands. 0 is accepted; any other one is transient.
const (
	// ExitOutOfStock says that there is no capacity for the offer now.
	ExitOutOfStock = 10
	// ExitPermanent says that a repeat would end in the same way.
	ExitPermanent = 20
)

const (
	// AnswerBytesMax is how much a change may write to its standard output.
	AnswerBytesMax = 1 << 20
	// ObservedBytesMax is the same for observe: 16,000 machines of 2 KiB.
	ObservedBytesMax = 32 << 20
	// tailBytesMax is how much is kept of the end of standard error.
	tailBytesMax = 4 << 10
	// closeWait is how long output may stay open after the command itself has ended.
	closeWait = 2 * time.Second
)

// outcome is what became of a command.
type outcome struct {
	out  []byte
	last string // the last line of standard error
	took time.Duration
	code int // of exit, −1 when it did not exit
	err  error
}

// run runs a command to its end and never longer than its timeout. What it has started in its process group is killed
// unless it ends well: it will be called again, and would start that again.
func run(ctx context.Context, argv []string, env []string, in []byte, timeout time.Duration, outMax int) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("took longer than %v and was killed", timeout))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &bounded{max: outMax, full: func() { stop(fmt.Errorf("wrote more than %d KiB and was killed", outMax>>10)) }}
	errs := &tail{}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, errs
	cmd.SysProcAttr = processAttributes()
	cmd.WaitDelay = closeWait
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	begun := time.Now()
	// The kernel kills the command when the thread that started it ends, and a locked thread ends
	// with this process only.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	if err != nil && cmd.Process != nil {
		// Its number is not anybody else's yet: numbers go round. An error says that nothing was left.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	o := outcome{out: out.kept, last: errs.lastLine(), took: time.Since(begun), code: cmd.ProcessState.ExitCode()}
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
	case ctx.Err() != nil:
		o.code, o.err = -1, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		o.code, o.err = -1, errors.New("left something running that holds its output open; start that with its output redirected")
	case errors.As(err, &exit) && exit.Exited():
		o.err = fmt.Errorf("exit code %d", exit.ExitCode())
	case errors.As(err, &exit):
		o.err = fmt.Errorf("was ended by %v", exit.ProcessState)
	default:
		o.err = fmt.Errorf("cannot be run: %w", err)
	}
	return o
}

// bounded keeps what is written, up to a limit.
type bounded struct {
	kept []byte
	max  int
	full func() // called when more than max is written
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > b.max {
		b.full()
		return 0, errFull
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

var errFull = errors.New("too much output")

// tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailBytesMax):]...)
	if over := len(t.kept) - tailBytesMax; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last line that is not empty.
func (t *tail) lastLine() string {
	text := strings.TrimRight(string(t.kept), " \t\r\n")
	return oneLine(text[strings.LastIndexByte(text, '\n')+1:])
}

// oneLine makes a text one that may stand in a log and in a record: valid, short, and without
// characters that a terminal acts on.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if model.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.TrimSpace(text)
	if len(text) > driver.ReasonBytesMax/2 {
		text = strings.ToValidUTF8(text[:driver.ReasonBytesMax/2], "") + "…"
	}
	return text
}
