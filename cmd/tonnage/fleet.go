package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleetview"
	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

const (
	// fleetTimeoutDefault bounds a question about a fleet.
	fleetTimeoutDefault = 30 * time.Second
	// fleetAnswerBytesMax bounds what a shard may answer.
	fleetAnswerBytesMax = 64 << 20
	// fleetLimitDefault is how many rows lists have.
	fleetLimitDefault = 20
	// fleetLimitMax is what the API gives at a time.
	fleetLimitMax = 1000
)

// fleetQuestion asks the API of a running shard one question.
type fleetQuestion struct {
	streams
	shard   string
	output  string
	timeout time.Duration
	page    pageClient
}

func newFleet(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Ask a running shard about its fleet",
		Long: `Fleet asks the API of a running shard, below /api/v1 of its page, and shows the answer: what
is unmet, clusters and tenants, domains and what they could hold, machines, money, and what
happened in the last hour. JSON is as the API has it (docs/reference/http.md). Nothing is
changed by asking.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		fleetNeeds(s), fleetClusters(s), fleetTenants(s), fleetDomains(s), fleetMachines(s), fleetMachine(s),
		fleetMoney(s), fleetCycles(s), fleetChanges(s), fleetPreemptions(s), fleetPlans(s),
	)
	return cmd
}

// register adds the flags that all questions have.
func (q *fleetQuestion) register(cmd *cobra.Command) {
	shardFlag(cmd, &q.shard, topShardDefault)
	outputFlag(cmd, &q.output)
	cmd.Flags().DurationVar(&q.timeout, "timeout", fleetTimeoutDefault, timeoutUsage)
	q.page.register(cmd)
}

// limitFlag adds how many rows a list has.
func limitFlag(cmd *cobra.Command, limit *int32, what string) {
	cmd.Flags().Int32Var(limit, "limit", fleetLimitDefault, limitUsage+hereMark+what)
}

// checkLimit refuses what the API would.
func checkLimit(limit int32) error {
	if limit < 1 || limit > fleetLimitMax {
		return badInput(fmt.Errorf("--limit must be between 1 and %d, got %d", fleetLimitMax, limit))
	}
	return nil
}

// textFlag adds a text that rows must have.
func textFlag(cmd *cobra.Command, text *string) {
	cmd.Flags().StringVar(text, "text", "", "only what has this text, in a name or a description")
}

// ask asks a question by its name below /api/v1.
func (q *fleetQuestion) ask(ctx context.Context, name string, values url.Values) (json.RawMessage, error) {
	u, err := pageURL("shard", q.shard)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath(web.QueryPath, name)
	for key := range values {
		if values.Get(key) == "" {
			delete(values, key)
		}
	}
	u.RawQuery = values.Encode()
	res, err := q.page.do(ctx, http.MethodGet, u)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		if text := said(res); !isForeign(text) {
			return nil, badInput(errors.New(text))
		}
		return nil, badInput(foreign(u, res))
	default:
		return nil, refusal(u, res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, fleetAnswerBytesMax+1))
	if err == nil && len(body) > fleetAnswerBytesMax {
		err = fmt.Errorf("the answer is longer than %d MiB", fleetAnswerBytesMax>>20)
	}
	return body, err
}

// within bounds a question.
func (q *fleetQuestion) within(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if q.timeout <= 0 {
		return nil, nil, badInput(fmt.Errorf("--timeout must be positive, got %v; give one such as %v", q.timeout, fleetTimeoutDefault))
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	return ctx, cancel, nil
}

// answer asks, and writes the answer: the JSON of the API, or what show makes of it.
func answer[T any](ctx context.Context, q *fleetQuestion, name string, values url.Values, show func(out io.Writer, a *T) error) error {
	format, err := formatOf(q.streams, q.output)
	if err != nil {
		return err
	}
	ctx, cancel, err := q.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	body, err := q.ask(ctx, name, values)
	if err != nil {
		return err
	}
	if format == formatJSON {
		var out bytes.Buffer
		if err := json.Indent(&out, body, "", "  "); err != nil {
			return fmt.Errorf("what the shard answers is no JSON: %w", err)
		}
		out.WriteByte('\n')
		_, err := out.WriteTo(q.out)
		return err
	}
	var a T
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("what the shard answers cannot be read: %w; is it of another version?", err)
	}
	return show(q.out, &a)
}

// at writes a time of the API.
func at(millis int64) string {
	if millis == 0 {
		return noTime
	}
	return time.UnixMilli(millis).Format("15:04:05")
}

// perHour writes a price; JSON has it exactly.
func perHour(v float64) string { return terminal.Cents(v) }

// numbered writes a count of things.
func numbered(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(int64(n)) + " " + one + "s"
}

// vectorText writes a vector in short.
func vectorText(list []fleetview.Amount) string {
	out := ""
	for i, a := range list {
		if i > 0 {
			out += ", "
		}
		out += a.Name + "=" + model.FormatQuantity(a.Name, a.Value)
	}
	return orNone(out)
}

// shownOf says how much of a list is shown.
func shownOf(out io.Writer, shown, total int, what string) error {
	if shown >= total {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d of %s %s are shown; --limit shows more\n", shown, grouped(int64(total)), what)
	return err
}

// since returns the times of a query that looks back.
func since(values url.Values, last time.Duration) error {
	if last <= 0 {
		return badInput(fmt.Errorf("--last must be positive, got %v; give one such as 1h", last))
	}
	values.Set("from", strconv.FormatInt(time.Now().Add(-last).UnixMilli(), 10))
	return nil
}

// lastFlag adds how far a question looks back.
func lastFlag(cmd *cobra.Command, last *time.Duration) {
	cmd.Flags().DurationVar(last, "last", time.Hour, "how far back to look; a shard keeps the last hour or 1,000 cycles, whichever is longer")
}
