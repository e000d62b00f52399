package shard

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// ClusterLabelsMax bounds the values of the label cluster; further clusters
// count under "other".
const ClusterLabelsMax = 10_000

// The phases of the cycle as the dashboards know them.
var phases = [...]string{"reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute"}

// metrics is all that the shard tells Prometheus. The names and labels that
// begin with bigfleet_ are those of the protocol's dashboards; finer ones of
// our own begin with tonnage_.
type metrics struct {
	cycleSeconds     prometheus.Histogram
	cycleSecondsFine prometheus.Histogram
	phaseSeconds     *prometheus.HistogramVec
	phaseSecondsFine *prometheus.HistogramVec
	provisioning     prometheus.Histogram
	configurePhase   prometheus.Histogram
	requestBootstrap prometheus.Histogram
	drainPhase       prometheus.Histogram
	unremembered     prometheus.Counter
	cyclesFailed     prometheus.Counter
	cycles           *prometheus.CounterVec
	differences      prometheus.Counter

	inventory  *prometheus.GaugeVec
	demand     *prometheus.GaugeVec
	inventoryN [model.NumStates][model.NumCapacityTypes][model.NumBuckets]int32 // what the gauge shows
	spend      *prometheus.GaugeVec

	shortfalls *prometheus.GaugeVec // one gauge each, without labels
	aged       *prometheus.GaugeVec
	byPriority *prometheus.GaugeVec
	parked     prometheus.Gauge
	unoffered  prometheus.Gauge
	ignored    prometheus.Gauge

	actions    *prometheus.CounterVec
	outcomes   *prometheus.CounterVec
	suppressed *prometheus.CounterVec
	dryRun     *prometheus.CounterVec
	deferred   prometheus.Counter
	dropped    prometheus.Counter
	deduped    prometheus.Counter
	waiting    prometheus.Counter
	capped     prometheus.Counter
	held       *prometheus.CounterVec // by budgets
	doubted    prometheus.Gauge
	tripped    prometheus.Gauge
	releases   prometheus.Counter
	queueDepth prometheus.Gauge
	inFlight   prometheus.Gauge
	paused     prometheus.Gauge

	rejectedMachines *prometheus.CounterVec
	rejectedRollups  *prometheus.CounterVec
	quarantine       *prometheus.GaugeVec
	proposals        *prometheus.CounterVec
	displacements    prometheus.Counter
	retriesExhausted prometheus.Counter
	retries          prometheus.Counter
	proposalsTimed   *prometheus.CounterVec
	proposalSeconds  *prometheus.CounterVec
	labels           clusterLabels

	wasted wastedMetrics
	// plansFailed counts the plans of preemption that ended since a drain failed.
	plansFailed prometheus.Counter

	memory     *prometheus.GaugeVec
	mapped     prometheus.Gauge
	mapRefused *prometheus.CounterVec
	mapping    alloc.Mapping // what mapped and mapRefused show
	memoryAt   int64         // time of the cycle that memory was shown at, 0 = never
}

// wastedMetrics are the counters that say how far the engine is from rest.
type wastedMetrics struct {
	adopted                              prometheus.Counter
	needs, clusters                      *prometheus.CounterVec
	made, kept                           prometheus.Counter
	ended                                [engine.NumPlanEnds]prometheus.Counter // that of PlanStands is of those completed
	leftBound, vain                      prometheus.Counter
	searches, searchUnits, searchesEnded prometheus.Counter
	undone                               [history.NumUndoings][2]prometheus.Counter // by scope
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, start float64, count int, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, count)}, labels)
}

