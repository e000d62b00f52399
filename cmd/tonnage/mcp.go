package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
)

const (
	// mcpAnswerBytesMax bounds what one question is answered with: what asks reads all of it.
	mcpAnswerBytesMax = 1 << 20
	// mcpRequestBytesMax bounds one request.
	mcpRequestBytesMax = 1 << 20
	// mcpWaitingMax is how many questions wait for the one that is being answered.
	mcpWaitingMax = 16
)

// mcpServer answers the questions of assistants, each by running the command that answers it.
type mcpServer struct {
	streams
	source worldFlags
	listen string
	// turn has one slot: questions decide about the whole fleet. waiting bounds who waits for it.
	turn, waiting chan struct{}
}

func newMCP(s streams) *cobra.Command {
	m := &mcpServer{streams: s, turn: make(chan struct{}, 1), waiting: make(chan struct{}, mcpWaitingMax)}
	cmd := &cobra.Command{
		Use:   "mcp (--shard ADDRESS | -f FILE)",
		Short: "Answer five questions of assistants about a fleet (Model Context Protocol)",
		Long: `Mcp is a server of the Model Context Protocol. It answers five questions, and changes nothing:

  why_unmet          why a need does not get its machines, or which needs do not
  what_would_help    what would satisfy a need: machines, a priority, a requirement less
  what_if            what a change would do, and what it would cost
  what_happened      what changed lately, who was preempted for whom, which cycles took long
  what_does_it_cost  dollars an hour: list prices, interruptions, idle machines

The answers are the JSON of explain, what-if, fleet and decide. They are about a running shard
(--shard, or the current context) or a world in a file, which has no past.

It speaks on standard input and output, for assistants that start it; with --listen over HTTP, for
this machine only.`,
		Example: `  tonnage mcp --shard 127.0.0.1:8080
  tonnage mcp -f world.yaml
  tonnage mcp --shard 127.0.0.1:8080 --listen 127.0.0.1:8090`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) },
	}
	m.source.add(cmd)
	cmd.Flags().StringVar(&m.listen, "listen", "", listenUsage+hereMark+"HTTP on a loopback address, in place of standard input and output")
	return cmd
}

func (m *mcpServer) run(ctx context.Context) error {
	switch {
	case m.source.file == "" && m.source.shard == "":
		return badInput(errors.New("name a running shard with --shard or a context, or a world with -f"))
	case m.source.file != "" && m.source.shard != "":
		return badInput(errors.New("give one of -f and --shard, not both"))
	case m.source.file == "-":
		return badInput(errors.New("-f -: standard input is where questions come from; name a file"))
	case m.source.shard != "":
		if _, err := pageURL("shard", m.source.shard); err != nil {
			return err
		}
	}
	if m.listen != "" {
		return m.serve(ctx)
	}
	transport := &mcp.IOTransport{Reader: io.NopCloser(m.in), Writer: nopCloser{m.out}, MaxLineLength: mcpRequestBytesMax}
	if err := m.server().Run(ctx, transport); ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// serve answers over HTTP, to this machine alone.
func (m *mcpServer) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", m.listen)
	if err != nil {
		return badInput(fmt.Errorf("--listen: %w", err))
	}
	if !httpguard.Loopback(l.Addr()) {
		_ = l.Close()
		return badInput(fmt.Errorf("--listen %s: other machines reach this address; give one such as 127.0.0.1:8090", m.listen))
	}
	server := m.server()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: mcpRequestBytesMax})
	var guard *httpguard.Guard // lets this machine in
	fmt.Fprintf(m.err, "answering at http://%s\n", l.Addr())
	return httpguard.Serve(ctx, l, guard.Change(h), httpguard.Options{Log: slog.New(slog.NewTextHandler(m.err, nil))})
}

