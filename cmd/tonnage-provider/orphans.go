package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/provider"
	"github.com/tonnage/tonnage/provider/calls"
)

// orphanList is the answer of GET /orphans.
type orphanList struct {
	Orphans []provider.Orphan `json:"orphans"`
}

// handleOrphans adds GET and DELETE /orphans to a mux.
func (x *serving) handleOrphans(mux *http.ServeMux, guard *httpguard.Guard) {
	x.reads(mux, guard, "/orphans", func(p *provider.Provider) any { return orphanList{Orphans: p.Orphans()} })
	mux.Handle("DELETE /orphans", guard.Change(x.atWork(deleteOrphan)))
}

// deleteOrphan answers DELETE /orphans?driver=D&id=ID&generation=N.
func deleteOrphan(w http.ResponseWriter, r *http.Request, p *provider.Provider) {
	q := r.URL.Query()
	generation, err := strconv.ParseUint(q.Get("generation"), 10, 64)
	if err != nil {
		http.Error(w, fmt.Sprintf("generation must be a number, got %q", q.Get("generation")), http.StatusBadRequest)
		return
	}
	switch err := p.DeleteOrphan(r.Context(), q.Get("driver"), q.Get("id"), generation); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, calls.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, provider.ErrOrphanBusy):
		http.Error(w, err.Error(), http.StatusConflict)
	default: // the driver's end
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// orphansFlags are the flags of orphans and its subcommands, as given.
type orphansFlags struct {
	asker
	driver string
	yes    bool
}

func newOrphans(s streams) *cobra.Command {
	var f orphansFlags
	list := func(cmd *cobra.Command, _ []string) error { return f.list(cmd.Context(), s) }
	parent := &cobra.Command{
		Use:   "orphans",
		Short: "List or delete machines that exist and that nobody asked for",
		Long: `Orphans are what drivers have found, that no record asked for and that could not be adopted, each
with the reason. The provider itself never deletes them, since another program may use them.

Without a subcommand they are listed.`,
		Example: "  tonnage-provider orphans --addr http://127.0.0.1:8800\n  tonnage-provider orphans delete --yes rack1-x2f-17",
		Args:    noArguments,
		RunE:    list,
	}
	f.addressFlag(parent)
	f.outputFlag(parent)
	lister := &cobra.Command{
		Use: "list", Short: "List orphans; the exit code is 1 when there are any", Args: noArguments, RunE: list,
		Example: "  tonnage-provider orphans list\n  tonnage-provider orphans list -o json | jq -r '.orphans[].id'",
	}
	f.outputFlag(lister)
	remover := &cobra.Command{
		Use:   "delete ID[/GENERATION]...",
		Short: "Have the drivers of orphans delete them",
		Long: `Delete has the driver of each orphan named delete it. An id names all generations of its machine that are orphans.
Nothing is deleted without --yes: what would be is listed.

The driver has accepted it when the command ends; the orphan is listed until a round has shown that it is gone.
The exit code is 1 when an orphan was not found or its driver failed, 2 without --yes.`,
		Example: "  tonnage-provider orphans delete rack1-x2f-17           # says what would be deleted\n  tonnage-provider orphans delete --yes rack1-x2f-17/2",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.remove(cmd.Context(), s, args) },
	}
	f.outputFlag(remover)
	remover.Flags().StringVar(&f.driver, "driver", "", "only orphans of this driver")
	remover.Flags().BoolVar(&f.yes, "yes", false, "delete them")
	parent.AddCommand(lister, remover)
	return parent
}

func (f *orphansFlags) list(ctx context.Context, s streams) error {
	if err := f.checkFlags(); err != nil {
		return err
	}
	all, err := f.all(ctx)
	if err == nil {
		err = f.show(s.out, all)
	}
	if n := len(all.Orphans); err == nil && n > 0 {
		return fmt.Errorf("%d orphans", n)
	}
	return err
}

// remove deletes the orphans named, or lists them without --yes.
func (f *orphansFlags) remove(ctx context.Context, s streams, names []string) error {
	if err := f.checkFlags(); err != nil {
		return err
	}
	if len(names) == 0 {
		return badInput(errors.New("name the orphans, as ID or ID/GENERATION; `tonnage-provider orphans list` has them"))
	}
	all, err := f.all(ctx)
	if err != nil {
		return err
	}
	chosen, missing := f.choose(all, names)
	if !f.yes {
		if err := f.show(s.out, chosen); err != nil {
			return err
		}
		return badInput(errors.Join(missing, fmt.Errorf("nothing is deleted; give --yes to delete the %d orphans listed", len(chosen.Orphans))))
	}
	done := orphanList{Orphans: []provider.Orphan{}}
	failures := []error{missing}
	for _, o := range chosen.Orphans {
		q := url.Values{"driver": {o.Driver}, "id": {o.ID}, "generation": {strconv.FormatUint(o.Generation, 10)}}
		if err := f.call(ctx, http.MethodDelete, "/orphans?"+q.Encode(), nil); err != nil {
			failures = append(failures, fmt.Errorf("%s/%d of driver %s: %w", o.ID, o.Generation, o.Driver, err))
			continue
		}
		done.Orphans = append(done.Orphans, o)
	}
	fmt.Fprintf(s.err, "%d orphans are being deleted\n", len(done.Orphans))
	return errors.Join(append(failures, f.show(s.out, done))...)
}

// choose returns the orphans that are named, and names that none has.
func (f *orphansFlags) choose(all orphanList, names []string) (orphanList, error) {
	chosen := orphanList{Orphans: []provider.Orphan{}}
	var missing []error
	taken := map[int]bool{}
	for _, name := range names {
		found := false
		for i, o := range all.Orphans {
			if (name == o.ID || name == fmt.Sprintf("%s/%d", o.ID, o.Generation)) && (f.driver == "" || f.driver == o.Driver) {
				found = true
				if !taken[i] {
					taken[i] = true
					chosen.Orphans = append(chosen.Orphans, o)
				}
			}
		}
		if !found {
			missing = append(missing, fmt.Errorf("%q names no orphan%s", name, map[bool]string{true: " of driver " + f.driver}[f.driver != ""]))
		}
	}
	return chosen, errors.Join(missing...)
}

func (f *orphansFlags) all(ctx context.Context) (orphanList, error) {
	out := orphanList{Orphans: []provider.Orphan{}}
	return out, f.call(ctx, http.MethodGet, "/orphans", &out)
}

func (f *orphansFlags) show(w io.Writer, list orphanList) error {
	return f.write(w, list, "DRIVER MACHINE GENERATION TYPE ZONE PHASE CLUSTER REF SINCE WHY", func(add func(cells ...any)) {
		for _, o := range list.Orphans {
			add(o.Driver, o.ID, o.Generation, o.InstanceType, o.Zone, o.Phase, o.Cluster, o.Ref, o.Since, o.Why)
		}
	})
}