// newMetrics makes the metrics and registers them; without a registerer they
// are counted for nobody.
func newMetrics(reg prometheus.Registerer, operators Operators, b *bills) (*metrics, error) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	var faults []error
	add := func(c prometheus.Collector) {
		if err := reg.Register(c); err != nil {
			faults = append(faults, fmt.Errorf("register metrics: %w", err))
		}
	}
	g := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := gauge(name, help, labels...)
		add(v)
		return v
	}
	c := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := counter(name, help, labels...)
		add(v)
		return v
	}
	h := func(name, help string, start float64, count int, labels ...string) *prometheus.HistogramVec {
		v := histogram(name, help, start, count, labels...)
		add(v)
		return v
	}
	m := &metrics{labels: clusterLabels{known: map[string]struct{}{}, held: map[string]struct{}{}}}
	add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bigfleet_shard_active_sessions", Help: "Operators that are connected."}, func() float64 {
		if operators == nil {
			return 0
		}
		return float64(operators.Count())
	}))
	defineBills(add, b)
	m.defineCycle(g, c, h)
	m.defineActions(g, c)
	m.defineWasted(c)
	m.defineMemory(g, c)
	return m, errors.Join(faults...)
}

// defineBills registers the parts of the bill that are worked out once in a while. The bound is computed when
// somebody asks.
func defineBills(add func(prometheus.Collector), b *bills) {
	of := func(name, help string, part func(*bill.Bill) float64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			x, _ := b.get()
			return part(&x)
		}))
	}
	of("tonnage_shard_spend_serving_dollars_per_hour", "Price of the machines that Needs have, as of the last minute.", func(x *bill.Bill) float64 { return x.Serving })
	of("tonnage_shard_spend_effective_dollars_per_hour", "Price of the machines that Needs have, with what interruptions cost these Needs on average, as of the last minute.", func(x *bill.Bill) float64 { return x.Effective })
	of("tonnage_shard_spend_bound_dollars_per_hour", "Linear lower bound on the effective cost of machines for what Needs have, as of the last minute.", func(x *bill.Bill) float64 { return x.Bound })
	of("tonnage_shard_spend_idle_dollars_per_hour", "Price of the Idle machines that no Need has claimed, as of the last minute.", func(x *bill.Bill) float64 { return x.Idle })
}

type (
	gaugeMaker     func(name, help string, labels ...string) *prometheus.GaugeVec
	counterMaker   func(name, help string, labels ...string) *prometheus.CounterVec
	histogramMaker func(name, help string, start float64, count int, labels ...string) *prometheus.HistogramVec
)

