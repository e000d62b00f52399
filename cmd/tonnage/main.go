// Command tonnage decides which machines serve which demand. Its commands are
// thin: they read flags and files, and print; what they do lies in packages.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tonnage/tonnage/internal/steady"
)

// clock is the time of this process, whatever becomes of the wall clock.
var clock = steady.Clock()

func main() {
	// The first signal ends a command in good order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], processStreams()))
}
