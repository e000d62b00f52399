package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tonnage/tonnage/internal/terminal"
	"github.com/tonnage/tonnage/web"
)

const (
	// topEventBytesMax bounds one event of the feed.
	topEventBytesMax = 1 << 20
	// topRetryGap is waited before a shard that went away is asked again.
	topRetryGap = time.Second
	// topGap is the least time between two pictures.
	topGap = 200 * time.Millisecond
	// topRows are how many clusters and actions are listed at most.
	topRows = 8
)

// topEvent is what the feed says of a cycle.
type topEvent struct {
	Frame  *web.Frame    `json:"frame"`
	Window web.Quantiles `json:"window"`
	Recent []web.Action  `json:"recent"`
}

// topFlags are the flags of top.
type topFlags struct {
	shard string
	once  bool
	color string
	page  pageClient
}

func newTop(s streams) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running shard: cycles, sessions, actions, what is unmet",
		Long: `Top shows what a running shard does, cycle by cycle: how long cycles take, machines
by state, operators connected, actions, what is unmet and why, and the clusters
that are short of most. It asks for nothing that the page does not show. On a
terminal it follows the window's size, and q or Ctrl-C ends it.`,
		Example: `  tonnage top
  tonnage top --shard http://127.0.0.1:8080 --once`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return top(cmd.Context(), s, &f) },
	}
	shardFlag(cmd, &f.shard, topShardDefault)
	cmd.Flags().BoolVar(&f.once, "once", false, onceUsage+hereMark+"of one cycle")
	cmd.Flags().StringVar(&f.color, "color", colorAuto, "colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{colorAuto, colorAlways, colorNever}, cobra.ShellCompDirectiveNoFileComp))
	f.page.register(cmd)
	return cmd
}

// top shows every cycle until the context ends or q is pressed. A shard that goes away is asked
// again, once it has answered; one that never did is an error.
func top(ctx context.Context, s streams, f *topFlags) error {
	u, err := pageURL("shard", f.shard)
	if err != nil {
		return err
	}
	color, err := colorOf(s, f.color)
	if err != nil {
		return err
	}
	view := &topScreen{out: s.out, color: color, whole: f.once || !s.terminal}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !view.whole {
		defer view.open(ctx, s.in, cancel)()
	}
	seen := false
	for {
		err := topWatch(ctx, &f.page, u.JoinPath("/events"), func(e *topEvent) bool {
			seen = true
			view.show(topText(e))
			return !view.whole
		})
		if ctx.Err() != nil {
			return nil
		}
		if err == nil || !seen {
			return err
		}
		view.say(s.err, fmt.Sprintf("%v; asking again", err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(topRetryGap):
		}
	}
}

// pageURL reads the address of a page, as a flag gives it.
func pageURL(flag, address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, badInput(fmt.Errorf("--%s: %q is no address; give one like http://127.0.0.1:8080", flag, address))
	}
	return u, nil
}

// topWatch follows the feed until show returns false, the context ends or the
// feed does.
func topWatch(ctx context.Context, page *pageClient, feed *url.URL, show func(*topEvent) bool) error {
	res, err := page.do(ctx, http.MethodGet, feed)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusal(feed, res)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 1<<16), topEventBytesMax)
	var shown time.Time
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || time.Since(shown) < topGap {
			continue
		}
		var e topEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("the feed of the shard cannot be read: %w", err)
		}
		if e.Frame == nil {
			continue
		}
		if shown = time.Now(); !show(&e) {
			return nil
		}
	}
	return cmp.Or(lines.Err(), errors.New("the shard has ended the feed"))
}

// topText draws one cycle.
func topText(e *topEvent) string {
	f := e.Frame
	var b strings.Builder
	mode := ""
	if f.Mode != web.ModeRunning {
		mode = "  [" + terminal.Escape(string(f.Mode)) + "]"
	}
	fmt.Fprintf(&b, "cycle %s at %s%s\n", grouped(int64(f.Cycle)), time.UnixMilli(f.At).Format(time.TimeOnly), mode)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, terminal.Escape(fmt.Sprintf(format, args...)))
	}
	var phases []string
	for i, ms := range f.PhaseMillis {
		phases = append(phases, fmt.Sprintf("%s %s", web.Phases[i], millis(ms)))
	}
	line("took", "%s (%s)", millis(f.CycleMillis), strings.Join(phases, ", "))
	line("lately", "p50 %s, p99 %s, max %s", millis(e.Window.P50), millis(e.Window.P99), millis(e.Window.Max))
	line("sessions", "%s; %s clusters with demand", grouped(int64(f.Sessions)), grouped(int64(f.Clusters)))
	line("machines", "%s", counts(web.States[:], f.Machines[:]))
	line("needs", "%s of %s satisfied (%s)", grouped(int64(f.Satisfied)), grouped(int64(f.Needs)), share(f.Satisfied, f.Needs))
	for _, r := range f.Reasons {
		line("", "%s unmet: %s", grouped(int64(r.Count)), r.Reason)
	}
	line("actions", "%s; %s in all, %s in flight, %s failed", cmp.Or(counts(web.Kinds[:], f.Actions[:]), "none"), grouped(f.ActionsTotal), grouped(int64(f.InFlight)), grouped(f.Faults))
	line("spend", "%s", dollars(f.Spend))
	if f.Bound > 0 {
		line("", "$%.2f/h with the risk of interruptions for what needs have, %.1f %% above the bound of $%.2f/h", f.Effective, 100*(f.Effective/f.Bound-1), f.Bound)
	}
	topUnmet(&b, f.Unmet)
	topRecent(&b, e.Recent)
	return b.String()
}

// topUnmet lists the clusters that are short of most.
func topUnmet(b *strings.Builder, unmet []web.UnmetNeed) {
	if len(unmet) == 0 {
		return
	}
	type cluster struct {
		name     string
		needs    int
		priority int32
		age      float64
		reason   string
	}
	var all []cluster
	for i := range unmet {
		u := &unmet[i]
		at := slices.IndexFunc(all, func(c cluster) bool { return c.name == u.Cluster })
		if at < 0 {
			at, all = len(all), append(all, cluster{name: u.Cluster, priority: u.Priority, reason: u.Reason})
		}
		all[at].needs++
		all[at].age = max(all[at].age, u.AgeSeconds)
	}
	slices.SortStableFunc(all, func(a, b cluster) int { return cmp.Or(cmp.Compare(b.needs, a.needs), cmp.Compare(b.age, a.age)) })
	b.WriteByte('\n')
	t := terminal.NewTable("SHORT", "NEEDS", "PRIORITY UP TO", "FOR UP TO", "REASON")
	for _, c := range all[:min(len(all), topRows)] {
		t.Row(c.name, c.needs, c.priority, time.Duration(c.age*float64(time.Second)).Round(time.Second), c.reason)
	}
	_ = t.Write(b) // a Builder takes everything
}

// topRecent lists the last actions.
func topRecent(b *strings.Builder, recent []web.Action) {
	if len(recent) == 0 {
		return
	}
	b.WriteByte('\n')
	t := terminal.NewTable("ACTION", "CYCLE", "COUNT", "MACHINE", "TYPE", "CLUSTER", "REASON")
	for i := range recent[:min(len(recent), topRows)] {
		a := &recent[i]
		t.Row(a.Kind, a.Cycle, a.Count, cmp.Or(a.Machine, "-"), a.Type, cmp.Or(a.Cluster, "-"), a.Reason)
	}
	_ = t.Write(b)
}