func (m *metrics) defineCycle(g gaugeMaker, c counterMaker, h histogramMaker) {
	one := func(v *prometheus.HistogramVec) prometheus.Histogram {
		return v.WithLabelValues().(prometheus.Histogram)
	}
	m.cycleSeconds = one(h("bigfleet_shard_cycle_duration_seconds", "Duration of a cycle.", 1e-3, 14))
	m.cycleSecondsFine = one(h("tonnage_shard_cycle_seconds", "Duration of a cycle, in buckets from 10 µs.", 1e-5, 22))
	m.phaseSeconds = h("bigfleet_shard_cycle_phase_duration_seconds", "Duration of a phase of the cycle.", 1e-3, 14, "phase")
	m.phaseSecondsFine = h("tonnage_shard_cycle_phase_seconds", "Duration of a phase of the cycle, in buckets from 1 µs.", 1e-6, 24, "phase")
	for _, p := range phases {
		m.phaseSeconds.WithLabelValues(p)
		m.phaseSecondsFine.WithLabelValues(p)
	}
	m.provisioning = one(h("bigfleet_shard_provisioning_latency_seconds", "Time from demand that nothing covers to the first machine bound for it.", 1e-2, 20))
	m.configurePhase = one(h("bigfleet_shard_configure_phase_seconds", "Duration of the provider's Configure.", 1e-2, 16))
	m.requestBootstrap = one(h("bigfleet_shard_request_bootstrap_seconds", "Time until an operator has answered with bootstrap data, or has not.", 1e-2, 16))
	m.drainPhase = one(h("bigfleet_shard_drain_phase_seconds", "Time until an operator has acknowledged that a machine is cordoned, or has not.", 1e-2, 16))
	m.cyclesFailed = c("tonnage_shard_cycles_failed_total", "Cycles that decided nothing.").WithLabelValues()
	m.cycles = c("tonnage_shard_cycles_total", "Cycles that decided: full ones built on nothing, incremental ones on the cycle before; checked ones did, and were decided once more from nothing.", "kind")
	for _, kind := range []string{cycleFull, cycleIncremental, cycleChecked} {
		m.cycles.WithLabelValues(kind)
	}
	m.differences = c("tonnage_shard_cycle_differences_total", "Cycles whose check found a difference between what they build on and what is found out from nothing: a fault of the engine.").WithLabelValues()
	m.inventory = g("bigfleet_shard_inventory_machines", "Machines.", "state", "capacity_type", "interruption_penalty_bucket")
	m.demand = g("bigfleet_shard_demand_machines", "Rows of demand; the name is the protocol's.", "interruption_penalty_bucket")
	m.spend = g("tonnage_shard_spend_dollars_per_hour", "Price of the machines that are paid for: every state but Speculative and Failed, and not those that are Idle and late-bound.", "capacity_type")
	m.shortfalls = g("bigfleet_shard_shortfalls", "Profiles with demand that nothing resolves.")
	m.aged = g("bigfleet_shard_shortfalls_aged", "Shortfalls by age in cycles.", "bucket")
	m.byPriority = g("bigfleet_shard_shortfalls_by_priority", "Shortfalls by class of priority.", "priority_class")
	m.parked = g("tonnage_shard_parked_needs", "Rows of demand that rest after waiting in vain.").WithLabelValues()
	m.unoffered = g("tonnage_shard_unoffered_rows", "Rows of demand that ask for a resource that no machine offers.").WithLabelValues()
	m.ignored = g("tonnage_shard_ignored_resources", "Names of resources that machines offer beyond the most that decisions take account of.").WithLabelValues()
	m.proposals = c("bigfleet_shard_phase1_occ_proposals_total", "Needs that have walked over free machines, and machines that somebody of higher rank had claimed meanwhile: none where Needs have their turns in rank order.", "outcome")
	m.proposals.WithLabelValues("committed")
	m.proposals.WithLabelValues("conflict")
	m.displacements = c("bigfleet_shard_phase1_occ_displacements_total", "Machines that a Need took over from one of lower rank.").WithLabelValues()
	m.retriesExhausted = c("bigfleet_shard_phase1_occ_retries_exhausted_total", "Needs that lost machines too often and were decided in their turn.").WithLabelValues()
	m.retries = c("tonnage_shard_phase1_retries_total", "Walks of Needs over free machines that had walked before and had lost a machine.").WithLabelValues()
	m.proposalsTimed = c("tonnage_shard_phase1_proposals_timed_total", "Proposals of which the time was taken, a sample of them.", "mode")
	m.proposalSeconds = c("tonnage_shard_phase1_proposal_seconds_total", "What the proposals took of which the time was taken.", "mode")
	for mode := range engine.NumProposeModes {
		m.proposalsTimed.WithLabelValues(engine.ProposeMode(mode).String())
		m.proposalSeconds.WithLabelValues(engine.ProposeMode(mode).String())
	}
}

