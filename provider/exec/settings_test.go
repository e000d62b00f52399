package exec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/exec"
)

func TestSettings(t *testing.T) {
	s, err := exec.ParseSettings([]byte(`
command: [sh, -c, "exit 0"]
commands: {observe: [cat, /dev/null]}
timeouts: {create: 5s, observe: 2}
concurrency: 3
env: {A: "b=c", EMPTY: ""}
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Concurrency != 3 || s.Timeouts["create"] != 5*time.Second || s.Timeouts["observe"] != 2*time.Second || s.Timeouts["drain"] != driver.VerbTimeout {
		t.Errorf("read %+v", s)
	}
	if got := fmt.Sprint(s.Commands["drain"], s.Commands["observe"], s.Env); got != "[sh -c exit 0] [cat /dev/null] map[A:b=c EMPTY:]" {
		t.Errorf("read %s", got)
	}
	all := `command: [sh]` + "\n"
	for _, x := range []struct{ section, says string }{
		{"", "config is missing; it says which command is run"},
		{" ", "the file is empty"},
		{"[]", "$: must be an object with the keys command, commands"},
		{"comand: [sh]", "comand: unknown key; did you mean command?"},
		{"command: sh", "command: must be a list, got the text \"sh\""},
		{"command: []", "command: must have 1 to 64 items"},
		{"command: [7]", "command[0]: must be text"},
		{"command: [/nowhere/script]", "command[0]: exec: \"/nowhere/script\": stat /nowhere/script: no such file or directory"},
		{"command: [/etc/passwd]", "permission denied; write the path of a program that may be executed"},
		{"commands: {create: [sh]}", "commands.configure: is missing, and there is no command for all verbs"},
		{"commands: {creat: [sh]}", "commands.creat: is no verb; verbs are create, configure, drain, delete, observe; did you mean create?"},
		{all + "timeouts: {create: 31s}", "timeouts.create: must be between 0 and 30s"},
		{all + "timeouts: {create: 10ms}", "timeouts.create: must be at least 1s, got 10ms"},
		{all + "timeouts: {create: soon}", "timeouts.create: is not a time span"},
		{all + "concurrency: 0", "concurrency: must be between 1 and 32, got 0"},
		{all + "env: {TONNAGE_VERB: x}", "env.TONNAGE_VERB: variables that begin with TONNAGE_ are set by the driver"},
		{all + "env: {\"A=B\": x}", "the name of a variable holds no ="},
		{all + "env: {A: \"" + strings.Repeat("x", 4097) + "\"}", "env.A: must be at most 4096 bytes long"},
		{all + `env: {A: "a\0b"}`, "env.A: holds a zero byte"},
		{all + "command: [sh]", "command: the key occurs twice"},
	} {
		_, err := exec.ParseSettings([]byte(x.section))
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want %q", x.section, err, x.says)
		}
	}
	_, err = exec.ParseSettings([]byte("command: 1\nconcurrency: 99\nenv: 7"))
	if n := strings.Count(fmt.Sprint(err), "\n"); err == nil || n != 2 {
		t.Errorf("three faults are named as %q", err)
	}
}

func TestTemplates(t *testing.T) {
	r := newRig(t, "")
	for template, says := range map[string]string{
		"": "", "{}": "", `{"a": {"b": [1]}}`: "", "[]": "must be a JSON object", `{"a": 1, "a": 2}`: "a: the key occurs twice", "{": "line 1",
	} {
		o := &driver.Offer{Template: []byte(template)}
		for _, late := range []bool{false, true} {
			if err := r.Check(o, driver.PoolTraits{LateBound: late}); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", template, err, says)
			}
		}
	}
}

// FuzzSettings: a section of any form is read or refused.
func FuzzSettings(f *testing.F) {
	f.Add("command: [sh]\ntimeouts: {create: 5s}\nenv: {A: b}")
	f.Add(`{"commands": {"create": ["sh"], "observe": ["x"]}, "concurrency": 1e1}`)
	f.Fuzz(func(t *testing.T, section string) {
		s, err := exec.ParseSettings([]byte(section))
		if err != nil {
			return
		}
		for _, verb := range []string{"create", "configure", "drain", "delete", "observe"} {
			if len(s.Commands[verb]) == 0 || s.Timeouts[verb] < time.Second || s.Timeouts[verb] > 30*time.Second {
				t.Errorf("%q is read as %+v", section, s)
			}
		}
		if s.Concurrency < 1 || s.Concurrency > 32 {
			t.Errorf("%q is read as %+v", section, s)
		}
	})
}