// The questions.
type (
	whyQuestion struct {
		Need  string `json:"need,omitempty" jsonschema:"name of the need, such as web-prod/0; left out, the unmet needs are listed, highest priority first"`
		Limit int    `json:"limit,omitempty" jsonschema:"most needs that are listed, 1 to 1000; 20 if left out"`
	}
	helpQuestion struct {
		Need string `json:"need" jsonschema:"name of the need, as why_unmet lists it"`
	}
	whatIfQuestion struct {
		AddMachines  []string `json:"addMachines,omitempty" jsonschema:"machines to add: POOL=COUNT, where a pool is an instance type or a machine like which they are"`
		LoseMachines []string `json:"loseMachines,omitempty" jsonschema:"ids of machines to lose"`
		LoseRacks    []string `json:"loseRacks,omitempty" jsonschema:"racks to lose"`
		LoseZones    []string `json:"loseZones,omitempty" jsonschema:"zones to lose"`
		LoseWhere    []string `json:"loseWhere,omitempty" jsonschema:"machines to lose, by a label: KEY=VALUE"`
		RemoveNeeds  []string `json:"removeNeeds,omitempty" jsonschema:"names of needs to take away"`
		Priorities   []string `json:"priorities,omitempty" jsonschema:"new priorities: NEED=NUMBER"`
		Relax        []string `json:"relax,omitempty" jsonschema:"requirements to leave out of needs: NEED=KEY"`
		Sizes        []string `json:"sizes,omitempty" jsonschema:"new sizes, all that a need asks for: NEED:cpu=8,memory=32Gi"`
		Prices       []string `json:"prices,omitempty" jsonschema:"new prices an hour: MACHINE=DOLLARS or POOL=DOLLARS"`
	}
	happenedQuestion struct {
		What     string `json:"what,omitempty" jsonschema:"changes (the default), preemptions or cycles"`
		Minutes  int    `json:"minutes,omitempty" jsonschema:"how many minutes to look back, 60 if left out"`
		Text     string `json:"text,omitempty" jsonschema:"of changes: only what has this text"`
		OverMSec int    `json:"overMilliseconds,omitempty" jsonschema:"of cycles: only those that took as long"`
	}
	costQuestion struct{}
)

// server makes the server with its five tools.
func (m *mcpServer) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "tonnage", Title: "Tonnage", Version: versionText()}, &mcp.ServerOptions{
		Instructions: "Tonnage matches what Kubernetes clusters need with one pool of machines. These tools answer questions about that fleet and change nothing. Begin with why_unmet.",
	})
	addQuestion(m, server, "why_unmet", "Why a need does not get its machines: which requirement leaves how many machines, who holds them, what each domain could hold. Without a name, the needs that are unmet, with a reason each.", m.why)
	addQuestion(m, server, "what_would_help", "What would satisfy a need that is unmet, each really tried: the least extra machines and their price, the lowest priority and who would pay for it, the requirement without which it is satisfied.", m.help)
	addQuestion(m, server, "what_if", "What a change would do and cost: machines added or lost, racks or zones lost, needs removed, priorities, sizes and prices changed. Nothing is changed by asking.", m.ask)
	addQuestion(m, server, "what_happened", "What happened in a running fleet: what changed, who was preempted for whom, or which cycles took long.", m.happened)
	addQuestion(m, server, "what_does_it_cost", "What the fleet costs in dollars an hour: list prices, what interruptions cost, idle machines, by instance type.", m.cost)
	return server
}

// addQuestion adds a tool that is answered by a command.
func addQuestion[In any](m *mcpServer, server *mcp.Server, name, description string, args func(In) ([]string, error)) {
	no := false
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		command, err := args(in)
		if err != nil {
			return nil, nil, err
		}
		text, err := m.answer(ctx, command)
		if err != nil {
			return nil, nil, err
		}
		result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}
		if bytes.HasPrefix(text, []byte("{")) && json.Valid(text) {
			result.StructuredContent = json.RawMessage(text)
		}
		return result, nil, nil
	})
}

