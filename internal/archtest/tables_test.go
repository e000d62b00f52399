package archtest

// layer is what a package may import itself, beside the standard library.
type layer struct {
	pkg       string
	packages  []string
	libraries []string
	because   string
}

// layers is read from the top; the first line that fits a package holds.
var layers = []layer{
	{pkg: "./internal/invariants", because: "checks of the lowest layers know nothing above them"},
	{pkg: "./alloc", packages: []string{"./internal/invariants"}, libraries: []string{"golang.org/x/sys/..."},
		because: "memory knows nothing of what lies in it"},
	{pkg: "./bitmap", packages: []string{"./alloc", "./internal/invariants"}, libraries: []string{"github.com/RoaringBitmap/roaring/v2"},
		because: "a set of row numbers knows no columns"},
	{pkg: "./columnar", packages: []string{"./alloc", "./bitmap", "./internal/invariants"}, libraries: []string{"github.com/cespare/xxhash/v2"},
		because: "a column knows no machine and no need"},

	{pkg: "./engine/model", libraries: []string{"github.com/cespare/xxhash/v2"},
		because: "the vocabulary stands on nothing, so that everybody may speak it"},
	{pkg: "./engine/demand", packages: []string{"./alloc", "./bitmap", "./columnar", "./engine/model"},
		because: "the demand table does not know the supply, nor who decides"},
	{pkg: "./engine/supply", packages: []string{"./alloc", "./bitmap", "./columnar", "./engine/model"}, libraries: []string{"github.com/RoaringBitmap/roaring/v2"},
		because: "the machine table does not know the demand, nor who decides"},
	{pkg: "./engine/snapshot", packages: []string{"./alloc", "./bitmap", "./columnar", "./engine/model", "./engine/demand", "./engine/supply"},
		because: "the frozen view joins both tables and decides nothing"},
	{pkg: "./engine/reference", packages: []string{"./engine/model"},
		because: "a twin that shared code with the engine would share its faults"},
	{pkg: "./engine", packages: []string{"./alloc", "./bitmap", "./columnar", "./engine/model", "./engine/demand", "./engine/supply", "./engine/snapshot", "./internal/invariants"},
		because: "the decision is a function of values: tables in, plan out"},

	{pkg: "./shard", packages: []string{"./columnar", "./engine", "./engine/model", "./engine/demand", "./engine/supply"}, libraries: []string{"github.com/prometheus/client_golang/prometheus"},
		because: "the process around the engine reaches down to it, never out to its own edges"},
	{pkg: "./shard/provider", packages: []string{"./engine/model", "./shard"},
		because: "a provider speaks of machines and of the shard's calls, not of decisions"},
	{pkg: "./web", libraries: []string{"github.com/prometheus/client_golang/prometheus/..."},
		because: "the page is told what to show; it asks nobody"},
	{pkg: "./web/...", packages: []string{"./web"},
		because: "what tries the page knows the page only"},

	{pkg: "./internal/world/document", libraries: []string{"go.yaml.in/yaml/v3"},
		because: "reading a tree of values needs no knowledge of what they mean"},
	{pkg: "./internal/world", packages: []string{"./columnar", "./engine", "./engine/model", "./engine/demand", "./engine/supply", "./internal/sim", "./internal/world/document", "./shard"},
		because: "files are read into the engine's terms and answers written out of them"},
	{pkg: "./internal/sim", packages: []string{"./columnar", "./engine", "./engine/model", "./engine/reference", "./internal/twin", "./shard", "./shard/provider"}, libraries: []string{"github.com/cespare/xxhash/v2"},
		because: "the simulator runs the real shard and holds it to the reference"},
	{pkg: "./internal/twin", packages: []string{"./engine/..."},
		because: "this is the one place that puts the engine and its twin side by side"},
	{pkg: "./internal/fleet/...", packages: []string{"./engine/model", "./engine/reference", "./internal/fleet"},
		because: "random fleets are data, and must not know the engine that they try"},
	{pkg: "./internal/workload", packages: []string{"./engine/model"},
		because: "a workload is demand and machines, and knows nobody who serves it"},
	{pkg: "./internal/trace", packages: []string{"./engine/model", "./internal/workload"}, libraries: []string{"github.com/cespare/xxhash/v2"},
		because: "a trace is a workload that was recorded"},
	{pkg: "./internal/measure", packages: []string{"./alloc", "./columnar", "./engine", "./engine/model", "./engine/demand", "./engine/supply", "./internal/twin", "./internal/workload"}, libraries: []string{"github.com/cespare/xxhash/v2", "golang.org/x/sys/unix"},
		because: "it drives the engine alone; a figure of the shard around it would be another one"},
	{pkg: "./internal/scenario", packages: []string{"./engine/model"},
		because: "what a scenario expects is compared with output as anybody reads it, not with the engine's own values"},
	{pkg: "./benches", because: "gates are tests; nothing of them goes into the binary"},
	{pkg: "./docs", because: "the pages are held to the binary by a test; nothing imports them"},
	{pkg: "./internal/archtest", because: "it looks at the source, it does not run it"},

	{pkg: "./cmd/tonnage", packages: []string{"./engine", "./engine/...", "./internal/measure", "./internal/sim", "./internal/trace", "./internal/workload", "./internal/world", "./shard", "./shard/provider", "./web"},
		libraries: []string{"github.com/spf13/cobra", "golang.org/x/sys/unix", "golang.org/x/term", "github.com/prometheus/client_golang/prometheus/..."},
		because:   "the command is where the parts are joined"},
}

