// Package engine decides, once per cycle, what a shard should do with its
// machines: which to bind, to buy, to preempt, to reclaim and to give back.
//
// The decision is a pure function of supply, demand, time and options. The
// package does no I/O, reads no clock, draws no random numbers and writes no
// log. What happened in a cycle is in the Plan and its Stats. The same input
// gives the same actions, reservations, claims and reasons, byte for byte. Only
// the order of Plan.Adopted may differ, and figures in Stats that tell how an
// answer was found.
//
// A caller needs New, Engine.Cycle and Plan; the examples show them. The words
// of the field are in docs/reference/glossary.md. The rest of this comment
// explains how the package works inside: the data of a cycle, one Need on its
// way through all stages, the stages, the invariants, and what is kept from
// cycle to cycle. The second part, in recipes.go, says for each kind of change
// which files it touches. Its list of contents is at the end of this file.
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
//	                     Moves               machines that changed: from which list to which
//	                     │
//	                     ▼ normalise
//	line ───▶ kind ───▶ matcher ───▶ classes
//	one for   same      same         machines that no
//	each row  demand    requirements matcher tells apart
//	                     │
//	                     ▼ rank
//	order                Needs, highest rank first      (RankOf is the inverse)
//	                     │
//	                     ▼ phase 1: credit, acquire
//	claims               machine → machine → … → Line.Tail → the first machine
//	                                 ▲ Line.Acquired
//	                     │
//	                     ▼ phase 2: preempt
//	victims, planned     machines to drain; machines to reserve
//	                     │
//	                     ▼ phase 3: reclaim, delete, report
//	Plan                 Actions, Reservations, Adopted, Ended, Stats
//
// Machines and Needs:
//
//   - A row is the number of a machine in the supply (columnar.Row, 0 = none),
//     or one Need of a cluster's report in the demand.
//   - A line is what a cycle knows of one row of the demand: kind, cluster,
//     group, status bits, domain, and the ends of its chain of machines
//     (internal/state). The number of a line is the number of its Need.
//   - A kind is all of a Need that decides which free machines suit it and in
//     which order: the profile, the minimum unit and the dimensions asked for,
//     but not the amount, the cluster and the group (internal/state). A fleet has
//     hundreds of kinds and hundreds of thousands of Needs.
//   - A matcher is a set of requirements that some demand uses, without
//     priority, penalties, spread and minimum unit (engine/supply). It only says
//     which machines qualify. Many kinds share one matcher.
//   - A class is a set of machines that no matcher in use tells apart: equal
//     price, interruption probability, shape, instance type, and attributes that
//     requirements look at (supply/class.go). A change of price is a change of
//     class.
//   - A domain is one value of a Same key, such as one rack. A cell is the part
//     of a domain that has one value of a narrower key of Options.Nested
//     (victims/nested.go).
//   - A tuple is a value of each key that hard spread constrains.
//   - A fold is Needs with Same, alike and each small enough for one machine,
//     that are summed and walked as one plain Need: they do not need the
//     co-location that they asked for (order/normalise.go, order/fold.go); with AcquireFit also no
//     dearer than several small ones (order/fold_price.go). One line stands for
//     them (IsFold). The others are members (IsMember), which are no Needs.
//   - A gang is Needs that phase 2 takes machines from together: those of one
//     group of a cluster that no machine holds, or one Need with Same that no
//     machine holds whole (victims/gang_find.go).
//
// Who has which machine:
//
//   - To credit a Need is to count for it what is bound to its cluster already.
//     To acquire is to take a free machine for it. Both claim the machine: it
//     counts for that Need alone. The column MachineTable.Claims has the claims.
//   - To reserve is to keep a machine for an owner beyond the cycle. The owner is
//     a cluster, a fingerprint without Same, and a group (internal/holds). A
//     machine that is held for a Need is reserved for it. That is no claim. With
//     VictimsGang the plans of phase 2 reserve machines (Plan.Reservations).
//   - A stamp is what a machine carries of the Need that it serves: the
//     fingerprint of the profile and the group, with priority and penalties.
//     A machine with the stamp of a Need is the Need's own. Rows of one stamp are
//     rows of a cluster without Same that have equal profile and group
//     (assign/shared.go).
//   - A machine has a foreign stamp when it is bound and credited to a Need
//     whose stamp it does not carry. Plan.Adopted lists such machines, so that
//     the caller stamps them again (assign/credit.go).
//   - A loose machine is one that came to the cluster, or that another Need of it
//     let go of, and that no Need has claimed since (assign/worklist.go).
//
// How Needs are walked:
//
//   - A rank slot is a Need's entry in the sort: arrival, Need and kind
//     (order/rank.go). Needs of one stamp may exchange slots (findSwaps).
//   - A turn is the moment when a walk in rank order comes to a Need. Acquisition
//     and phase 2 have one walk each (assign/turns.go, preempt/preempt.go), and
//     the next cycle undoes what Needs did in these turns (IsVisited).
//   - A Need waits if its credit is put off to its turn in acquisition, because
//     it depends on what is free (IsUncredited).
//   - A worker is the memory of one goroutine that walks Needs (cycle/worker.go).
//     The goroutine that calls Cycle is the first worker.
//
// Where machines are looked for:
//
//   - A pool is the free machines of one stage that no reservation holds, a
//     list for each class (internal/free). The stage is Idle or Speculative. The head
//     of a class is the first machine of its list that is not taken.
//   - A ladder is the classes of one matcher in steps of equal cost (internal/free).
//     With AcquireCheapest, the next machine of a Need without Same and hard
//     spread is the first head in the lowest step that offers something of what
//     is missing.
//   - A unit is what can be preempted at once: one machine, or a whole gang. A
//     victim group is machines of no gang that are alike as victims. A scope is
//     the units of one domain or of the fleet, for one matcher and priority
//     (victims/scope.go, victims/alike.go). That is VictimsGang, the default. With
//     VictimsMachine a victim pool lists machines one by one (victims/machines.go).
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
//	             claims=[]
//	             status=none
//	  rank       kind=0 domain=none head=none acquired=none
//	             claims=[]
//	             status=none
//	  phase1     kind=0 domain=none head=a-1 acquired=i-1
//	             claims=[a-1 a-2 i-1]
//	             status=IsVisited HasForeignStamp
//	  phase2     kind=0 domain=none head=a-1 acquired=i-1
//	             claims=[a-1 a-2 i-1] victims=[b-1] planned=[b-1]
//	             status=HasCandidates IsAwaiting HasPlan HasOwnPlan IsVisited HasForeignStamp
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
//     no lower Need of c1 owns by its stamp (HasForeignStamp). Four machines are
//     needed and c1 has no more, so credit marks the Need in NeedTable.Lacking. In its
//     turn (IsVisited) the Need acquires i-1: Line.Acquired divides the chain
//     into what was credited and what was free.
//   - Phase 2 finds that one machine is missing. b-1 and b-2 are claimed at
//     priority 10 and have equal scores; the smaller id decides. b-1 is a victim,
//     and planned: the plan reserves it. The claim of c2's Need on b-1 stays,
//     which is why c2 is still satisfied in this plan. A victim drains; nothing
//     is bound in phase 2.
//   - Phase 3 has nothing to do here. The report turns the columns into a Plan.
//
// The caller carries the plan out: it stamps a-2, stamps the reservation on
// b-1, binds i-1, and drains b-1 until it is Idle. Then:
//
//	cycle 2
//	  normalise  kind=0 domain=none head=a-1 acquired=none
//	             claims=[a-1 a-2]
//	             status=HasForeignStamp
//	  rank       kind=0 domain=none head=a-1 acquired=none
//	             claims=[a-1 a-2] reserved=[b-1]
//	             status=HasForeignStamp
//	  phase1     kind=0 domain=none head=a-1 acquired=b-1
//	             claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
//	             status=IsSatisfied IsVisited
//	  phase2     kind=0 domain=none head=a-1 acquired=b-1
//	             claims=[a-1 a-2 i-1 b-1] reserved=[b-1]
//	             status=IsSatisfied IsVisited
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
// turn (IsUncredited), Line.Domain is set before the first claim, and the plan's
// reservation names the domain. In cycle 2 the reservation pins the gang to that
// domain (IsPinned).
//
// # Stages
//
// Engine.Cycle runs them in this order (decide in cycle.go). Its stopwatch knows
// fewer stages: lay belongs to rank; credit and acquire are phase 1 (package
// assign); preempt is phase 2; reclaim, delete and report are phase 3. N = Needs,
// M = machines, C = classes.
//
// The stages are packages below engine/internal. Seven of them form a chain:
//
//	engine/internal/cycle → order → acquire → assign → victims → search → preempt → engine
//
// Each of the seven has a Pass, what the cycle knows, and a Worker, what one goroutine
// needs, and all but preempt a Store, what one cycle leaves to the next. They embed those
// of the package before and add what their own part writes. So a stage reads
// everything that was decided before it, and nothing of what comes after it; an
// import in the other direction does not compile. The other packages below
// engine/internal are what these use: free, holds, units, domains and so on. In this
// comment a file is named by its last folder: assign/credit.go is
// engine/internal/assign/credit.go, supply/class.go is engine/supply/class.go, and
// shard/observe.go is in the folder shard of the module.
//
// The columns of a Pass live as long as a cycle, but for Lines, Claims and the other
// columns of Needs and machines: these are the store's, and live until everything is
// decided from nothing (cycle/pass.go, cycle/store.go).
//
//	stage      packages                  reads                  writes
//	---------- ------------------------- ---------------------- ---------------------------
//	snapshot   engine/snapshot           both tables            Snapshot
//	normalise  order, cycle, state       demand rows, Snapshot  lines, kinds, folds,
//	                                                            rank slots, ClusterState
//	rank       order, ranks              rank slots             order, RankOf, KindAt
//	lay        acquire, holds, free      reservations,          pools, reserved
//	                                     free lists
//	credit     assign                    BoundOf, ByCluster,    claims, Line.Status, .Domain,
//	                                     stamps, reservations   .Tail, Lacking,
//	                                                            Priority, Owner, Cheapest
//	acquire    assign: who has a turn;   Lacking, pools,        claims, Line.Acquired, .Domain,
//	           acquire, domains, cover,  ladders, domain        Taken, Acquisitions
//	           spread: what it takes     index, reservations
//	preempt    preempt: the walk;        claims, Priority,      victims, planned, plans,
//	           victims, units: what      Cheapest, pools,       Line.Status, .Domain;
//	           there is; search,         acquisitions           withheld claims
//	           tenancy: what is chosen
//	reclaim    engine/release.go         claims, victims,       reclaims
//	                                     planned
//	delete     the same                  claims, Taken,         deletes
//	                                     planned, reservations
//	report     engine: report, plan      all of these           Plan
//
// What these names stand for lies in groups of columns. Each is a struct beside Pass in the package that is named
// (assign/pass.go and so on). Those marked with * are embedded, so that their columns are named without the
// group (p.Lines, p.Taken); the others are fields (p.Preempted.Victims).
//
//	group           columns                                package  written by             read by
//	--------------- -------------------------------------- -------- ---------------------- ------------
//	Fleet *         Snap, classes, what they offer         cycle    Begin                  all
//	NeedTable *     Lines, Order, RankOf, KindAt, Lacking, cycle    normalise, rank,       all
//	                Sources, Atlas: numbers of rows                 credit (Lacking)
//	MachineTable *  Claims, Taken, Priority, Owner         cycle    credit, acquire,       all
//	                                                                preempt (withheld)
//	Kinds           what Needs share                       cycle    normalise              all
//	Changed         what differs from the last cycle       cycle    CarryOver, normalise   credit
//	Reserved        reservations: live, and ended          cycle    lay, acquire, preempt  all after lay
//	                (its type is in package holds)
//	folding         what decides whether gangs fold        order    normalise              rank
//	Stock *         Free, Ladders, Acquisitions            acquire  lay, acquire, preempt  preempt, report
//	Promised        who counts on which machine            acquire  preempt                preempt, report
//	Shortage *      which Needs have a turn                assign   acquire                preempt
//	Candidates      victim pools, scopes, nested cells     victims  preempt                preempt
//	Preempted       Victims, Plans, Planned                victims  preempt                reclaim, delete,
//	                                                                                       report
//	Tenants         shares, and the turns between tenants  victims  lay, preempt           preempt, Explain
//	Told            what Explain is made of                victims  preempt                report, Explain
//	boundsOf        bounds of domains; Searched: budget    search   preempt                preempt, report
//	released        reclaims, deletes (engine/cycle.go)    engine   reclaim, delete        report
//	Counted *       figures                                cycle    credit, acquire        report
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
//	           or the kinds of domains; a byte for each Need   components, or the first;
//	           that lacks nothing; the rows of one stamp       all give back together, by
//	           where one of them acquired, and what they       cluster
//	           have, sorted, where some may do with fewer
//	preempt    kinds × C, what priorities below those of short the first; all prepare
//	           gangs acquired, the victims of the classes that (victims: turns, gang_find)
//	           are asked for, then the turns that may find
//	           some
//	reclaim    clusters, reservations, and the machines of     the first
//	           clusters that may have excess
//	delete     a scan of two byte columns, O(M), if there is   the first
//	           a duration in Options.Release or a late-bound
//	           machine
//	report     actions + reservations + adopted                the first; long lists all
//
// Workers lock neither machines nor Needs. Credit deals clusters: what is bound
// to a cluster serves the Needs of that cluster alone. Acquisition deals
// components: kinds that share no class of free machines, not even through
// other kinds, cannot take anything from each other (assign/components.go). Where one
// component is nearly everything, the first worker decides. Fleets below 65,536
// machines and rows together are decided by the first worker alone (crewMin in
// cycle.go). Reasons (report.go) and explanations (explain.go) are worked out when
// the caller asks.
//
// # Invariants
//
// One answer, whatever the workers. The answer is defined by one sequential
// walk in rank order. Three things keep it so: no two workers write the same
// machine or Need in a stage; their results are merged by rank or cluster; and
// comparisons that decide are made in integers, rationals, or float64 whose
// rounding is fixed (internal/exact, internal/free, victims/score.go). The numbers of
// kinds and folds depend on which worker meets them first. No order looks at them.
//
// Who writes a claim. A claim is an entry of MachineTable.Claims and of the chain of its line.
// The methods of state.Claims write both, and nothing else does. Claim adds one, in
// credit (Worker.Claim); Acquire, in acquisition (noteAcquired); keepsOwn and takeParts
// claim again, in order, what a Need has. A machine is on one chain at most, as builds
// with the tag invariants check. These take claims back:
//
//	StartOver    normalise  all, if the cycle builds on nothing
//	UndoTurn     normalise  what the Need claimed in its turn of the last cycle; undo does
//	                        so for rows of one stamp that gave back together
//	PartFrom     normalise  a machine that left its cluster, which is credited anew
//	unlink       normalise  a machine that left any other cluster (PartFrom)
//	             credit     a machine that a higher Need claims now (seize)
//	row          normalise  the chain of a line that is made again (cluster)
//	beginAnew    normalise  the chain of a line that is kept in a cluster credited anew
//	dropClaims   credit     all of a cluster that is credited anew
//	LetGo        credit     what the Need was credited just now, since it is to wait
//	letGoAll     credit     all of a Need that is credited again, of a line whose row
//	                        changed, and of a Need that moved in the order
//	giveBackOne  acquire    a machine that a larger one made superfluous
//	relink       acquire    the same: takes it off the chain
//	takeParts    acquire    what rows of one stamp have, when they give back together; it
//	                        claims again what they keep
//	withhold     preempt    what was acquired: the plan goes to another domain
//	gatherIn     preempt    what was acquired outside of the cell of the plan
//
// While clusters are credited, the worker of the cluster writes its claims.
// While Needs acquire, the worker that has the Need's kind does; while rows of one
// stamp give back together, the worker of their cluster. In phase 2 the first worker
// alone withholds, and no stage after phase 1 adds a claim. Phases 2 and 3 read
// claims and do not derive them again. What a machine is worth as a victim is noted
// with each claim of credit (MachineTable.Priority).
//
// What a plan's reservation keeps. A plan reserves what it uses of victims, of
// Idle machines, of machines that drain already, for nobody or for a lower
// priority, and of other clusters' excess that phase 3 reclaims. As long as the
// reservation holds,
//
//   - no Need of equal or lower rank acquires the machine, and phase 2 does not
//     preempt it for anybody (BlockUpTo in acquire/holds.go, search/choose.go);
//   - what drains for the owner is subtracted from what the owner lacks, so that
//     the owner does not preempt twice (CountInFlight in victims/in_flight.go);
//   - a gang stays in the domain of the plan, until pinEnds finds that another
//     domain covers it and this one does not any more, or that its own machines
//     elsewhere cover it (assign/domain_choice.go);
//   - a higher rank may take an Idle machine, which ends what else is held for that
//     owner in the same pass, but for machines being created (internal/holds/end.go).
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
// changed (Snapshot.Dirty, the version of its block of demand; FindDirty), and nothing
// is reserved for its Needs, now or in the cycle before.
// Nothing outside a cluster has a say in its credit. The exception is a Need
// whose credit waits for its turn: it is credited there in every cycle, from
// what the others of its cluster leave (assign/spare.go). A cluster that is not
// skipped has a worklist of Needs, which are looked at in rank order
// (creditList in assign/worklist.go). A Need on the list is credited again if one
// of seven conditions holds (isToBeCredited):
//
//  1. It is stale: one of the bits IsStale, IsChanged, IsRobbed and IsResettled is set
//     (staleBecause). Its row changed; it shares its stamp with other rows, and a row
//     of the cluster changed its kind, group or fold, or moved (listTwins); rows joined
//     or left the fold that it is; it has another place in the order; something is or
//     was held for it; its plan went to another domain; a higher Need has claimed one
//     of its machines; or one of its machines has left its chain. A machine leaves its
//     chain when it is gone or in another cluster, when it was Creating before or is
//     now, and when its class changed. So a change of a bound machine's price makes the
//     Need stale that claims it, if both classes have machines before and after; if
//     not, the cycle builds on nothing.
//  2. Its credit waited for its turn, or a Need above it waits that could take the
//     same classes (IsUncredited, waitsForOthers).
//  3. A machine that it claims has changed but has kept its cluster and its class
//     (IsTouched); or a machine with its stamp has changed, or has another owner;
//     or it has a machine with a foreign stamp (HasForeignStamp). A satisfied Need
//     is not credited again if its own machines, walked in order, are those that
//     it claims (keepsOwn). One that lacks something is credited again, and so is one
//     whose stamp a row below it has, too (sharesOwn).
//  4. It has no Same, lacks something, and a machine of a class that it accepts is
//     loose.
//  5. It has Same, machines of a class that it accepts have changed or have another
//     claimant than before (worklist.touched), and it lacks something or owns more
//     machines than it claims.
//  6. It is parked, or has left machines to Needs of its own priority (LeavesToEqual);
//     it lacks something; and machines of a class that it accepts have changed or, if it
//     is parked, have another claimant, or the owners of all stamps were found again.
//     Such a Need leaves to Needs below it what is theirs by their stamps, so it may gain
//     a machine that only ceases to be theirs.
//  7. It shares its stamp with a row below it and has left a machine that others made
//     superfluous (LeftSuperfluous), and machines of a class that it accepts have
//     changed or have another claimant: without that machine it might take others.
//
// Why that is right: own machines come first in the walk of a Need. A Need that
// its own machines satisfy has them again, whatever happens beside it; rows of one
// stamp divide theirs, so they are asked together (listTwins). A Need
// that lacked something, and leaves nothing to others, had claimed all that was left
// for it, so that only loose machines can give it more. A machine that a lower Need claims is there
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
// the other rows of the cluster keep their lines. What such a row claims, what one
// claims that has another profile, minimum unit or group now, and what a Need claims
// that moves in the order, is let go before the walk (ClusterState.LetGo): it may rank
// otherwise now. A row that only asks for more or less keeps what it claims until its
// turn: those that rank above it could claim nothing of that before, and cannot now.
//
// Rows that have not changed are asked whether they fold otherwise only if something
// can answer otherwise: a machine that changed is of a class that no free class
// covers, or carries the stamp of a Same-row; or the free classes (freeIn, and heldIn
// for those of which all are held) differ in one that
// no other covers; or what is held for the cluster differs; or folding in the cluster
// depends on more than classes (noteStamps in order/begun.go, findFree in order/fold.go). With
// AcquireFit prices decide as well: there one class covers another only if it does not
// cost more.
//
// A cluster is credited anew as a whole when rows came or went, when a gang chose a
// domain because nothing was free and something may be now (FindDirty in cycle/store.go), and
// in the cycle after one in which rows of one stamp have given back together (Store.Divided).
// A cycle builds on nothing after an error, with Options.Full, with other tables, when
// numbers of clusters or dimensions may mean other things, or when room runs out
// (CarryOver in order/pass.go). It does so too whenever a class is new, has lost its last
// machine or has a machine again (sameClasses in snapshot/classes.go, Changed.Renumbered):
// a price or a label that no other machine has makes a new class. The reasons are in
// docs/decisions/0010-cycles-build-on-the-one-before.md.
//
// Every hundredth cycle (Options.CheckCycles), or the next one that builds on
// another, is decided a second time, from nothing. The second answer is
// returned, and Stats.Differs says that the two were not the same. In a large fleet
// (auditMin in cycle.go) each cycle audits a part of the state instead. It computes
// the credit of one cluster in a hundred again, from nothing, and checks a thousandth
// of the rank order and of the lists of machines (assign/audit.go, order/audit.go,
// snapshot/audit.go; cycle/audit.go selects the part). There one cycle in 10,000 is
// decided twice. The reasons are in docs/decisions/0143-checks-are-spread-over-cycles.md.
//
// The oracles of the tests:
//
//   - engine/reference is the contract as maps and loops. internal/twin compares
//     plans with it: on random fleets (equality_test.go), over random edits with
//     1, 2, 3 and 16 workers (script_test.go), and in the simulator
//     (internal/sim).
//   - Racing lets Needs take machines from each other by rank. It shares neither
//     heads nor ladders with the walk in rank order (race_oracle_test.go).
//   - A decision from nothing is the oracle of an incremental one: in the check
//     above, and in build_on_test.go.
//
// # Where a change goes
//
// The recipes in recipes.go list all places of a change. Each kind of change begins
// here:
//
//	change                        begins in                         and also in
//	----------------------------- --------------------------------- -----------------------------
//	what a Need acquires          acquire/acquire.go, free/pool.go; package domains (with Same),
//	                              acquire/fit.go (AcquireFit)       reference/fit.go
//	which domain a gang takes     assign/domain_choice.go           package domains,
//	in phase 1                                                      reference/same.go
//	in phase 2                    search/domains.go                 search/bounds.go,
//	                                                                reference/units_plan.go
//	hard spread, acquisition      acquire/spread.go,                package spread,
//	                              acquire/spread_deal.go,           acquire/giveback.go,
//	                              acquire/spread_fit.go             reference/spread.go
//	hard spread, preemption       search/spread.go (VictimsGang),   package spread,
//	                              preempt/spread.go                 reference/units_plan.go,
//	                              (VictimsMachine)                  reference/phase2.go
//	the order of victims          units/key.go,                     units/victim_group.go,
//	                              search/choose.go;                 search/gangs.go, search/whole.go
//	                              victims/machines.go               and others, victims/roster.go,
//	                              (VictimsMachine)                  reference/units_key.go
//	the victim score              victims/score.go                  victims/roster.go,
//	                                                                reference/victims.go
//	which marks make a Need be    isToBeCredited and staleBecause   order/normalise.go,
//	credited again                in assign/worklist.go             order/fold.go, assign/credit.go,
//	                                                                assign/shared.go (listTwins),
//	                                                                cycle/pass.go (Unlink)
//	which marks a changed         groupMoves in cycle/store.go,     order/begun.go (noteStamps: folds),
//	machine sets                  PartFrom in cycle/pass.go, and    snapshot/classes.go (sameClasses)
//	                              noteMoves in assign/worklist.go
//	what counts as a change of    SamePrice and SameFacts in        shard/observe.go, which asks them
//	a machine at all              supply/read.go
//	a new attribute of a machine  model/machine.go                  supply/class.go, supply/columns.go
//	a new field of the demand     demand/builder.go,                cycle/store.go (FindDirty,
//	                              demand/install.go (Changes)       findChanged), order/normalise.go
//	a reason or an option         package plan                      report.go, explain.go
package engine
