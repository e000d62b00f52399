package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/internal/terminal"
)

// memberRow is a replica as members prints it.
type memberRow struct {
	Replica string   `json:"replica"`
	Role    string   `json:"role"` // leader, voter or learner
	Peers   []string `json:"peerURLs"`
}

func (c *ctl) members() *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "List the coordinator's replicas", Example: "  tonnage ctl members", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := []memberRow{}
			err := c.call(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				got, err := tonnage.NewFleetClient(conn).Members(ctx, &tonnage.MembersRequest{})
				rows = rows[:0]
				for _, m := range got.GetMembers() {
					role := "voter"
					switch {
					case m.GetLeads():
						role = "leader"
					case m.GetLearner():
						role = "learner"
					}
					rows = append(rows, memberRow{m.GetReplica(), role, m.GetPeerUrls()})
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(rows, "REPLICA ROLE PEER_URL", func(t *terminal.Table) {
				for _, r := range rows {
					t.Row(orNone(r.Replica), r.Role, strings.Join(r.Peers, ","))
				}
			})
		},
	}
}

func (c *ctl) removeMember() *cobra.Command {
	var replica string
	cmd := &cobra.Command{
		Use: "remove-member", Short: "Take a replica that is gone for good out of the coordinator's group",
		Example: "  tonnage ctl remove-member --replica coordinator-2", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.removal(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
				_, err := tonnage.NewFleetClient(conn).RemoveMember(ctx, &tonnage.RemoveMemberRequest{Replica: replica}, opts...)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&replica, "replica", "", "name of the replica, its --id")
	return required(cmd, "replica")
}