// answer runs a command and returns what it writes. An error is what the command says.
func (m *mcpServer) answer(ctx context.Context, command []string) ([]byte, error) {
	select {
	case m.waiting <- struct{}{}:
		defer func() { <-m.waiting }()
	default:
		return nil, fmt.Errorf("%d questions are waiting already; ask again in a moment", mcpWaitingMax)
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, wrong := &bounded{most: mcpAnswerBytesMax}, &bounded{most: pageErrorBytesMax}
	code := run(ctx, command, streams{in: strings.NewReader(""), out: out, err: wrong})
	switch {
	case out.over:
		return nil, fmt.Errorf("the answer is longer than %d KiB; ask for less", mcpAnswerBytesMax>>10)
	case code != exitOK:
		return nil, errors.New(strings.TrimSpace(wrong.String()))
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// bounded keeps the first bytes of what is written.
type bounded struct {
	bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.over = true
		b.Buffer.Write(p[:max(0, b.most-b.Len())])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// of is a command with the source and the format.
func (m *mcpServer) of(command ...string) []string {
	command = append(command, "--output=json")
	if m.source.file != "" {
		return append(command, "--file="+m.source.file)
	}
	command = append(command, "--shard="+m.source.shard)
	p := m.source.page
	for flag, value := range map[string]string{"token-file": p.tokenFile, "tls-cert": p.tls.Cert, "tls-key": p.tls.Key, "tls-ca": p.tls.CA, "tls-deny": p.tls.Deny} {
		if value != "" {
			command = append(command, "--"+flag+"="+value)
		}
	}
	return command
}

func (m *mcpServer) why(q whyQuestion) ([]string, error) {
	switch {
	case q.Need != "":
		return append(m.of("explain", "need"), "--", q.Need), nil
	case m.source.file != "":
		return m.of("decide"), nil
	case q.Limit != 0:
		return m.of("fleet", "needs", fmt.Sprint("--limit=", q.Limit)), nil
	}
	return m.of("fleet", "needs"), nil
}

func (m *mcpServer) help(q helpQuestion) ([]string, error) {
	return append(m.of("explain", "need", "--help-me"), "--", q.Need), nil
}

func (m *mcpServer) ask(q whatIfQuestion) ([]string, error) {
	command := m.of("what-if")
	for _, change := range []struct {
		flag   string
		values []string
	}{
		{"add", q.AddMachines}, {"lose", q.LoseMachines}, {"lose-rack", q.LoseRacks}, {"lose-zone", q.LoseZones}, {"lose-where", q.LoseWhere},
		{"remove", q.RemoveNeeds}, {"priority", q.Priorities}, {"relax", q.Relax}, {"size", q.Sizes}, {"price", q.Prices},
	} {
		for _, value := range change.values {
			command = append(command, "--"+change.flag+"="+value)
		}
	}
	return command, nil
}

// aboutTheLive refuses what a file cannot answer.
func (m *mcpServer) aboutTheLive() error {
	if m.source.file == "" {
		return nil
	}
	return errors.New("a world in a file has no past; this server must be started with --shard for that")
}

func (m *mcpServer) happened(q happenedQuestion) ([]string, error) {
	if err := m.aboutTheLive(); err != nil {
		return nil, err
	}
	if q.Minutes < 0 || q.OverMSec < 0 {
		return nil, errors.New("minutes and overMilliseconds cannot be negative")
	}
	last := "--last=1h"
	if q.Minutes > 0 {
		last = fmt.Sprintf("--last=%dm", q.Minutes)
	}
	switch q.What {
	case "", "changes":
		return m.of("fleet", "changes", last, "--text="+q.Text), nil
	case "preemptions":
		return m.of("fleet", "preemptions", last), nil
	case "cycles":
		return m.of("fleet", "cycles", fmt.Sprintf("--over=%dms", q.OverMSec)), nil
	}
	return nil, fmt.Errorf("what must be changes, preemptions or cycles, got %.40q", q.What)
}

func (m *mcpServer) cost(costQuestion) ([]string, error) {
	if m.source.file != "" {
		return m.of("decide"), nil
	}
	return m.of("fleet", "money"), nil
}