// wall is what some packages must not reach.
type wall struct {
	from    []string
	except  []string // of from
	never   []string
	direct  bool // only what they import themselves counts
	tests   bool // their tests are held to it too
	because string
}

var core = []string{"./alloc/...", "./bitmap/...", "./columnar/...", "./engine/..."}

var walls = []wall{
	{from: core, never: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/...", "./api/..."},
		because: "wire types stop at the edge that decoded them"},
	{from: core, never: []string{"github.com/prometheus/..."},
		because: "the core returns facts; only the edges publish them"},
	{from: core, never: []string{"log/..."},
		because: "the core returns facts; it has no reader to log to"},
	{from: core, never: []string{"os/...", "io/fs", "net/...", "syscall"},
		because: "the decision does no I/O, so that the same input always gives the same plan"},
	{from: core, never: []string{"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash"},
		because: "randomness is passed in; a plan is repeated byte for byte"},
	{from: core, never: []string{"k8s.io/...", "sigs.k8s.io/..."},
		because: "the engine decides for machines and needs; Kubernetes is the operator's side"},
	{from: core, never: []string{"context", "os/signal"},
		because: "a cycle runs to its end; there is nothing in it to wait for"},
	{from: core, except: []string{"./engine/reference/..."}, never: []string{"./engine/reference/..."},
		because: "the slow twin is there to doubt the engine, not to serve it"},
	{from: []string{"./shard/...", "./web/...", "./operator/...", "./coordinator/..."}, never: []string{"./engine/reference/...", "./internal/fleet/...", "./internal/twin"},
		because: "production never runs the reference"},
	{from: []string{"./cmd/...", "./internal/..."}, except: []string{"./internal/fleet/...", "./internal/sim/...", "./internal/twin"}, never: []string{"./engine/reference/..."}, direct: true,
		because: "only the simulator, the random fleets and the comparison of both know the reference"},
	{from: []string{"./shard/..."}, never: []string{"./coordinator/...", "./operator/..."}, tests: true,
		because: "a shard that knew the coordinator or an operator could come to wait for it"},
	{from: []string{"./..."}, except: []string{"./cmd/..."}, never: []string{"./cmd/..."}, tests: true,
		because: "the command joins the parts; nothing may lean on it"},
	{from: []string{"./..."}, except: []string{"./cmd/..."}, never: []string{"github.com/spf13/cobra/...", "golang.org/x/term", "flag"}, direct: true,
		because: "flags are read in the command and handed on as values"},
	{from: []string{"./cmd/..."}, never: []string{"testing/...", "k8s.io/apimachinery/...", "pgregory.net/rapid"},
		because: "what tests need does not go into the binary"},
	{from: []string{"./..."}, except: []string{"./internal/cpu"}, never: []string{"github.com/klauspost/cpuid/..."}, direct: true, tests: true,
		because: "one package looks at the processor, so that one switch turns its answer off"},
	{from: []string{"./..."}, except: []string{"./internal/world/document"}, never: []string{"go.yaml.in/yaml/..."}, direct: true,
		because: "files are read in one place, where every fault is given its path"},
}
