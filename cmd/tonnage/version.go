package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/cpu"
)

// version is set when a release is built; otherwise it comes from what the Go
// tool recorded in the binary.
var version = ""

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tonnage version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine is what the command and the flag print.
func versionLine() string {
	return fmt.Sprintf("tonnage %s %s %s/%s simd=%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.SIMD())
}

// versionText returns the release, or the revision that was built.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && s.Value != "" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
