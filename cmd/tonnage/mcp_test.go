package main

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient starts the command and connects a client of the library to it by pipes.
func mcpClient(t *testing.T, args ...string) *mcp.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		code := run(ctx, append([]string{"mcp"}, args...), streams{in: fromClient, out: toClient, err: t.Output()})
		_ = toClient.Close()
		ended <- code
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		_ = toServer.Close()
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("mcp ended with %d", code)
		}
	})
	return session
}

// asked asks one question, and returns the text of the answer and whether it is an error.
func asked(t *testing.T, session *mcp.ClientSession, name string, arguments any) (string, bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(result.Content) != 1 {
		t.Fatalf("%s: %d contents", name, len(result.Content))
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

type fields = map[string]any

// TestMCPSaysWhatCommandsSay about a world in a file.
func TestMCPSaysWhatCommandsSay(t *testing.T) {
	session := mcpClient(t, "-f", firstHour)
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool.Annotations)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"what_does_it_cost", "what_happened", "what_if", "what_would_help", "why_unmet"}) {
		t.Errorf("the tools are %v", names)
	}
	for _, c := range []struct {
		tool    string
		in      fields
		command string
	}{
		{"why_unmet", fields{"need": "render"}, "explain need -f " + firstHour + " -o json render"},
		{"why_unmet", fields{}, "decide -f " + firstHour + " -o json"},
		{"what_would_help", fields{"need": "render"}, "explain need -f " + firstHour + " -o json --help-me render"},
		{"what_if", fields{"addMachines": []string{"gpu=1"}, "priorities": []string{"render=7"}}, "what-if -f " + firstHour + " -o json --add gpu=1 --priority render=7"},
		{"what_does_it_cost", fields{}, "decide -f " + firstHour + " -o json"},
	} {
		text, wrong := asked(t, session, c.tool, c.in)
		want := call("", false, strings.Fields(c.command)...)
		if wrong || want.code != exitOK || !reflect.DeepEqual(jsonOf(t, text), jsonOf(t, want.out)) {
			t.Errorf("%s %v says\n%s\n%s says\n%s%s", c.tool, c.in, text, c.command, want.out, want.err)
		}
	}
	for _, c := range []struct {
		tool string
		in   fields
		says string
	}{
		{"why_unmet", fields{"need": "--help"}, "--help"},
		{"what_would_help", fields{"need": "rander"}, "rander"},
		{"what_if", fields{"addMachines": []string{"none=1"}}, "none"},
		{"what_happened", fields{}, "no past"},
	} {
		if text, wrong := asked(t, session, c.tool, c.in); !wrong || !strings.Contains(text, c.says) {
			t.Errorf("%s %v: %v, %s; want %q", c.tool, c.in, wrong, text, c.says)
		}
	}
}

// jsonOf reads JSON without how long things took.
func jsonOf(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return timeless(v)
}

func TestMCPRefuses(t *testing.T) {
	t.Setenv("TONNAGE_CONTEXTS", t.TempDir()+"/none.yaml")
	for args, says := range map[string]string{
		"":                                 "name a running shard",
		"-f -":                             "standard input is where questions come from",
		"--shard ftp://x":                  "is no address",
		"-f x --shard y":                   "not both",
		"-f x --listen 0.0.0.0:0":          "other machines reach this address",
		"--shard 127.0.0.1:1 --listen 1:x": "--listen",
	} {
		if got := call("", false, append([]string{"mcp"}, strings.Fields(args)...)...); got.code != exitBadInput || !strings.Contains(got.err, says) {
			t.Errorf("mcp %s: exit %d: %s; want %q", args, got.code, got.err, says)
		}
	}
}

// TestMCPOverHTTP: the same questions on a loopback address.
func TestMCPOverHTTP(t *testing.T) {
	said := &output{lines: make(chan string, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"mcp", "-f", firstHour, "--listen", "127.0.0.1:0"}, streams{in: strings.NewReader(""), out: io.Discard, err: said})
	}()
	url := regexp.MustCompile(`http://\S+`).FindString(<-said.lines)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, wrong := asked(t, session, "why_unmet", fields{"need": "render"}); wrong || !strings.Contains(text, "render") {
		t.Errorf("%v: %s", wrong, text)
	}
	_ = session.Close()
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("it ended with %d", code)
	}
}