func (m *metrics) defineActions(g gaugeMaker, c counterMaker) {
	m.actions = c("bigfleet_shard_actions_total", "Actions carried out.", "kind")
	m.outcomes = c("bigfleet_shard_action_execute_outcomes_total", "How actions ended.", "kind", "outcome")
	m.suppressed = c("bigfleet_shard_actions_suppressed_total", "Actions decided and not carried out under pause.", "kind")
	m.dryRun = c("bigfleet_shard_actions_dryrun_total", "Actions decided and not carried out under dry run.", "kind")
	for k := range engine.NumKinds {
		kind := engine.Kind(k).String()
		m.actions.WithLabelValues(kind)
		m.suppressed.WithLabelValues(kind)
		m.dryRun.WithLabelValues(kind)
	}
	m.deferred = c("bigfleet_shard_actions_deferred_total", "Actions beyond the limit of a cycle.").WithLabelValues()
	m.dropped = c("bigfleet_shard_actions_dropped_total", "Actions that the queue had no room for.").WithLabelValues()
	m.deduped = c("bigfleet_shard_actions_deduped_total", "Actions on machines that were busy or had moved on.").WithLabelValues()
	m.waiting = c("tonnage_shard_actions_waiting_total", "Bootstraps put off since the cluster's operator is not connected or has refused lately.").WithLabelValues()
	m.unremembered = c("tonnage_shard_actions_unremembered_total", "Calls made though the journal could not be written: a crash at that moment would forget for whom.").WithLabelValues()
	m.capped = c("bigfleet_shard_reclaims_capped_total", "Reclaims held back by the cap.").WithLabelValues()
	m.held = c("tonnage_shard_actions_held_total", "Actions held back since an interval may do no more of their kind.", "kind")
	for k := range engine.NumKinds {
		if _, ok := rails.BudgetOf(engine.Kind(k)); ok {
			m.held.WithLabelValues(engine.Kind(k).String())
		}
	}
	m.tripped = g("tonnage_shard_breaker_tripped", "1 while the shard has paused itself, since it took too many machines away.").WithLabelValues()
	m.releases = c("bigfleet_shard_idle_releases_total", "Idle machines given back.").WithLabelValues()
	m.queueDepth = g("bigfleet_shard_action_queue_depth", "Calls that wait for a worker.").WithLabelValues()
	m.inFlight = g("bigfleet_shard_execute_inflight", "Machines with a call waiting or under way.").WithLabelValues()
	m.paused = g("bigfleet_shard_actuation_paused", "1 while nothing is carried out.").WithLabelValues()
	m.rejectedMachines = c("bigfleet_shard_machines_rejected_total", "Provider's records refused.", "reason")
	for r := range NumRefusals {
		m.rejectedMachines.WithLabelValues(Refusal(r).String())
	}
	m.doubted = g("tonnage_shard_machines_doubted", "Bound machines that are missing in listings, which is not believed yet.").WithLabelValues()
	m.rejectedRollups = c("bigfleet_shard_rollups_rejected_total", "Roll-ups refused.", "cluster")
	m.quarantine = g("bigfleet_shard_rollup_quarantined", "Roll-ups held in a row.", "cluster")
}

// clusterLabels are the values of the label cluster. They are asked for by several
// sessions at once.
type clusterLabels struct {
	mu    sync.Mutex
	known map[string]struct{}
	held  map[string]struct{} // clusters whose gauge of held roll-ups is not zero
}

// shows tells whether a gauge of a cluster is to be set: it is not zero, or was not
// the last time.
func (l *clusterLabels) shows(cluster string, positive bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, was := l.held[cluster]
	if positive {
		l.held[cluster] = struct{}{}
	} else {
		delete(l.held, cluster)
	}
	return positive || was
}

func (l *clusterLabels) of(cluster string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[cluster]; !ok {
		if len(l.known) >= ClusterLabelsMax {
			return "other"
		}
		l.known[cluster] = struct{}{}
	}
	return cluster
}

func (m *metrics) cycleFailed() { m.cyclesFailed.Inc() }
func (m *metrics) released()    { m.releases.Inc() }
func (m *metrics) RollupRefused(cluster string) {
	m.rejectedRollups.WithLabelValues(m.labels.of(cluster)).Inc()
}

// The metrics are the meter of ledgers and intake.

func (m *metrics) PlanFailed()             { m.plansFailed.Inc() }
func (m *metrics) Provisioned(nanos int64) { m.provisioning.Observe(float64(nanos) / 1e9) }
func (m *metrics) outcome(k engine.Kind, o Outcome) {
	m.outcomes.WithLabelValues(k.String(), o.String()).Inc()
}

// Quarantined shows how many roll-ups of a cluster are held in a row. A cluster of
// which none ever was has no series.
func (m *metrics) Quarantined(cluster string, held int) {
	if m.labels.shows(cluster, held > 0) {
		m.quarantine.WithLabelValues(m.labels.of(cluster)).Set(float64(held))
	}
}

func (m *metrics) refused(by *[NumRefusals]int) {
	for r, n := range by {
		if n > 0 {
			m.rejectedMachines.WithLabelValues(Refusal(r).String()).Add(float64(n))
		}
	}
}
