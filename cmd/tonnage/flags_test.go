package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allCommands lists a command and those below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		out = append(out, allCommands(sub)...)
	}
	return out
}

func wholeTree() *cobra.Command {
	return newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
}

// TestAFlagMeansOneThing: a name has one type, one letter and one meaning in all commands, and a letter one name. What
// is behind hereMark says what a command does with it.
func TestAFlagMeansOneThing(t *testing.T) {
	type meaning struct{ kind, letter, usage, command string }
	flags, letters := map[string]meaning{}, map[string]string{}
	// Of the public project's tool, whose scripts name shards this way.
	ids := map[string]bool{"tonnage ctl assign-domain": true, "tonnage ctl remove-shard": true}
	seen := 0
	for _, cmd := range allCommands(wholeTree()) {
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "version" || f.Name == "shard" && ids[cmd.CommandPath()] {
				return
			}
			seen++
			usage, _, _ := strings.Cut(f.Usage, hereMark)
			is := meaning{f.Value.Type(), f.Shorthand, usage, cmd.CommandPath()}
			was, known := flags[f.Name]
			if !known {
				flags[f.Name] = is
			} else if was.kind != is.kind || was.letter != is.letter || was.usage != is.usage {
				t.Errorf("--%s is %s -%s %q in %s\nand %s -%s %q in %s", f.Name, was.kind, was.letter, was.usage, was.command, is.kind, is.letter, is.usage, is.command)
			}
			if f.Shorthand == "" {
				return
			}
			if name := letters[f.Shorthand]; name != "" && name != f.Name {
				t.Errorf("-%s is --%s and --%s", f.Shorthand, name, f.Name)
			}
			letters[f.Shorthand] = f.Name
		})
	}
	if seen < 200 {
		t.Errorf("%d flags were seen only", seen)
	}
}

// TestNamesOfEarlierVersions are still taken.
func TestNamesOfEarlierVersions(t *testing.T) {
	for args, says := range map[string]string{
		"ctl machines --page foo://x":                         `--shard: "foo://x" is no address`,
		"ctl retire --page foo://x m":                         `--shard: "foo://x" is no address`,
		"ctl pause-state --page foo://x":                      `--shard: "foo://x" is no address`,
		"ctl audit --log " + t.TempDir() + "/none":            "no such file",
		"ctl needs --shard 127.0.0.1:1 --timeout 10ms":        "--shard-addr 127.0.0.1:1 ",
		"ctl shortfalls --shard s --timeout 0s":               "--timeout must be positive",
		"demand apply -f /none --shard 127.0.0.1:1":           "no such file",
		"bench --clusters 5":                                  "--changed-clusters goes with",
		"provider check --shard s --addr x --max-machines=-1": "--max-machines",
	} {
		if got := call("", true, strings.Fields(args)...); got.code == exitOK || !strings.Contains(got.err, says) {
			t.Errorf("%s: exit %d: %s; want %q", args, got.code, got.err, says)
		}
	}
}

func TestMisspeltFlagsAndCommands(t *testing.T) {
	for args, says := range map[string]string{
		"explain need --shrad x n": "did you mean --shard?",
		"top --onec":               "did you mean --once?",
		"explan":                   "did you mean explain",
		"fleet cluters":            "did you mean clusters",
		"context lsit":             "did you mean list",
	} {
		if got := call("", true, strings.Fields(args)...); got.code != exitBadInput || !strings.Contains(got.err, says) {
			t.Errorf("%s: exit %d: %s; want %q", args, got.code, got.err, says)
		}
	}
}

// TestContexts: flag, then environment, then context, then default; what is secret goes to no other address.
func TestContexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	t.Setenv("TONNAGE_CONTEXTS", path)
	good := func(args ...string) string {
		t.Helper()
		got := call("", true, args...)
		if got.code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, got.code, got.err)
		}
		return got.out
	}
	// Each address is answered with its own mistake, which tells which one was taken.
	taken := func(want string, args ...string) {
		t.Helper()
		if got := call("", true, args...); got.code == exitOK || !strings.Contains(got.err, want) {
			t.Errorf("%v: %s; want %q", args, got.err, want)
		}
	}
	good("context", "set", "lab", "--shard", "127.0.0.1:1", "--token-file", "no-token", "-o", "json")
	good("context", "set", "far", "--shard", "http://127.0.0.1:2")
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "current: lab") {
		t.Errorf("%v: %s", err, text)
	}
	if out := good("context", "list", "-o", "table"); !strings.Contains(out, "lab") || !strings.Contains(out, "http://127.0.0.1:2") {
		t.Error(out)
	}
	token := filepath.Join(filepath.Dir(path), "no-token")
	taken(token, "fleet", "money")                                     // the current one, with its token
	taken("127.0.0.1:2", "fleet", "money", "--context", "far")         // the one that is named
	taken("127.0.0.1:3", "fleet", "money", "--shard", "127.0.0.1:3")   // a flag, and no token goes there
	taken("there is no context", "fleet", "money", "--context", "fra") // a wrong name
	taken("did you mean far", "fleet", "money", "--context", "fra")    // with what is near
	t.Setenv("TONNAGE_SHARD", "127.0.0.1:4")
	taken("127.0.0.1:4", "fleet", "money") // the environment
	taken("127.0.0.1:3", "fleet", "money", "--shard", "127.0.0.1:3")
	if got := call("", true, "explain", "need", "-f", firstHour, "render"); got.code != exitOK {
		t.Errorf("a file does not count more than the environment: %s", got.err)
	}
	taken("--shard is missing", "ctl", "remove-shard") // it is a name there
	t.Setenv("TONNAGE_SHARD", "")
	if got := call("", true, "explain", "need", "-f", firstHour, "render"); got.code != exitOK || strings.HasPrefix(got.out, "{") {
		t.Errorf("%s%s", got.out, got.err)
	}
	taken("--shard is missing", "ctl", "remove-shard")
	t.Setenv("TONNAGE_CONTEXT", "far")
	taken("127.0.0.1:2", "fleet", "money")
	t.Setenv("TONNAGE_CONTEXT", "")
	good("context", "use", "far")
	taken("127.0.0.1:2", "fleet", "money")
	good("context", "delete", "far")
	good("context", "set", "lab", "--shard", "")
	taken("did you mean lab", "context", "use", "lob")
	taken("is no address", "context", "set", "lab", "--shard", "ftp://x")
	taken("unknown output format", "context", "set", "lab", "-o", "svg")
	if out := good("__complete", "context", "use", ""); !strings.HasPrefix(out, "lab\n") {
		t.Errorf("completion says %q", out)
	}
	if out := good("__complete", "fleet", "money", "--context", ""); !strings.HasPrefix(out, "lab\n") {
		t.Errorf("completion says %q", out)
	}
	if err := os.WriteFile(path, []byte("contexts:\n  a:\n    shrad: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken(path+":3:12: contexts.a.shrad", "fleet", "money")
	if got := call("", true, "version"); got.code != exitOK {
		t.Errorf("a command that asks nobody reads contexts: %s", got.err)
	}
}
