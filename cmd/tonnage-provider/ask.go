package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/provider"
)

const (
	// askTimeout is longer than a driver may take over a Delete.
	askTimeout     = 45 * time.Second
	answerBytesMax = 64 << 20
)

// asker is a command that asks a provider which runs.
type asker struct{ address, output string }

func (a *asker) addressFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&a.address, "addr", "http://127.0.0.1:8800", "URL of the provider's --metrics-addr, on this machine")
}

func (a *asker) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "table, json or yaml")
}

// checkFlags returns what is wrong with the flags.
func (a *asker) checkFlags() error {
	switch a.output {
	case "table", "json", "yaml":
	default:
		return badInput(fmt.Errorf("-o must be table, json or yaml, got %q", a.output))
	}
	if u, err := url.Parse(a.address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return badInput(fmt.Errorf("--addr must be a URL such as http://127.0.0.1:8800, got %q", a.address))
	}
	return nil
}

// call asks the provider, and decodes its answer unless into is nil.
func (a *asker) call(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.address, "/")+path, nil)
	if err != nil {
		return badInput(fmt.Errorf("--addr: %w", err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w; is the provider running, and is --addr its --metrics-addr?", err)
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, answerBytesMax)
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(body, 4096))
		return fmt.Errorf("the provider answers %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(body).Decode(into)
}

// encode writes an answer as JSON or YAML.
func encode(w io.Writer, answer any, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	text, err := yaml.Marshal(answer)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// write writes an answer as JSON or YAML, or as a table with a header and the rows that rows adds.
func (a *asker) write(w io.Writer, answer any, header string, rows func(add func(cells ...any))) error {
	if a.output != "table" {
		return encode(w, answer, a.output)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(header, " ", "\t"))
	rows(func(cells ...any) {
		for i, c := range cells {
			if at, ok := c.(time.Time); ok {
				cells[i] = at.UTC().Format(time.RFC3339)
			}
		}
		fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	})
	return t.Flush()
}

// reads adds GET of a path to a mux, which is answered with what the provider at work says.
func (x *serving) reads(mux *http.ServeMux, guard *httpguard.Guard, path string, say func(*provider.Provider) any) {
	mux.Handle("GET "+path, guard.Read(x.atWork(func(w http.ResponseWriter, _ *http.Request, p *provider.Provider) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(say(p)) // the reader may have gone
	})))
}

// atWork answers what only the process that works can.
func (x *serving) atWork(do func(w http.ResponseWriter, r *http.Request, p *provider.Provider)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := x.working(); p != nil {
			do(w, r, p)
			return
		}
		http.Error(w, "this process stands by; ask the one that works", http.StatusServiceUnavailable)
	})
}
