package commandline

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func command() (*cobra.Command, *int) {
	n := 0
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	cmd.AddCommand(&cobra.Command{Use: "clusters", Run: func(*cobra.Command, []string) {}})
	cmd.Flags().IntVar(&n, "burst-size", 1, "")
	cmd.Flags().String("id", "", "")
	return cmd, &n
}

func TestTakeEnvironment(t *testing.T) {
	cmd, n := command()
	t.Setenv("TONNAGE_BURST_SIZE", "7")
	t.Setenv("TONNAGE_ID", "a")
	if err := TakeEnvironment(cmd, func(f *pflag.Flag) bool { return f.Name == "id" }); err != nil || *n != 7 || cmd.Flags().Changed("id") {
		t.Errorf("%v, %d", err, *n)
	}
	cmd, n = command()
	if err := cmd.Flags().Set("burst-size", "3"); err != nil {
		t.Fatal(err)
	}
	if err := TakeEnvironment(cmd, nil); err != nil || *n != 3 || !cmd.Flags().Changed("id") {
		t.Errorf("%v, %d", err, *n)
	}
	t.Setenv("TONNAGE_BURST_SIZE", "many")
	cmd, _ = command()
	if err := TakeEnvironment(cmd, nil); err == nil || !strings.HasPrefix(err.Error(), "TONNAGE_BURST_SIZE: ") {
		t.Error(err)
	}
}

func TestTwoDashes(t *testing.T) {
	cmd, _ := command()
	for given, want := range map[string]string{
		"-burst-size=1 -id a": "--burst-size=1 --id a", "--id=a -x": "--id=a -x", "-- -id": "-- -id", "-help": "--help", "-h": "-h",
	} {
		if got := TwoDashes(cmd.Flags(), strings.Fields(given)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", given, got, want)
		}
	}
}

func TestWhatIsNear(t *testing.T) {
	cmd, _ := command()
	if err := NoArguments(cmd, []string{"cluters"}); err == nil || !strings.Contains(err.Error(), "did you mean clusters?") {
		t.Error(err)
	}
	if err := NoArguments(cmd, []string{"zzz"}); err == nil || strings.Contains(err.Error(), "mean") {
		t.Error(err)
	}
	err := cmd.ParseFlags([]string{"--burst-sise=1"})
	if says := NearestFlag(cmd, err); says != "; did you mean --burst-size?" {
		t.Errorf("%v: %q", err, says)
	}
	if says := NearestFlag(cmd, cmd.ParseFlags([]string{"--burst-size=x"})); says != "" {
		t.Errorf("of a bad value it says %q", says)
	}
}
