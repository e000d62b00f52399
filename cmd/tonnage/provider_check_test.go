package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/mtls/mtlstest"
)

// checkArgs are a command line that checks a provider.
func checkArgs(address string, more ...string) []string {
	return append([]string{"provider", "check", "--addr", address}, more...)
}

// TestProviderCheck: what the command says and returns, with machines that change at once.
func TestProviderCheck(t *testing.T) {
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-machines", "2", "--seed-speculative", "4", "--latency", "0s")
	before := machinesOf(t, p.client(nil))
	dry := call("", true, checkArgs(p.address, "--dry-run", "--filter", "zone=a", "--filter", "capacity-type=OnDemand")...)
	if dry.code != exitOK || !strings.Contains(dry.out, "slot-000003  Speculative") || strings.Contains(dry.out, "slot-000001") || !strings.Contains(dry.out, "checks would run") {
		t.Errorf("--dry-run: exit %d, %s%s", dry.code, dry.out, dry.err)
	}
	if got := call("", true, checkArgs(p.address)...); got.code != exitBadInput || !strings.Contains(got.err, "slot-000003 (Speculative)") || !strings.Contains(got.err, "give --yes") {
		t.Errorf("without --yes: exit %d, %s%s", got.code, got.out, got.err)
	}
	got := call("", false, checkArgs(p.address, "--yes")...)
	var report checkReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitOK || report.Failed != 0 || report.Passed < 90 || len(report.Left) != 0 {
		t.Errorf("exit %d, %v, %s%s", got.code, err, got.out, got.err)
	}
	if !strings.Contains(got.err, "uses slot-000003 (Speculative)") {
		t.Errorf("it does not say what it uses: %s", got.err)
	}
	after := machinesOf(t, p.client(nil))
	for id, m := range before {
		if after[id].State != m.State || after[id].Cluster != m.Cluster {
			t.Errorf("%s was %s and is %s", id, m.State, after[id].State)
		}
	}
	if got := call("", true, checkArgs(p.address, "--max-machines", "0", "--only", "get.*,create.begins")...); got.code != exitOK || !strings.Contains(got.out, "5 passed, 0 failed, 1 skipped") {
		t.Errorf("--max-machines 0: exit %d, %s%s", got.code, got.out, got.err)
	}
	late := call("", true, checkArgs(p.address, "--yes", "--only", "get.*", "--answer-within", "1ns")...)
	if late.code != exitInternal || !strings.Contains(late.err, "1 of 5 checks failed") || !strings.Contains(late.out, "expected an answer within 1ns; saw Get takes") {
		t.Errorf("a check that fails: exit %d, %s%s", late.code, late.out, late.err)
	}
	late = call("", true, checkArgs(p.address, "--yes", "--only", "get.*,create.begins", "--skip", "get.unknown", "--machines", "idle-000000", "--answer-within", "1ns", "-o", "junit")...)
	var suite junitSuite
	if err := xml.Unmarshal([]byte(late.out), &suite); err != nil || suite.Tests != 5 || suite.Failures != 1 || suite.Skipped != 1 || len(suite.Cases) != 5 {
		t.Errorf("-o junit: %v, %+v", err, suite)
	}
}

// TestProviderCheckCommands: those that fail say what they printed.
func TestProviderCheckCommands(t *testing.T) {
	p := startProvider(t, "--data-dir", t.TempDir(), "--seed-speculative", "3", "--latency", "0s")
	got := call("", true, checkArgs(p.address, "--yes", "--only", "restart.fence,vanished.get,failed.listed",
		"--restart-command", "true", "--vanish-command", "echo no $TONNAGE_MACHINE; exit 3")...)
	for _, want := range []string{"1 passed, 1 failed, 1 skipped", "exit status 3: no slot-"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in\n%s%s", want, got.out, got.err)
		}
	}
	got = call("", true, checkArgs(p.address, "--yes", "--only", "vanished.*,failed.listed", "--vanish-command", "echo bare metal; exit 77", "--fail-command", "exit 77")...)
	for _, want := range []string{"0 passed, 0 failed, 4 skipped", "no machine can be made to vanish here: ", "bare metal", "no change can be made to fail here: "} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in\n%s%s", want, got.out, got.err)
		}
	}
}

