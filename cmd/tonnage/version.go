package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/cpu"
)

// version is set when a release is built; otherwise it comes from what the Go
// tool recorded in the binary.
var version = ""

func newVersion(s streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tonnage version\n  tonnage version -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			format, err := formatOf(s, output)
			if err != nil {
				return err
			}
			if format == formatTable {
				_, err = fmt.Fprint(s.out, versionLine())
				return err
			}
			e := json.NewEncoder(s.out)
			e.SetIndent("", "  ")
			return e.Encode(build{versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.SIMD()})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", formatTable, outputUsage+hereMark+"table = a line")
	return cmd
}

// build is what version says, for programs.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	SIMD    string `json:"simd"`
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
