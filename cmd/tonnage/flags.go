package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/workload"
)

// hereMark ends what a flag means in all commands, and begins what it means in one of them in
// particular.
const hereMark = "; here: "

// What flags mean that several commands have. A test walks all commands and compares.
const (
	fileUsage             = `file to read, JSON or YAML; "-" reads standard input`
	outputUsage           = "json, yaml or table (default: table on a terminal, json elsewhere)"
	shardUsage            = "address of a running shard's page: host:port, or a URL"
	shardAddrUsage        = "address of a shard for operators and tools: host:port"
	coordinatorUsage      = "addresses of the coordinator's replicas, with commas between"
	shardIDUsage          = "name of a shard"
	clusterUsage          = "name of a cluster"
	limitUsage            = "at most so many rows"
	stateUsage            = "only in this state"
	keyUsage              = "topology key, such as topology.kubernetes.io/zone"
	valueUsage            = "value of the key"
	typeUsage             = "only of this instance type"
	tokenUsage            = "file with the token of a page"
	timeoutUsage          = "how long to try"
	onceUsage             = "end after one answer"
	listUsage             = "list what there is, and end"
	dryRunUsage           = "say what would be done, and change nothing"
	seedUsage             = "seed of everything that is drawn at random"
	listenUsage           = "address to listen on; port 0 takes a free one"
	advertiseUsage        = "address by which others reach this process"
	raftAdvertiseUsage    = "where the other replicas reach this one"
	idUsage               = "name of this process; the same from one start to the next, and no other's"
	dataDirUsage          = "folder of what must not be lost"
	auditLogUsage         = "file of what became of every action, one JSON object a line"
	providerIdentityUsage = "the URI that the provider's certificate must hold, such as bigfleet://provider/NAME or spiffe://DOMAIN/PATH"
	seedMachinesUsage     = "so many Idle machines at the start"
	seedSpeculativeUsage  = "so many machines that could be bought"
	seedSpotUsage         = "so many spot machines that could be bought"
)

func rungUsage() string { return "calibrated workload: " + strings.Join(workload.Names(), ", ") }

// Defaults of --shard: the page of `tonnage up`, and that of a shard at its metrics.
const (
	topShardDefault = "http://127.0.0.1:8080"
	ctlPageDefault  = "http://127.0.0.1:8780"
)

// shardFlag adds --shard: the page of a running shard.
func shardFlag(cmd *cobra.Command, address *string, byDefault string) {
	cmd.Flags().StringVar(address, "shard", byDefault, shardUsage)
}

// shardAddrFlag adds --shard-addr: where a shard answers operators, and tools that speak gRPC.
func shardAddrFlag(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "shard-addr", ctlShardDefault, shardAddrUsage)
}

// annotationHereOnly marks a flag that neither the environment nor a context gives: the name
// means something else in other commands.
const annotationHereOnly = "tonnage-here-only"

// shardIDFlag adds --shard as the public project's tool has it: the name of a shard. Scripts use it, so it
// keeps that name; a variable or a context with an address is not for it.
func shardIDFlag(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "shard", "", shardIDUsage)
	_ = cmd.Flags().SetAnnotation("shard", annotationHereOnly, []string{"true"})
}

// alsoCalled lets a command take a flag by a name that it had in an earlier version. It must be called when the
// flags are there.
func alsoCalled(cmd *cobra.Command, before, now string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == before {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}