// TestProviderCheckOverTLS: for the shard that the certificate names; what other shards may
// do is skipped.
func TestProviderCheckOverTLS(t *testing.T) {
	ca := mtlstest.NewAuthority(t)
	own, caller := ca.Files(t, "bigfleet://provider/p"), ca.Files(t, mtls.Shard("shard-0").String())
	files := func(f mtls.Files) []string {
		return []string{"--tls-cert", f.Cert, "--tls-key", f.Key, "--tls-ca", f.CA}
	}
	p := startProvider(t, append(files(own), "--data-dir", t.TempDir(), "--seed-speculative", "3", "--latency", "0s")...)
	got := call("", true, checkArgs(p.address, append(files(caller), "--yes", "--shard-id", "shard-0", "--only", "fence.*,get.*")...)...)
	if got.code != exitOK || !strings.Contains(got.out, " 0 failed, ") || !strings.Contains(got.out, "for no other shard than shard-0") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := call("", true, checkArgs(p.address, append(files(caller), "--yes")...)...); got.code != exitInternal || !strings.HasPrefix(got.err, "permissiondenied: ") {
		t.Errorf("for another shard: exit %d: %s%s", got.code, got.out, got.err)
	}
}

// TestProviderCheckFlagsAreListed: the page names every flag.
func TestProviderCheckFlagsAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash("docs/how-to/check-a-provider.md")))
	if err != nil {
		t.Fatal(err)
	}
	newProviderCheck(streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(page), "`--"+f.Name+"`") {
			t.Errorf("the page does not list --%s", f.Name)
		}
	})
}

func TestProviderCheckBadUse(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     `--addr must be HOST:PORT`,
		"--addr x:1 --only get":                `--only: no check is called "get"; --list prints all`,
		"--addr x:1 --only get.* --skip g*":    `--only and --skip leave no check`,
		"--addr x:1 -o xml":                    `unknown output format "xml"; use -o json, -o table or -o junit`,
		"--addr x:1 --timeout 0s":              `--timeout must be positive`,
		"--addr x:1 --max-machines 65":         `--max-machines must be between 0 and 64`,
		"--addr x:1 --answer-within 31s":       `--answer-within must be positive and at most 30s, got 31s`,
		"--addr x:1 --filter zone":             `--filter must be KEY=VALUE`,
		"--addr x:1 --filter size=1":           `--filter: the key is instance-type`,
		"--addr x:1 --filter capacity-type=x":  `--filter: there is no capacity type "x"`,
		"--addr x:1 --yes --dry-run":           `--yes and --dry-run exclude each other`,
		"--addr x:1 --machines a --filter z=":  `--machines and --filter exclude each other`,
		"--addr x:1 --provider-identity a://b": `--provider-identity is what a certificate must hold`,
		"--list -o junit":                      `--list prints a table or json`,
		"--addr x:1 --bootstrap-file none":     `--bootstrap-file: stat none`,
		"more":                                 `unexpected argument "more"`,
	} {
		got := call("", false, append([]string{"provider", "check"}, strings.Fields(args)...)...)
		if got.code != exitBadInput || !strings.Contains(got.err, want) || got.out != "" {
			t.Errorf("%s: exit %d, %q %s, want %s", args, got.code, got.out, got.err, want)
		}
	}
	if got := call("", false, checkArgs("127.0.0.1:1", "--yes")...); got.code != exitInternal || !strings.HasPrefix(got.err, "unavailable: ") {
		t.Errorf("nobody there: exit %d, %s", got.code, got.err)
	}
	p := startProvider(t, "--data-dir", filepath.Join(t.TempDir(), "p"), "--seed-machines", "1", "--latency", "0s")
	if got := call("", false, checkArgs(p.address, "--yes", "--machines", "nobody")...); got.code != exitBadInput || !strings.Contains(got.err, `machine "nobody"`) {
		t.Errorf("a machine that is not there: exit %d, %s", got.code, got.err)
	}
	var list []listedCheck
	if got := call("", false, "provider", "check", "--list", "--only", "fence.*"); json.Unmarshal([]byte(got.out), &list) != nil || len(list) < 10 || list[0].Reference == "" {
		t.Errorf("--list: exit %d, %s%s", got.code, got.out, got.err)
	}
	if got := call("", false, "__complete", "provider", "check", "--only", ""); !strings.Contains(got.out, fmt.Sprint(list[0].ID, "\t")) {
		t.Errorf("completion: %s%s", got.out, got.err)
	}
}
