package world

import (
	"fmt"
	"io"
	"math"

	"github.com/tonnage/tonnage/internal/terminal"
)

// tell writes the funnel, a line for each step.
func (x *Funnel) tell(w io.Writer) {
	line := func(left int, format string, args ...any) {
		fmt.Fprintf(w, "  %9s %s\n", grouped(left), fmt.Sprintf(format, args...))
	}
	line(x.Machines, "%s in the fleet", verb(x.Machines, "machine", "machines"))
	if x.Usable != x.Machines {
		line(x.Usable, "in a usable state; %s Deleting or Failed", grouped(x.Machines-x.Usable))
	}
	for i := range x.Requirements {
		q := &x.Requirements[i]
		nearest := ""
		if q.Nearest != "" {
			nearest = ": " + cell(q.Nearest)
		}
		line(q.Leaves, "meet `%s`%s", cell(q.Says), nearest)
		if q.Leaves == 0 {
			return
		}
	}
	if x.Size.Nearest != "" {
		line(0, "large enough: %s", cell(x.Size.Nearest))
		return
	}
	line(x.Size.Leaves, "large enough, with %s together", cell(vector(x.Capacity)))
	if x.Reserved > 0 {
		line(x.Reserved, "of them held for other needs")
	}
	if x.Own > 0 {
		line(x.Own, "of them its own")
	}
	for i := range x.Holders {
		if i == holdersMax {
			fmt.Fprintf(w, "            … and %d more holders; -o json lists them all\n", len(x.Holders)-holdersMax)
			break
		}
		h := &x.Holders[i]
		line(h.Machines, "of them %s", h.says())
	}
	line(x.Free, "of them free")
	x.tellDomains(w)
}

func (x *Funnel) tellVerdict(w io.Writer) {
	if x.Verdict != "" {
		fmt.Fprintf(w, "  %s\n", cell(x.Verdict))
	}
}

// says puts a holder into words.
func (h *Holder) says() string {
	switch {
	case !h.Claimed:
		return fmt.Sprintf("bound to cluster %s, whose needs do not claim them", cell(h.Cluster))
	case h.Need != "":
		return fmt.Sprintf("with need %s of cluster %s, priority %d%s", cell(h.Need), cell(h.Cluster), h.Priority, h.standing())
	}
	return fmt.Sprintf("with needs of cluster %s, priority %d%s", cell(h.Cluster), h.Priority, h.standing())
}

func (h *Holder) standing() string {
	if h.Higher {
		return ": out of reach"
	}
	return ""
}

func (x *Funnel) tellDomains(w io.Writer) {
	if len(x.Domains) == 0 {
		return
	}
	t := terminal.NewTable("DOMAIN", "FIT", "OWN", "FREE", "COULD TAKE", "OUT OF REACH", "MISSING", "IF EMPTY").Indent(2)
	for i := range x.Domains[:min(len(x.Domains), funnelDomainsMax)] {
		d := &x.Domains[i]
		t.Row(cell(d.Value), d.Fit, d.Own, d.Free-d.Own, d.Lower, d.Higher, cell(vector(d.Lacks)), fmt.Sprintf("%.0f %%", math.Floor(100*d.Share)))
	}
	_ = t.Write(w) // the first error stays with w
	if more := len(x.Domains) - funnelDomainsMax; more > 0 {
		fmt.Fprintf(w, "  … and %d more; -o json lists them all\n", more)
	}
}

// write writes the funnel as JSON.
func (x *Funnel) write(j *jsonWriter) {
	count := func(key string, n int) {
		j.key(key)
		j.int(int64(n))
	}
	j.key("funnel")
	j.open('{')
	count("machines", x.Machines)
	count("usable", x.Usable)
	j.key("requirements")
	j.open('[')
	for i := range x.Requirements {
		q := &x.Requirements[i]
		j.open('{')
		j.word("requirement", q.Says)
		count("leaves", q.Leaves)
		count("alone", q.Alone)
		j.word("nearest", q.Nearest)
		j.close('}')
	}
	j.close(']')
	j.key("size")
	j.open('{')
	count("leaves", x.Size.Leaves)
	j.word("nearest", x.Size.Nearest)
	j.close('}')
	j.vector("capacity", x.Capacity)
	count("reserved", x.Reserved)
	count("own", x.Own)
	count("free", x.Free)
	x.writeHolders(j, count)
	j.word("verdict", x.Verdict)
	j.close('}')
}

func (x *Funnel) writeHolders(j *jsonWriter, count func(key string, n int)) {
	j.key("holders")
	j.open('[')
	for i := range x.Holders {
		h := &x.Holders[i]
		j.open('{')
		j.word("cluster", h.Cluster)
		j.word("need", h.Need)
		j.key("priority")
		j.int(int64(h.Priority))
		j.flag("unclaimed", !h.Claimed)
		j.flag("outOfReach", h.Higher)
		j.key("machines")
		j.int(int64(h.Machines))
		j.close('}')
	}
	j.close(']')
	if len(x.Domains) == 0 {
		return
	}
	j.key("domains")
	j.open('[')
	for i := range x.Domains {
		d := &x.Domains[i]
		j.open('{')
		j.key("domain")
		j.text(d.Value)
		j.key("fit")
		j.int(int64(d.Fit))
		j.key("free")
		j.int(int64(d.Free))
		count("own", d.Own)
		count("takeable", d.Lower)
		count("outOfReach", d.Higher)
		j.number("share", d.Share)
		j.vector("missing", d.Missing)
		j.vector("lacks", d.Lacks)
		j.close('}')
	}
	j.close(']')
}
