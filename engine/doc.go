// Package engine decides, once per cycle, what a shard should do with its
// machines: which to bind, to buy, to preempt, to reclaim and to give back.
//
// The decision is a pure function of supply, demand, time and options. The
// package does no I/O, reads no clock, draws no random numbers and writes no
// log. What happened in a cycle is in the Plan and its Stats. The same input
// gives the same actions, reservations, claims and reasons, byte for byte. Only
// Plan.Adopted has no order, and figures in Stats tell how an answer was found.
//
// This comment explains how the package works inside. A caller needs New,
// Engine.Cycle and Plan; the examples show them. The words of the field are in
// docs/reference/glossary.md.
//
// # The data of a cycle
//
// A cycle turns two tables into a Plan. Each box is written by one stage and
// read by the stages below it.
//
//	supply.Table                  demand.Table
//	a row for each machine        a block of rows for each cluster
//	      │                             │
//	      └──────────────┬──────────────┘
//	                     ▼ snapshot
//	snapshot.Snapshot    Idle, Speculative   free machines, a list for each class
//	                     BoundOf(cluster)    what counts for a cluster, in credit order
//	                     │
//	                     ▼ normalise
//	line ───▶ kind ───▶ matcher ───▶ classes
//	one for   same      same         machines that no
//	each row  demand    requirements matcher tells apart
//	                     │
//	                     ▼ rank
//	order                Needs, highest rank first      (rankOf is the inverse)
//	                     │
//	                     ▼ phase 1: credit, acquire
//	held                 line.head → machine → machine → … → line.tail
//	                                           ▲ line.acquired
//	                     │
//	                     ▼ phase 2: preempt
//	victims, planned     machines to drain; machines to reserve
//	                     │
//	                     ▼ phase 3: reclaim, release, report
//	Plan                 Actions, Reservations, Adopted, Ended, Stats
//
// The words that the code uses:
//
//   - A row is the number of a machine in the supply (columnar.Row, 0 = none),
//     or one Need of a cluster's report in the demand.
//   - A line is what a cycle knows of one row of the demand: kind, cluster,
//     group, status bits, domain, and the ends of its chain of machines
//     (line.go). The number of a line is the number of its Need.
//   - A kind is all of a Need that decides which free machines suit it and in which
//     order: the profile, the minimum unit and the dimensions asked for, but not
//     the amount, the cluster and the group (kind.go). A fleet has hundreds of
//     kinds and hundreds of thousands of Needs.
//   - A matcher is a set of requirements that some demand uses, without
//     priority, penalties, spread and minimum unit (engine/supply). It only says
//     which machines qualify. Many kinds share one matcher.
//   - A class is a set of machines that no matcher in use tells apart: equal
//     price, shape, instance type, interruption probability, and attributes
//     that requirements look at (engine/supply).
//   - A rank slot is a Need's entry in the sort: arrival, Need and kind
//     (rank.go). Needs of one stamp may exchange slots (rank_swaps.go).
//   - To credit a Need is to count for it what is bound to its cluster already.
//     To acquire is to take a free machine for it. Both claim the machine: it
//     counts for that Need alone. The column pass.held has the claims.
//   - To reserve is to keep a machine for a Need beyond the cycle. With VictimsGang
//     the plans of phase 2 do it (Plan.Reservations). A machine that is "held for"
//     a Need has a reservation for it. That is no claim: it is not in pass.held.
//   - A turn is a Need's place in acquisition, a walk in rank order. The names of
//     the code are wider: the walks of credit (worklist.rank) and of phase 2
//     (phase2_turns.go) have turns too.
//   - A Need waits if its credit is put off to its turn (isUncredited). Rows that
//     ask for what no machine offers, and selection.waits, are other things.
//   - A loose machine is one that came to the cluster, or that another Need of it
//     let go of, and that no Need has claimed since (release in phase1_worklist.go).
//   - A worker is the memory of one goroutine that walks Needs (worker.go).
//     The goroutine that calls Cycle is the first worker.
//   - A domain is one value of a Same key, such as one rack. A cell is the part
//     of a domain that has one value of a narrower key of Options.Nested
//     (nested.go).
//   - A pool is the free machines of one state that no reservation holds, a
//     list for each class (pool.go). The head of a class is the first machine
//     of its list that is not taken. A victim pool and a unit pool are what
//     Needs of one matcher and priority could preempt (victims.go,
//     gang_units.go).
//   - A ladder is the classes of one matcher in steps of equal cost (pool.go).
//     The next machine of a Need without Same and hard spread is the smallest
//     head in the lowest step that has something of what is missing.
//   - A stamp is what a machine carries of the Need that it serves: the
//     fingerprint of the profile and the group, with priority and penalties.
//     A machine with the stamp of a Need is the Need's own.
//   - A machine has a foreign stamp when it is bound and credited to a Need
//     whose stamp it does not carry. Plan.Adopted lists such machines, so that
//     the caller stamps them again (phase1_credit.go).
//   - A fold is Needs with Same, alike and each small enough for one machine,
//     that are summed and walked as one plain Need: they do not need the
//     co-location that they asked for (normalise.go, fold.go).
//   - A gang is Needs that phase 2 takes machines from together: those of one
//     group of a cluster that no machine holds, or one Need with Same that no
//     machine holds whole (gang_find.go).
//   - A reservation holds a machine for an owner (cluster, fingerprint without
//     Same, group), because the machine was freed or created for it
//     (reservations.go).
//   - A unit is what can be preempted at once: one machine, or a whole gang. A
//     victim group is machines of no gang that are alike as victims
//     (gang_units.go, gang_victims.go). The classes of units are in "The order
//     of victims".
//   - A tuple is a value of each key that hard spread constrains.
//
// # One Need, from row to machine
//
// Three clusters share six machines of four cores each, at one price:
//
//	a-1, a-2  Configured in c1; a-1 carries the stamp of c1's Need, a-2 none
//	b-1, b-2  Configured in c2, with the stamp of c2's Need (priority 10, 8 cores)
//	d-1       Configured in c3, with the stamp of c3's Need (priority 20, 4 cores)
//	i-1       Idle
//
// The Need of c1 asks for 16 cores in units of 4, at priority 1000. This is its
// line after each stage. Example_oneNeed prints these figures, and a test
// compares them with this comment.
//
//	cycle 1
//	  normalise  kind=0 domain=none head=none acquired=none
//	             held=[]
//	             status=none
//	  rank       kind=0 domain=none head=none acquired=none
//	             held=[]
//	             status=none
//	  phase1     kind=0 domain=none head=a-1 acquired=i-1
//	             held=[a-1 a-2 i-1]
//	             status=isVisited hasForeignStamp
//	  phase2     kind=0 domain=none head=a-1 acquired=i-1
//	             held=[a-1 a-2 i-1] victims=[b-1] planned=[b-1]
//	             status=hasCandidates isAwaiting hasPlan hasOwnPlan isVisited hasForeignStamp
//	  action     Bootstrap i-1 for c1, part of a plan: false
//	  action     Preempt b-1 for c1, part of a plan: true
//	  stamp      a-2 for c1
//	  reserve    b-1 for c1, domain ""
//	  need       c1: satisfied false, lacks 4 cores, reason "awaiting_drain"
//	  need       c2: satisfied true, lacks 0 cores, reason ""
//	  need       c3: satisfied true, lacks 0 cores, reason ""
//	  stats      from nothing: true, clusters credited: 3 of 3
//
// Stage by stage:
//
//   - Normalise gives the row a line and a kind. The chain is empty. A plain
//     Need has no domain.
//   - Rank puts the Need first in the order. The line does not change.
//   - Phase 1 has two halves. Credit claims a-1, the Need's own, then a-2, which
//     no lower Need of c1 owns by its stamp (hasForeignStamp). Four machines are
//     needed and c1 has no more, so credit marks the Need in pass.lacking. In its
//     turn (isVisited) the Need acquires i-1: line.acquired divides the chain
//     into what was credited and what was free.
//   - Phase 2 finds that one machine is missing. b-1 and b-2 are claimed at
//     priority 10 and have equal scores; the smaller id decides. b-1 is a victim,
//     and planned: the plan reserves it. The claim of c2's Need on b-1 stays in
//     held, which is why c2 is still satisfied in this plan. A victim drains;
//     nothing is bound in phase 2.
//   - Phase 3 has nothing to do here. The report turns the columns into a Plan.
//
// The caller carries the plan out: it stamps a-2, stamps the reservation on
// b-1, binds i-1, and drains b-1 until it is Idle. Then:
//
//	cycle 2
//	  normalise  kind=0 domain=none head=a-1 acquired=none
//	             held=[a-1 a-2]
//	             status=hasForeignStamp
//	  rank       kind=0 domain=none head=a-1 acquired=none
//	             held=[a-1 a-2] reserved=[b-1]
//	             status=hasForeignStamp
//	  phase1     kind=0 domain=none head=a-1 acquired=b-1
//	             held=[a-1 a-2 i-1 b-1] reserved=[b-1]
//	             status=isSatisfied isVisited
//	  phase2     kind=0 domain=none head=a-1 acquired=b-1
//	             held=[a-1 a-2 i-1 b-1] reserved=[b-1]
//	             status=isSatisfied isVisited
//	  action     Bootstrap b-1 for c1, part of a plan: false
//	  need       c1: satisfied true, lacks 0 cores, reason ""
//	  need       c2: satisfied false, lacks 4 cores, reason "priority_starved"
//	  need       c3: satisfied true, lacks 0 cores, reason ""
//	  stats      from nothing: false, clusters credited: 2 of 3
//
// Stage by stage:
//
//   - Before normalise renews lines, it undoes what the last cycle did beyond
//     credit: i-1 is off the chain, while a-1 and a-2 stay on it.
//   - After rank, the reservations are resolved: b-1 is held for the Need. That
//     makes the Need stale, so it is credited again: a-1, a-2 and i-1 carry its
//     stamp now and are its own. In its turn it acquires b-1 before any other
//     free machine, as its reservation says. The caller takes the reservation off
//     when it begins to bind b-1.
//   - In c2 a machine has left the chain of a Need, which makes that Need stale.
//     In c3 nothing has changed: its credit is that of cycle 1.
//
// A gang differs in a few fields (Example_oneGang shows all of them). Its choice
// of a domain may depend on what is free elsewhere. Its credit then waits for its
// turn in the order (isUncredited), line.domain is set before the first claim,
// and the plan's reservation names the domain. In cycle 2 the reservation pins
// the gang to that domain (isPinned).
//
// # Stages
//
// Engine.Cycle runs them in this order (decide in cycle.go). Its stopwatch knows
// fewer stages: lay belongs to rank; credit and acquire are phase 1 (assign);
// preempt is phase 2; reclaim, release and report are phase 3. Columns of the
// pass live as long as a cycle (pass.go); those of the store live until
// everything is decided from nothing (store.go). N = Needs, M = machines, C =
// classes.
//
//	stage      files                     reads                  writes
//	---------- ------------------------- ---------------------- ---------------------------
//	snapshot   engine/snapshot           both tables            Snapshot
//	normalise  store, normalise, begun,  demand rows, Snapshot  lines, kinds, folds,
//	           fold, fold_supply, kind                          rank slots, clusterState
//	rank       rank, rank_merge,         rank slots             order, rankOf, kindAt
//	           rank_swaps
//	lay        pass, reservations,       reservations,          pools, reservations
//	           lower, pool               free lists
//	credit     phase1_assign, _credit,   BoundOf, byCluster,    held, line.status, .domain,
//	           _worklist, _stamps,       stamps, reservations   .head and .tail, lacking,
//	           domain_choice                                    priority, owner, cheapest
//	acquire    components, gather,       lacking, pools,        held, line.acquired, .domain,
//	           phase1_acquire, _fit,     ladders, domain        taken, acquisitions
//	           fit_memo, _spare,
//	           _giveback, domain_*,      index, reservations
//	           spread*, lower
//	preempt    phase2_*, victims, gang_* held, priority,        victims, planned, plans,
//	           tenancy*, nested          cheapest, pools        line.status, .domain;
//	                                                            withheld claims
//	reclaim    phase3_release            held, victims, planned reclaims
//	release    phase3_release            held, taken, planned,  deletes
//	                                     reservations
//	report     report, plan_counts,      all of these           Plan
//	           gang_report
//
//	stage      cost                                            workers
//	---------- ----------------------------------------------- ------------------------------
//	snapshot   changed rows, and a pass over the lists that    the first; all arrange the
//	           they enter or leave; all rows from nothing      lists of clusters
//	normalise  changed rows and machines; the rows of          all, by cluster
//	           clusters that may fold otherwise, that gained
//	           or lost rows, or that are credited anew; O(1)
//	           for each other cluster
//	rank       nothing if no Need moves; else O(N): copies     all, where all are sorted;
//	           if few move, else a sort by digits              else the first
//	lay        C + M/64 words + reservations, and the rows of  the first
//	           the clusters that these name
//	credit     a look at the rows and machines of changed      all, by cluster
//	           clusters, and for each Need on their worklists
//	           the machines of classes it accepts
//	acquire    for each machine picked the classes of a step,  one for each share of the
//	           or the kinds of domains; a byte for each Need   components, or the first
//	           that lacks nothing                              with another that gathers
//	preempt    kinds × C, the victims of the classes that are  the first; all prepare
//	           asked for, then the turns that may find some    (phase2_turns, gang_find)
//	reclaim    clusters, reservations, and the machines of     the first
//	           clusters that may have excess
//	release    a scan of two byte columns, O(M), if there is   the first
//	           a duration in Options.Release
//	report     actions + reservations + adopted                the first; long lists all
//
// Workers lock neither machines nor Needs. Credit deals clusters: what is bound
// to a cluster serves the Needs of that cluster alone. Acquisition deals
// components: kinds that share no class of free machines, not even through
// other kinds, cannot take anything from each other (components.go). Where one
// component is nearly everything, the first worker decides, and in large fleets
// the second one reads ahead the lines whose turn comes next (gather.go).
// Fleets below 65,536 machines and rows are decided by the first worker alone
// (crewMin in crew.go). Reasons (unmet.go) and explanations (explain.go) are
// worked out when the caller asks.
//
// # Invariants
//
// One answer, whatever the workers. The answer is defined by one sequential
// walk in rank order. Three things keep it so: no two workers write the same
// machine or Need in a stage; their results are merged by rank or cluster; and
// comparisons that decide are made in integers, rationals, or float64 whose
// rounding is fixed (score.go, victims.go, pool.go). The numbers of kinds and
// folds depend on which worker meets them first. No order looks at them.
//
// Who writes a claim. A claim is pass.held[machine] and the chain of its line.
// Only worker.link adds a claim: through claim in credit and noteAcquired in
// acquisition; keepsOwn links again, in order, what a Need has. A machine is on
// one chain at most. These take claims back:
//
//	startOver    normalise  all, if the cycle builds on nothing
//	undoTurn     normalise  what the Need claimed in its turn of the last cycle
//	partFrom     normalise  a machine that left a cluster that is credited anew
//	unlink       normalise  a machine that left any other cluster (partFrom)
//	             credit     a machine that a higher Need claims now (seize)
//	row          normalise  the chain of a line that is made again (cluster)
//	beginAnew    normalise  the chain of a line that is kept in a cluster credited anew
//	dropClaims   credit     all of a cluster that is credited anew
//	letGo        credit     what the Need was credited just now, since it is to wait
//	letGoAll     credit     all of a Need that is credited again, of a line whose row
//	                        changed, and of a Need that moved in the order
//	giveBackOne  acquire    a machine that a larger one made superfluous
//	relink       acquire    the same: takes it off the chain
//	withhold     preempt    what was acquired: the plan goes to another domain
//	gatherIn     preempt    what was acquired outside of the cell of the plan
//
// While clusters are credited, the worker of the cluster writes its claims.
// While Needs acquire, the worker that has the Need's kind does. In phase 2 the
// first worker alone withholds, and no stage after phase 1 adds a claim. Phases
// 2 and 3 read claims and do not derive them again. What a machine is worth as
// a victim is noted with each claim of credit (store.priority).
//
// What a plan's reservation keeps. A plan reserves what it uses of victims, of
// Idle machines, of machines that drain already, for nobody or for a lower
// priority, and of other clusters' excess that phase 3 reclaims. As long as the
// reservation holds,
//
//   - no Need of equal or lower rank acquires the machine, and phase 2 does not
//     preempt it for anybody (reservations.go, gang_select.go);
//   - what drains for the owner is subtracted from what the owner lacks, so that
//     the owner does not preempt twice (countInFlight in phase2_preempt.go);
//   - a gang stays in the domain of the plan, until pinEnds finds that another
//     domain covers it and this one does not any more, or that its own machines
//     elsewhere cover it (domain_pins.go);
//   - a higher rank may take an Idle machine, which ends what else is held for
//     that owner in the same pass, but for machines being created (gang_void.go).
//
// When a reservation ends, endOf in report.go says why. No decision rests on a
// plan that the engine remembers: the reservation is on the machine's record,
// and the next cycle reads it there. The rest of a gang that a plan breaks is
// neither reserved nor preempted (spareRemainders in report.go).
//
// # What is kept from cycle to cycle
//
// The store keeps what depends on few rows and costs most:
//
//	clusters   c0 │ c1 │ c2 │ …   version of the demand, what waits, cheapest victims
//	lines      ▒▒▒·│▒▒▒▒·│▒▒▒ ·│  the credited part of each chain; room for more rows
//	order      ───────────────    kept while no Need moves; few moves are merged
//
// Everything else is decided anew in each cycle: acquisitions, victims, plans,
// reclaims, deletes, and all that depends on the time. An incremental cycle
// gives the answer of a cycle that builds on nothing.
//
// A cluster is skipped when none of its rows and none of its machines has
// changed, and nothing is reserved for its Needs, now or in the cycle before.
// Nothing outside a cluster has a say in its credit. The exception is a Need
// whose credit waits for its turn: it is credited there in every cycle, from
// what the others of its cluster leave (phase1_spare.go). A cluster that is not
// skipped has a worklist of Needs, which are looked at in rank order
// (creditList in phase1_worklist.go). A Need on the list is credited again under
// any of five conditions (isToBeCredited). Only the first of them is called stale:
//
//   - it is stale (the bit isStale): its row is another (changedRows in
//     normalise.go), rows joined or left the fold that it is (settleFolds in
//     fold.go), it has another place in the order (move in rank.go), a machine
//     left its chain, because the machine is gone or a higher Need claims it
//     (unlink), or something is or was reserved for it, or its plan went to
//     another domain (findResettled);
//   - its credit waited for its turn, or a Need above it waits that could take
//     the same classes (isUncredited, blocks);
//   - a machine that it claims, or one with its stamp, has changed, or it has a
//     machine with a foreign stamp (isTouched, hasForeignStamp), unless its own
//     machines, walked in order, are those that it claims (keepsOwn);
//   - it has no Same, lacks something, and a machine of a class that it accepts
//     is loose;
//   - it has Same, machines of a class that it accepts are others or claimed by
//     others than before (worklist.touched), and it lacks something or owns more
//     machines than it claims.
//
// Why that is right: own machines come first in the walk of a Need. A Need that
// its own machines satisfy has them again, whatever happens beside it. A Need
// that lacked something had claimed all that was left for it, so that only
// loose machines can give it more. A machine that a lower Need claims is there
// for a higher one, as it was in the cycle before: then, too, credit comes to the
// higher one first.
//
// The list begins with the Needs that changes of rows, machines and reservations
// concern (listWork). Needs below the one at work join it when that one takes a
// machine of theirs (seize), lets a machine go that they could want, or that has
// their stamp (release), takes another machine than before where a gang may choose
// its domain (touch), or has to wait (creditAgain). Plan.Stats counts the Needs that
// were looked at, and those that were credited, by what brought them on the list.
//
// A row that changes, or that folds otherwise, leaves its fold and joins another;
// the other rows of the cluster keep their lines. What such a row claims, and
// what a Need claims that moves in the order, is let go before the walk
// (clusterState.letGo): it may rank otherwise now. Rows that have not changed are
// asked whether they fold otherwise only if something can answer otherwise: a
// machine that changed is of a class that no free class covers, or carries the
// stamp of a Same-row; or the free classes differ in one that no other covers; or
// what is held for the cluster differs; or folding in the cluster depends on more
// than classes (noteStamps in begun.go, findFree in fold_supply.go).
//
// A cluster is credited anew as a whole when rows came or went, when a gang chose
// a domain because nothing was free and something may be now, and for the next 15
// changes after one that reached nine tenths of its Needs
// (findDirty in store.go). A cycle builds on nothing after
// an error, with Options.Full, with other tables, and when numbers of clusters,
// classes or dimensions may mean other things or room runs out (carryOver in
// store.go). The reasons are in
// docs/decisions/0010-cycles-build-on-the-one-before.md.
//
// Every hundredth cycle (Options.CheckCycles), or the next one that builds on
// another, is decided a second time, from nothing. The second answer is
// returned, and Stats.Differs says that the two were not the same.
//
// The oracles of the tests:
//
//   - engine/reference is the contract as maps and loops. internal/twin compares
//     plans with it: on random fleets (equality_test.go), over random edits with
//     one, two and three workers (script_test.go), and in the simulator
//     (internal/sim).
//   - Racing lets Needs take machines from each other by rank. It shares neither
//     heads nor ladders with the walk in rank order (race_oracle_test.go).
//   - A decision from nothing is the oracle of an incremental one: in the check
//     above, and in build_on_test.go.
//
// # Where a change goes
//
// A rule that changes an answer changes engine/reference as well, or random
// fleets fail. The file names are of this package unless a folder is given.
//
// The order of victims.
//
// VictimsGang, the default, takes units in the order of unitKey.compare
// (gang_units.go), the smallest key first. These fields lead the key:
//
//	paid    false for excess alone: it costs nothing, so it goes first
//	tenant  between tenants: minus the ratio of what the giver has to its share, in
//	        steps of θ; else 0
//	band    −⌊S/δ⌋ of the victim score S and δ = Options.Band; between tenants 0
//	class   what the loss does to a workload, the gentlest first (unitClass)
//	roi     of a whole gang −⌊ROI/θ⌋: what breaking it gives here, over what it
//	        destroys everywhere, measured on what is missing (gang_ratio.go)
//
// θ is 1/20. The score of a whole gang is the least of its members'. The classes
// of units:
//
//	sunk     a machine of a gang that is lost anyway: the gang is broken (gangState),
//	         or a plan of this cycle broke it and does not use the machine
//	excess   Configured, claimed by no Need, and its cluster has reported; or draining
//	         and free for the taker
//	elastic  a machine of a gang above the gang's minimum
//	plain    any other machine of no gang
//	whole    all machines of a gang
//
// choose (gang_select.go) takes units by key until nothing is missing, each of
// which has something of what is missing. Then reprieve drops units without which
// as much is freed, the last chosen first, and substitute replaces units by gentler
// ones (gang_reprieve.go). A gentler unit has a smaller key, shares no machine with
// the plan and covers what only the replaced unit covers. A plan for a part
// reprieves only. Under hard spread neither is done.
//
//   - The twin of the key is in reference/unit.go. A unit of one machine gets its
//     key in ofVictimGroup (of a victim group) or single (of a gang), in
//     gang_select.go; a whole gang in listWhole, in gang_listing.go. listSurplus
//     there adds the keep order. The callers of single choose the class:
//     gang_sunk.go and gang_listing.go. A new criterion goes into unitKey and is
//     filled in these functions.
//   - Two fields change while a plan grows, and are set where keys are compared:
//     the ROI in nextWhole and ofGroupBefore (gang_shapes.go), the tenant in
//     ofVictimGroup, nextSingle (gang_select.go) and addSinglesBefore
//     (gang_reprieve.go); both in bestOfTenant (gang_spread.go), nextOfTenant and
//     wholesAdmitted (tenancy_ledger.go), and gentler (gang_reprieve.go).
//   - If machines of no gang can differ in a criterion, it goes into victimGroupKey
//     in gang_victims.go as well: machines of one victim group go by id alone.
//
// Units are not sorted as a whole. choose, and bestOfTenant under hard spread,
// merge four sorted sources: victim groups, machines of lost gangs, machines above
// a gang's minimum, and whole gangs. The sources are listed no further than they
// are asked for. What stops them holds because the five fields above lead the key.
// If a new field is compared after the ROI, only compareTiers of this list changes,
// and that only if machines of no gang can differ in it. If it is compared before
// the ROI, check each:
//
//	compareTiers      gang_units.go      the order of victim groups, but for ids
//	rosterOf, settle  gang_roster.go     groups are read by priority, and given out when
//	                                     no unread one can have a smaller band
//	leastOfGangs      gang_prospects.go  gangs are not listed before their best band
//	needsGangs        gang_select.go     asks leastOfGangs with paid and band alone
//	choose            gang_select.go     asks for no whole gang of a band that is not
//	                                     smaller than that of the next single unit
//	bestVictimGroup   gang_spread.go     ends with the tier in which it found a unit
//	group, nextWhole  gang_shapes.go     whole gangs by band, then by ROI, which changes
//	wholesBefore      gang_shapes.go     ends at a band above that of the unit to replace
//	leastOutside      gang_reprieve.go   a bound of the keys outside of the plan: gentler
//	                                     units are sought only for larger keys
//	nextOfTenants     tenancy_ledger.go  skips tenants by paid and tenant; within one, where
//	                                     keys have no band, single units precede gangs
//	nextOfTenant      tenancy_ledger.go  stops measuring at the best ROI there can be
//	wholesAdmitted    tenancy_ledger.go  wholesBefore, between tenants
//
// Beside the key of units:
//
//   - VictimsMachine: buildVictimPool in victims.go, and beforeAsVictim in
//     phase2_spread.go. giveBack in victims.go drops superfluous victims, in an
//     order of its own: compareWorth. Under hard spread it is not called. The twin
//     is reference/victims.go.
//   - The score, for both: scoreTerms in victims.go; its bound is mostScore in
//     gang_roster.go.
//   - Which of several domains: planCost in gang_plan.go; which are tried at all,
//     gang_domains.go and gang_bounds.go. VictimsMachine: phase2_same.go.
//   - What the user is told: gang_explain.go, docs/explanation/gangs.md, and
//     decisions 4, 11 and 12 in docs/decisions.
//
// When a Need is credited again.
//
//   - The five conditions: isToBeCredited in phase1_worklist.go. What it asks is
//     noted by noteMoves, release, seize, compare, letGoOfChanged and
//     findResettled in the same file, by changedRows in normalise.go and by
//     settleFolds in fold.go. Whoever may be concerned has to come on the list in
//     the same breath.
//   - Whether a cluster is looked at: findDirty in store.go is the first to set
//     clusterState.dirty (nothing is claimed, and all Needs are on the worklist) or
//     clusterState.replay (some are). Then renew
//     (normalise.go) may set replay, where rows fold otherwise. Last,
//     findResettled may set replay of a cluster that is not dirty: reservations
//     make their Needs stale whatever has changed. What changed of a machine comes
//     from Snapshot.Moves (engine/snapshot) and is sorted by groupMoves in store.go;
//     what changed of a row, from demand.Table.Changes.
//   - There is nothing to change in the reference: it keeps nothing. Add the
//     story to build_on_test.go and the edit to script_edits_test.go.
//
// A new status bit goes into line.go. Four masks say what survives:
//
//	undoTurn     store.go          normalise, first: a Need that had a turn in the last
//	                               cycle, in acquisition or phase 2 (isVisited)
//	standFor     fold.go           normalise, in renew: the line of a row that comes to
//	                               stand for a fold
//	beginAnew    normalise.go      normalise, in renew: a line of a cluster that is
//	                               credited anew and has the rows that it had
//	creditAgain  phase1_worklist.go  credit: a Need that is credited again
//
// Which free machines a Need acquires.
//
//   - AcquireCheapest is the ladders of pool.go and the shelves of domain_index.go. AcquireFit is
//     phase1_fit.go: it lists what a stage offers, lets engine/internal/cover choose, and takes. Choices
//     among ample machines are kept for the pass in fit_memo.go. Hard spread is spread_fit.go.
//   - A choice is a function of the offers: cost, capacity and number. What is compared, and the order of
//     what is tried, is part of the answer: the twin is reference/fit.go and reference/fit_solve.go,
//     where every basis of the linear program is tried.
//   - Why this machine: explain_acquired.go.
//
// Hard spread.
//
//   - The constraint is model.Spread (engine/model/profile.go), and kind.spread
//     what of it binds: kinds.find in kind.go. Neither a fold nor a Need with
//     Same is bound.
//   - Acquisition has two ways. If all machines of a class have the same value of
//     every constrained key, as with zones, each tuple is a ladder of classes
//     (acquireSpread in spread.go). If they have not, as with hosts, machines are
//     dealt into tuples one by one (acquireDealt in spread_take.go,
//     spread_dealt.go). layOut in spread.go asks supply.Table.Splits which it is.
//     Needs that may take machines that are held for them, or for lower ranks, are
//     dealt to as well. Both ways must take the same machines.
//
// The rule of the skew has two parts, each in several places. First: is one more
// machine allowed, so that no count exceeds the minimum by more than the skew?
//
//	evenness.allows       spread.go       acquisition from ladders
//	worker.allowsValue    spread_take.go  acquisition from deals
//	spreadScratch.allows  spread_rows.go  phase 2
//
// Second: which values count for the minimum?
//
//	markPresent    spread.go       those with a candidate when the stage (Idle or
//	                               Speculative) begins
//	openDeal,      spread_take.go  the same: besides what is left in the deal, what is
//	noteTaken                      held for the Need and what it takes
//	floorAtTuples  spread_rows.go  VictimsMachine: those with a candidate; preemptSpread
//	                               adds those where the Need has machines
//	layFloor       gang_spread.go  VictimsGang: both
//
// The minimum itself is found by evenness.floor, by worker.findLeast (which calls
// findWitness), and by spreadScratch.findLeast. Beside the rule:
//
//   - acquireOnly in spread.go does not ask: any first machine is allowed.
//   - Machines held for the Need are taken whatever the skew: acquireHeld
//     (phase1_acquire.go), takeFree (gang_spread.go), nextSpread
//     (phase2_spread.go). They count in the skew of what follows.
//   - staysEven in spread_rows.go is the rule for a machine that goes, when a Need
//     gives back (phase1_giveback.go). It compares counts by unevenness. Then
//     reopenSpread lets later Needs see what was given back.
//   - VictimsGang has a second chance for what the skew forbade in phase 1:
//     noteSkewed sets isSkewBlocked and pass.skewed[kind], and mayEvenOut
//     (phase2_preempt.go) and findTurns (phase2_turns.go) read them, so that a Need
//     whose kind finds no victims may still plan with free machines.
//   - Preemption plays acquisition with victims among the candidates:
//     gang_spread.go (VictimsGang), phase2_spread.go (VictimsMachine).
//   - What is told: isSkewBlocked makes the reason UnmetSpread (unmet.go);
//     forbiddenBySpread is in explain.go.
//   - The twin is reference/spread.go, and for phase 2 reference/preempt.go and
//     reference/phase2.go.
//
// A new reason.
//
//   - Of a Need that is not satisfied: Unmet in plan.go, its condition and place
//     in unmet.go; the twin in reference/input.go and reference/plan.go; the
//     value on the wire in shard/session/inspect.go.
//   - Of an action: Reason in plan.go and reportActions in report.go. Of the end
//     of a plan: PlanEnd in plan_counts.go and endOf in report.go. Of a verdict
//     on a machine: explain.go.
//
// A new option.
//
//   - Field, default and fault in options.go; a default for the zero value in
//     New (engine.go). The comment of Options names those that change an answer.
//   - If it changes an answer: reference.Options (reference/input.go),
//     internal/twin/twin.go, and the random fleets of internal/fleet.
//   - In files of worlds: internal/world/options.go reads it, input.go writes it.
package engine
