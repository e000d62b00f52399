package cpu

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		asked string
		have  Level
		want  Level
		warns string // part of the warning; empty for none
	}{
		{"", Generic, Generic, ""},
		{"", AVX2, AVX2, ""},
		{"", AVX512, AVX512, ""},
		{"generic", Generic, Generic, ""},
		{"generic", AVX512, Generic, ""},
		{"avx2", AVX2, AVX2, ""},
		{"avx2", AVX512, AVX2, ""},
		{"avx512", AVX512, AVX512, ""},
		{"avx512", AVX2, AVX2, "has no avx512; using avx2"},
		{"avx512", Generic, Generic, "has no avx512; using generic"},
		{"avx2", Generic, Generic, "has no avx2; using generic"},
		{"AVX2", AVX512, AVX512, `TONNAGE_SIMD="AVX2" is not one of generic, avx2, avx512; using avx512`},
		{"neon", Generic, Generic, `"neon" is not one of`},
		{" avx2", AVX2, AVX2, "is not one of"},
	} {
		level, warning := choose(c.asked, c.have)
		if level != c.want || !strings.Contains(warning, c.warns) || (c.warns == "") != (warning == "") {
			t.Errorf("choose(%q, %v) = %v, %q; want %v and a warning with %q", c.asked, c.have, level, warning, c.want, c.warns)
		}
	}
}

func TestAvailable(t *testing.T) {
	all := Available()
	if len(all) == 0 || all[0] != Generic || !slices.IsSorted(all) || !slices.Contains(all, Chosen()) {
		t.Errorf("available %v, chosen %v", all, Chosen())
	}
	if SIMD() != Chosen().String() {
		t.Errorf("SIMD() = %s, chosen %v", SIMD(), Chosen())
	}
	for l := Generic; l < numLevels; l++ {
		if l.String() == "" {
			t.Errorf("level %d has no name", uint8(l))
		}
	}
	if got := numLevels.String(); got != "Level(3)" {
		t.Errorf("what is no level calls itself %s", got)
	}
}

// TestEnvironment starts this test anew with every wish: the environment is
// read before a test could set it.
func TestEnvironment(t *testing.T) {
	const child = "TONNAGE_TEST_PRINT_LEVEL"
	if os.Getenv(child) != "" {
		t.Logf("chosen=%s warning=%q", SIMD(), Warning())
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"", "generic", "avx2", "avx512", "sse9"} {
		level, warning := choose(l, best())
		cmd := exec.Command(self, "-test.run=^TestEnvironment$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", Variable+"="+l)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(string(out), "chosen="+level.String()) || (warning == "") != strings.Contains(string(out), `warning=""`) {
			t.Errorf("%s=%s: want %s, warning %q; the process says\n%s", Variable, l, level, warning, out)
		}
	}
}
