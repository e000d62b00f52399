package main

import (
	"context"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/httpguard"
	"github.com/tonnage/tonnage/provider"
)

// heldList is the answer of GET /offers.
type heldList struct {
	Held []provider.Held `json:"held"`
}

// handleOffers adds GET /offers to a mux.
func (x *serving) handleOffers(mux *http.ServeMux, guard *httpguard.Guard) {
	x.reads(mux, guard, "/offers", func(p *provider.Provider) any { return heldList{Held: p.Held()} })
}

func newOffers(s streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use:   "offers",
		Short: "List offers that are held back, with the reason",
		Long: `An offer is held back when there is no capacity for it, or when its machines fail: its free slots are listed as Failed until
the time given. Then one slot is offered, and all of them when a machine of it is made.`,
		Example: "  tonnage-provider offers --addr http://127.0.0.1:8800\n  tonnage-provider offers -o json | jq -r '.held[].why'",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listHeld(cmd.Context(), s.out, &a) },
	}
	a.addressFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

func listHeld(ctx context.Context, w io.Writer, a *asker) error {
	if err := a.checkFlags(); err != nil {
		return err
	}
	list := heldList{Held: []provider.Held{}}
	if err := a.call(ctx, http.MethodGet, "/offers", &list); err != nil {
		return err
	}
	return a.write(w, list, "POOL TYPE ZONE CAPACITY UNTIL FAILURES WHY", func(add func(cells ...any)) {
		for _, o := range list.Held {
			add(o.Pool, o.InstanceType, o.Zone, o.CapacityType, o.Until, o.Failures, o.Why)
		}
	})
}
