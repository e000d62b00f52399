package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheFirstLineSaysTheRuleOfAcquisition: a flag wins over the file, the file over the default.
func TestTheFirstLineSaysTheRuleOfAcquisition(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("acquire: cheapest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "acquire fit, "},
		{[]string{"--config", file}, "acquire cheapest, "},
		{[]string{"--config", file, "--acquire", "fit"}, "acquire fit, "},
	} {
		r := startShard(t, append([]string{"--data-dir", t.TempDir(), "--seed-machines", "1"}, c.flags...)...)
		if line, _, _ := strings.Cut(r.out.String(), "\n"); !strings.HasPrefix(line, "tonnage shard shard-0: "+c.want) {
			t.Errorf("with %v the first line is %q, want %q in it", c.flags, line, c.want)
		}
	}
}

// TestRulesThatThereAreNot: with the place and the remedy.
func TestRulesThatThereAreNot(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"bench --acquire best", `--acquire: unknown rule of acquisition "best"; use cheapest or fit`},
		{"shard --acquire best --max-machine-share 2", `--acquire: unknown rule of acquisition "best"; use cheapest or fit`},
		{"shard --max-machine-share 2", "--max-machine-share must be a number from 0 to 1, got 2"},
		{"up --max-machine-share -1", "--max-machine-share must be a number from 0 to 1, got -1"},
		{"up --acquire best", `--acquire: unknown rule of acquisition "best"; use cheapest or fit`},
	} {
		got := call("", false, strings.Fields(c.args)...)
		if got.code != exitBadInput || !strings.Contains(got.err, c.want) || strings.Count(got.err, c.want) != 1 {
			t.Errorf("%s: exit code %d, %q; want %q", c.args, got.code, got.err, c.want)
		}
	}
}
