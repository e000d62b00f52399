package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/provider"
)

// orphanList is the answer of /orphans.
type orphanList struct {
	Orphans []provider.Orphan `json:"orphans"`
}

const (
	orphansTimeout  = 10 * time.Second
	orphansBytesMax = 64 << 20
)

func newOrphans(s streams) *cobra.Command {
	var address, output string
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List machines that exist and that nobody asked for",
		Long: `Orphans lists what drivers have found, that no record asked for and that could not be adopted, each
with the reason. The provider never deletes them, since another program may use them. The exit code is 1 when the list is not empty.`,
		Example: "  tonnage-provider orphans --addr http://127.0.0.1:8800",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return badInput(fmt.Errorf("-o must be table or json, got %q", output))
			}
			list, err := askOrphans(cmd.Context(), address)
			if err != nil {
				return err
			}
			return writeOrphans(s.out, list, output)
		},
	}
	cmd.Flags().StringVar(&address, "addr", "http://127.0.0.1:8800", "URL of the provider's --metrics-addr, on this machine")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func askOrphans(ctx context.Context, address string) (orphanList, error) {
	var out orphanList
	ctx, cancel := context.WithTimeout(ctx, orphansTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/orphans", nil)
	if err != nil {
		return out, badInput(fmt.Errorf("--addr: %w", err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, fmt.Errorf("%w; is the provider running, and is --addr its --metrics-addr?", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	return out, json.NewDecoder(io.LimitReader(resp.Body, orphansBytesMax)).Decode(&out)
}

func writeOrphans(w io.Writer, list orphanList, output string) error {
	var err error
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(list)
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "DRIVER\tMACHINE\tGENERATION\tTYPE\tZONE\tPHASE\tCLUSTER\tREF\tSINCE\tWHY")
		for _, o := range list.Orphans {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Driver, o.ID, o.Generation, o.InstanceType, o.Zone, o.Phase, o.Cluster, o.Ref, o.Since.UTC().Format(time.RFC3339), o.Why)
		}
		err = t.Flush()
	}
	if n := len(list.Orphans); n > 0 {
		return errors.Join(err, fmt.Errorf("%d orphans", n))
	}
	return err
}
