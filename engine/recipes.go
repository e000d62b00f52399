// Package engine has recipes, which follow, for those who change it.
//
// # Recipes
//
// Each recipe lists all places that a change touches. A rule that changes an
// answer changes engine/reference as well, or random fleets fail. The twin is the
// place there that states the same rule. (In the code, twins are also the rows of a
// cluster that share a stamp.) The file names are of this package unless a folder is
// given.
//
// # Recipe: when a Need is credited again
//
// The conditions are in isToBeCredited (assign/worklist.go), and those of
// staleness in staleBecause. They read status bits of the Need's line and marks of
// its stamp. A change of the conditions is mostly a change of who sets a bit:
//
//	set                by                              counted in Stats as
//	------------------ ------------------------------- --------------------
//	IsStale, alone     unlink, assign/worklist.go      CreditLost
//	                   listTwins, assign/shared.go     CreditLost
//	IsStale+IsRobbed   seize, assign/worklist.go       CreditRobbed
//	IsStale+IsChanged  letGoOfChanged, the same        CreditRow
//	                   settleFolds, order/fold.go      CreditRow
//	                   changedRows, order/normalise.go CreditRow
//	IsStale+           findResettled,                  CreditHeld
//	  IsResettled        assign/worklist.go
//	IsUncredited       letWait, assign/credit.go       CreditWaiting
//	IsTouched          noteMoves, assign/worklist.go   CreditStamps
//	HasForeignStamp    seizeForeignStamp and           CreditStamps
//	                     creditCreated, assign/credit.go
//	changed, of a      noteStamp, assign/worklist.go   CreditStamps
//	  stamp's entry    noteOwners, assign/stamps.go    CreditStamps
//	worklist.loose     release, assign/worklist.go     CreditTempted
//	worklist.touched   touch, assign/worklist.go       CreditDomains
//
// The bits are cleared when the Need is credited again (creditAgain), and with its
// line when that is made again (row and beginAnew in order/normalise.go). IsTouched and
// HasForeignStamp are cleared too when keepsOwn holds, and HasForeignStamp when a
// Need lets go of what it was credited (letGo in assign/credit.go). A Need whose
// bit is set has to come on the list as well: by listWork, which begins the list,
// or by worklist.add while the list is walked. The lines of members of folds
// (IsMember) are no Needs: a bit is set on the line that stands for the fold, which
// Line.Domain of a member names. findResettled passes members by for that reason.
//
// How a change of a machine reaches the bits:
//
//	note                 supply/table.go      a setter of supply.Table says that a row changed
//	leave, enterAll      snapshot/update.go   write Snapshot.Moves: the list that each changed
//	                                          machine was in, and the one where it is
//	groupMoves           cycle/store.go       sorts them by cluster, as left, came or remains
//	PartFrom             cycle/pass.go       left: calls unlink for the claim (in normalise)
//	noteMoves            assign/worklist.go   all: touch; came and remains: noteStamp, and then
//	                                          IsTouched if a Need claims the machine, or release
//	                                          if it came and no Need claims it (in credit)
//
// A machine remains if it is in the same cluster and of the same class as before,
// and neither was Creating nor is now. All else is left, came, or both. The class
// is found from price, interruption probability, shape, instance type and the
// values of keys that split classes (classOf in supply/class.go). So:
//
//   - A change of price, however small, is left and came, and makes the Need stale. If
//     the new price makes a new class, the cycle builds on nothing (sameClasses in
//     snapshot/classes.go). The same holds for the interruption probability, which
//     decisions read of Speculative and late-bound machines alone (offerOf, CostIn); of
//     bound ones the bill and Plan.Covered do. A rule that a small change does not count
//     belongs where both enter the table: SamePrice in supply/read.go, which refresh in
//     shard/observe.go asks. It compares with what the table has, so that small
//     steps add up. Where other facts of the record differ, refresh calls Put with the
//     whole record: there it must put the table's price into the record first. The
//     test is shard/reconcile_test.go; build_on_test.go and script_edits_test.go write
//     the table and do not see the rule. The bill (engine/bill) and hints (shard/hints.go)
//     read the table's price. The rule cannot stand in groupMoves, since a cycle from
//     nothing sees the new price and must give the same answer. Only a change on which
//     no answer depends can be left out there. It seldom helps alone, since a new value
//     makes a new class; and noteMoves then has to touch the old class as well, or
//     findCheapest (assign/priorities.go) keeps its lowest priority.
//   - A change of stamp, reservation, keep order, or of a label that no requirement
//     looks at remains: IsTouched. Put notes a row even if it writes what is there,
//     so whoever calls it compares before (SameFacts).
//
// How a change of a row reaches the bits: the writers in demand/install.go mark the
// row; the comment of demand.Table.Changes lists the fields that count. Priority,
// penalties, requirements and spread are all of the profile (model/profile.go). From
// demand.Table.Changes it comes by findChanged (cycle/store.go) into ClusterState.Changed,
// from there by changedRows (order/normalise.go) into the flags of its line (IsStale,
// IsChanged) and, if others may come before it now, into ClusterState.LetGo, which
// credit walks with letGoOfChanged. A Need whose place in the order changed comes into LetGo by move
// (order/rank.go).
//
// Whether a cluster is looked at at all: FindDirty (cycle/store.go) asks Snapshot.Dirty (its
// machines) and the version of its block of demand (its rows). It sets
// ClusterState.Dirty (nothing is claimed, and all Needs are on the worklist) or
// ClusterState.Replay (some are). A fact of a cluster that is in neither must be asked
// there. If it concerns all Needs of the cluster, dirty alone will do, as for
// Store.Divided: that takes no bit and no cause. Then rowsToMake (order/normalise.go) may set
// replay, where rows fold otherwise. Last, findResettled may set replay of a cluster
// that is not dirty: reservations make their Needs stale whatever has changed.
//
// There is nothing to change in the reference, which keeps nothing, unless credit is to
// read something new: then the rule comes first, in reference/phase1.go. A change of
// the conditions or of who sets a bit adds its story to build_on_test.go and its edit
// to script_edits_test.go. Both compare answers, so they fail when too few Needs are
// stale. When too many are, only TestCreditIsCounted (plan_counts_test.go) and the
// exact gates (benches/gates_test.go) see it. A cause of its own goes into CreditCause
// and creditCauseNames (internal/plan/stats.go), into api.go and into the table of
// decision 75.
//
// # Recipe: a new status bit
//
// It goes into internal/state, and its name into statusNames in export_line_test.go. Three
// masks say what survives; each lists the bits that stay:
//
//	UndoTurn     cycle/store.go      normalise, first: a Need that had a turn in the last
//	                                 cycle, in acquisition or phase 2 (IsVisited)
//	beginAnew    order/normalise.go  normalise, in renew: a line of a cluster that is
//	                                 credited anew and has the rows that it had; members
//	                                 of folds keep all
//	creditAgain  assign/worklist.go  credit: a Need that is credited again
//
// row (order/normalise.go), join, standFor and recount (order/fold.go) write the status anew: a bit
// that is to survive there has to be set again.
//
// # Recipe: a new attribute of a machine
//
// A new criterion, say the time when a machine was bound, begins with an attribute
// that the engine can read. The only time that a machine has is IdleSince.
//
//   - Who says it? A provider's attribute comes with the provider's record. SameFacts in
//     supply/read.go compares it. The shard's own attribute (stamps, reservation,
//     IdleSince) is not in SameFacts: refresh in shard/observe.go carries it over to the
//     new record, or Put would erase it. It has a setter in supply/move.go and a
//     place in Brief (supply/read.go). shard/stamps writes it to the provider's labels, so
//     that it survives a restart, and shard/internal/inventory remembers it. What only a
//     cluster knows of its machines, such as its pods, has no way into the table.
//   - The record: model.Machine (model/machine.go), and its check in fields or
//     contradiction there. The reference reads it from the record.
//   - The table: either a part of the class (kind and classOf in supply/class.go),
//     or a column (supply/columns.go, with columnBytes). Make it a part of the class
//     only if it has few values, since the work of a cycle grows with the classes.
//     fill in supply/table.go writes it, supply/read.go gives it back. A setter calls
//     note.
//   - The cycle reads a column as Snapshot.View (supply/view.go), a part of the class
//     as Snapshot.Classes (describeClasses in snapshot/classes.go).
//   - The memory by machine is in the comment of engine/supply, and
//     supply/memory_test.go measures it.
//   - Providers, if the protocol has a field for it: provider/wire/encode.go and
//     shard/provider/wire/machine.go. Files of worlds: internal/world/machine.go
//     reads it, internal/world/input.go writes it. Random fleets:
//     internal/fleet/supply.go.
//
// # Recipe: what a Need acquires
//
// acquire (acquire/acquire.go) states the order: machines held for the Need, other
// Idle ones, Idle ones held for lower ranks, Speculative and late-bound ones. Within
// a stage acquireStage asks Options.Acquire:
//
//	AcquireCheapest  Ladder.Next       internal/free      the first head in the lowest step of the
//	                                                      ladder; NewLadder builds the steps
//	                 acquireInDomain   acquire/acquire.go  the same in one domain, with Same
//	AcquireFit       acquireFit        acquire/fit.go     what covers the Need at the least cost;
//	                                                      internal/cover solves it
//
// Beside that:
//
//   - Cost: Costs and offerOf in internal/free, CostIn in acquire/fit.go. Machines of equal
//     cost go in keep order, or by id (Speculative). The keep order is that in which a
//     Need keeps machines: by price, then the higher reclamation penalty first, then by
//     id (KeepKey in snapshot/order.go). No two machines are equal in it.
//   - fitMemo in acquire/fit.go keeps choices of AcquireFit for other Needs of the kind
//     that lack the same. A choice may depend only on what remember there stores; bestOnly in
//     acquire/spread_fit.go keeps the first machine under hard spread in it.
//   - Which domain a Need with Same chooses: assign/domain_choice.go (settleDomain for credit,
//     chooseFree for acquisition).
//   - Superfluous machines go back: those of one Need in its turn (GiveBackSuperfluous in
//     acquire/giveback.go), those of rows of one stamp after all turns (giveBackTogether in
//     assign/together.go). The twins are giveBackSuperfluous and giveBackTogether in
//     reference/phase1.go.
//   - Phase 2 plays acquisition with what its victims free: walkFreed and useFreed in
//     search/plan.go, and dryRun with its keys in search/domains.go.
//   - The twins: acquireStage in reference/fit.go, the orders in reference/order.go,
//     the domain in reference/same.go.
//
// # Recipe: hard spread
//
// The constraint is model.Spread (model/profile.go), and Kind.Spread what of it
// binds: find in internal/state. A Need with Same is not bound, and so no fold is.
// Credit does not look at the skew: a Need keeps its own machines.
//
// There are three ways to acquire. acquire in acquire/acquire.go chooses:
//
//	acquireSpread     acquire/spread.go    AcquireCheapest, where the machines of a class have
//	                                       the same value of every constrained key, as with
//	                                       zones: each tuple is a ladder of classes
//	acquireDealt      acquire/spread_deal.go  AcquireCheapest otherwise, as with hosts: machines
//	                                       are dealt into tuples one by one (acquire/spread_deal.go)
//	acquireSpreadFit  acquire/spread_fit.go  AcquireFit; acquireTuples there where classes have the
//	                                       same values, as in acquireSpread
//
// layOut in acquire/spread.go asks supply.Table.Splits which of the first two it is. Needs
// that may take machines held for them, or for lower ranks, are dealt to as well.
// The first two must take the same machines.
//
// The rule of the skew has two parts. First: is one more machine allowed, so that no
// count exceeds the minimum by more than the skew?
//
//	evenness.allows       acquire/spread.go    acquireSpread; acquireTuples (markAllowed, once a step)
//	spreadDeal.allowsValue    acquire/spread_deal.go  acquireDealt
//	Scratch.AllowsAt      internal/spread      acquireSpreadFit otherwise
//	Scratch.Allows        internal/spread      preemption
//
// Second: which values count for the minimum? Those that have a candidate when
// acquisition of Idle machines begins, and again when that of Speculative ones
// begins. A candidate is a machine with all constrained keys that the Need may take:
// one that is free, held for the Need or held for a lower rank; in preemption also
// one that it may preempt. It offers something that the Need asks for (suits in
// cycle/pass.go), though perhaps nothing that is missing now. Machines that the Need has
// are in the counts always, but for values in acquireSpread that no candidate can have
// (evenness.count). Their values count for the minimum only in preemption
// (FloorAtOwn). Where one value alone counts, its count is the minimum, so that
// nothing is refused. In the code the floor is the set of values (present, in evenness),
// least the number.
//
// A rule by which values without a candidate count needs all values that the machines
// of a kind have. For keys that split classes these are the values of the
// tupleLayout.tuples (acquire/spread.go) that have a class which suits. For hosts nothing lists
// them, and a list for each Need would cost O(M), which scaling_test.go forbids. (With
// AcquireFit, floor visits all free machines once for a stage of such a Need.)
//
//	markPresent    acquire/spread.go    acquireSpread and acquireTuples; headOf there finds a
//	                                    candidate of each tuple, EachFirst (holds/lower.go)
//	                                    one that is held for a lower rank
//	dealOut        acquire/spread_deal.go  acquireDealt: lists the values of the deal, whose
//	                                    candidates FreeInOrder lists. Several Needs share
//	                                    it: what findWitness drops from spreadFloor.live is
//	                                    gone for all of them. A rule about what one Need
//	                                    lacks skips a value there, and sets known to false
//	                                    whenever what is missing shrinks
//	openDeal,      acquire/spread_deal.go  acquireDealt: add the values of what is held for the
//	noteTaken                           Need, and of what it takes in this turn
//	floor          acquire/spread_fit.go  acquireSpreadFit otherwise; eachPlaced visits the candidates,
//	                                    one of a class where its machines agree in the keys
//	FloorAtTuples  internal/spread      VictimsMachine; preemptSpread in
//	                                    preempt/spread.go adds the values where the
//	                                    Need has machines (FloorAtOwn)
//	layFloor       search/spread.go     VictimsGang: the values of candidates, and of the
//	                                    Need's machines. Members of gangs count (eachOfGangs),
//	                                    even where no gang may be broken. Where classes have
//	                                    the keys, eachFirst and floorFull save work: one
//	                                    machine of a victim group will do. It runs before
//	                                    the plan has a machine, since eachOfGangs forgets
//	                                    what the plan has (unmark): a rule for each step
//	                                    needs another way
//
// The minimum itself is found by evenness.floor, by findLeast in acquire/spread_deal.go
// (which calls findWitness), and by findLeast in internal/spread, for fit too.
// AllowsAt, like skew.allows in the reference, counts the machine's own value for the
// minimum. Since maxSkew is at least 1, that changes no answer.
//
// The values that count are fixed when a stage of a Need begins. In acquireDealt a value
// whose last candidate the Need itself took goes on counting (spreadFloor.also);
// findWitness drops what Needs before it used up. Tuples that the skew forbids are in
// stratum.barred, and come back in findLeast, when the minimum of the finest constraint
// rises: a rule that allows more for another reason has to bring them back, too.
//
// From one stage, Need or cycle to the next the minimum rises when the value with the
// least count has no candidate any more, so fewer candidates can allow more. Two things
// rely on that: in search/tenancy.go nothingToReclaim is never true of a Need under hard spread, and
// nothingObtainable only while no machine is free for it; and the second chance, below. Beside the rule:
//
//   - acquireOnly in acquire/spread.go, and acquireOnly in acquire/spread_fit.go, do not ask: any first
//     machine is allowed.
//   - Machines held for the Need are taken whatever the skew: Acquire in
//     acquire/acquire.go, takeFree in search/spread.go, and nextSpread in preempt/spread.go. They count in the skew of what follows.
//   - StaysEven in internal/spread is the rule for a machine that goes, when a Need
//     gives back (acquire/giveback.go). It compares counts by unevenness: the largest
//     less the smallest, over the values where the Need had a machine. Then
//     reopenSpread lets later Needs see what was given back.
//   - VictimsGang has a second chance for what the skew forbade in phase 1, since one
//     minimum holds for both stages there, and victims and own machines count for it.
//     noteSkewed in acquire/spread.go sets IsSkewBlocked and Stock.Skewed[kind]. mayEvenOut in
//     preempt/preempt.go reads both, turnAt there and FindTurns in victims/turns.go the
//     latter, so that a Need whose kind finds no victims may still plan with free
//     machines.
//   - Preemption plays acquisition with victims among the candidates. Each step takes an
//     Idle machine, else a Speculative one, else a victim, and the values that count
//     are found once for all three: underSkew with takeFree and takeUnit in
//     search/spread.go, preemptSpread with nextSpread in preempt/spread.go, and both
//     twins. A rule for one stage of acquisition belongs in that step, too. In the
//     reference skew.allows serves acquisition and preemption.
//   - What is told: IsSkewBlocked makes the reason UnmetSpread (report.go), and
//     forbiddenBySpread in explain.go reads that bit.
//   - The twins: acquireSpread, nextToAcquire (by fit), nextSpread and the type skew
//     in reference/spread.go; planSpread and unitsUnderSkew in reference/units_plan.go;
//     victimsUnderSkew in reference/phase2.go. Each of these files calls skew.begin, which
//     lists the values that count; the last two call includeCounted, too. staysEven is
//     asked in reference/phase1.go.
//   - Tests and docs: random fleets fail first (equality_test.go, and
//     spread_hosts_test.go for hosts), and TestContract, whose cases are in
//     internal/fleet/contract and hold for the reference as well. The rule is in
//     docs/explanation/contract.md (5.7, and the section on preemption), and in decisions
//     4 (VictimsMachine), 12 (VictimsGang), 9 and 56. docs/reference/world.md says what
//     maxSkew means.
//
// # Recipe: the order of victims
//
// VictimsGang, the default, takes units in the order of Key.Compare in
// internal/units/key.go, the smallest key first, field by field:
//
//	paid     false for excess alone: it costs nothing, so it goes first
//	tenant   between tenants: minus the ratio of what the giver has to its share, in
//	         steps of θ; else 0
//	band     −⌊S/δ⌋ of the victim score S and δ = Options.Band; between tenants 0. S is +∞
//	         for machines that drain for nobody, −∞ for those that drain for a lower
//	         rank or that a lower priority has acquired in this pass (scoreOf), so that of
//	         excess the former goes first, the latter last
//	class    what the loss does to a workload, the gentlest first (units.Class)
//	roi      of a whole gang −⌊ROI/θ⌋: what breaking it gives here, over what it
//	         destroys everywhere, measured on what is missing (ROISteps in internal/exact)
//	score    −S. S grows with the gap in priority, and as the time to drain and the
//	         penalties shrink (victims/score.go). The score of a whole gang is the least
//	         of its members'
//	cluster  of the gang; −1 for units of no gang
//	group    of the gang
//	last     of a machine above a gang's minimum: the keep order reversed, which is
//	         unique. So no field behind it decides between such machines, and none
//	         behind cluster and group between whole gangs. Else 0
//	id       rank of the id, a uint32 (Snapshot.IDRank)
//
// θ is 1/20. The classes of units:
//
//	sunk     a machine of a gang that is lost anyway: the gang is broken (units.GangState),
//	         or a plan of this cycle broke it and does not use the machine
//	excess   Configured, claimed by no Need, and its cluster has reported; or draining
//	         and free for the taker. The field paid decides about it before the class does
//	elastic  a machine of a gang above the gang's minimum
//	plain    any other machine of no gang
//	whole    all machines of a gang that are not victims already
//
// choose (search/choose.go) takes units by key until nothing is missing, each of
// which has something of what is missing. Then reprieve drops units without which
// as much is freed, the last chosen first, and substitute replaces units by gentler
// ones (search/reprieve.go). A gentler unit has a smaller key, shares no machine with
// the plan and covers what only the replaced unit covers. A plan for a part
// reprieves only. Under hard spread neither is done.
//
// The taker is the tenant whose Need has its turn, the giver the tenant that loses the
// machine (search/tenancy.go, docs/explanation/gangs.md).
//
// A new criterion goes into Key, and into its twin, unitKey in
// reference/units_key.go, which keyOfUnit fills. The key of a unit is filled in:
//
//	ofVictimGroup  search/choose.go  a machine of no gang
//	single         search/choose.go  a machine of a gang; the callers in search/gangs.go
//	                                choose the class
//	listSurplus    search/gangs.go  adds the keep order to those above a gang's minimum.
//	                                Its walk in that order also decides which machines
//	                                these are: it ends where the minimum would break. A
//	                                criterion that is to decide that goes into the sort
//	                                here and in unitsOfGang, in reference/units_key.go;
//	                                any other only orders the machines found
//	listWhole      search/gangs.go  a whole gang; a figure of the gang is summed in its loop,
//	                                which skips victims of earlier plans, not those of the
//	                                plan at work. So the sum does not change while the plan
//	                                grows
//
// Two fields change while a plan grows, and are set where keys are compared. The
// ROI: nextWhole and ofGroupBefore in search/whole.go. The tenant: ofVictimGroup and
// nextSingle in search/choose.go, addSinglesBefore in search/reprieve.go. Both:
// bestOfTenant in search/spread.go, nextOfTenant and wholesAdmitted in
// search/tenancy.go, gentler in search/reprieve.go.
//
// Machines of no gang are ordered in two steps. First the victim groups: machines
// with equal VictimGroupKey (internal/units/victim_group.go), which dealAlike and
// dealLeaving in victims/alike.go fill. Then, inside a group, by id. So there are two
// ways to add a criterion in which machines of no gang differ:
//
//   - It has few values: add it to VictimGroupKey, unless the class of the machine
//     decides it, which is in that key, as price and shape are, and to CompareTiers.
//     VictimGroup has the fields of VictimGroupKey. Only a figure that is not in that
//     key, as one that depends on the preemptor, is added to VictimGroup and to GroupOf,
//     which makes one, called once in victims/roster.go and twice in victims/scope.go. If it is
//     compared last, it stands in Key anywhere behind the score: machines of gangs and
//     of none are never equal in class. If it stands before the band, see the list
//     below. ofVictimGroup fills it, and single for the machines of lost gangs, which
//     the id alone orders otherwise. If engine and reference both forget these, no
//     random fleet fails. A price is there as an integer: Snapshot.PriceRank, by class.
//     Victim groups are listed and sorted for each pool, so a criterion such as the
//     age, which makes groups of about one machine, makes preemption slow.
//   - It has many values: order the machines inside a group by it, before the id. The
//     order by id is made in Alike.Add, Sort and Least (internal/units/victim_group.go),
//     and for draining and acquired machines in FindLeaving (preempt/preempt.go):
//     dealLeaving lists them as Sorted. It is read in VictimGroup.First (set by read in victims/roster.go
//     and by order in victims/scope.go), in CompareVictimGroups, in selection.head
//     (search/choose.go), which merges the groups of one tier, and in dealVictimGroup
//     (victims/scope.go), which keeps it when groups are dealt into domains. All of them
//     compare uint32 ranks, so a rank that the snapshot makes, as it makes those of ids,
//     changes the least. The field then comes before id in Key.
//
// Units are not sorted as a whole. choose, and bestOfTenant under hard spread,
// merge four sorted sources: victim groups, machines of lost gangs, machines above
// a gang's minimum, and whole gangs. The sources are listed no further than they
// are asked for. What stops them holds because the fields up to the ROI lead the key.
// A tier is the victim groups that are equal in CompareTiers: by excess, giver, band
// and score. If a new field is compared after the ROI and is in VictimGroupKey, only
// CompareTiers of this list changes; if it orders the machines inside a group, nothing
// does. But its value must not change while a plan grows: gangs of equal ROI are taken
// in the order in which they were sorted (nextWhole, nextOfTenant). If it is compared
// before the ROI, check each:
//
//	CompareTiers     internal/units      the order of victim groups, but for ids
//	Unread.First     internal/units      ends at the first group whose priority is too high,
//	                                     so the groups stay sorted by priority
//	rosterOf,        victims/roster.go   groups are read by priority, and given out when
//	settle                               no unread one can have a smaller band
//	prospectOf,      victims/prospects   gangs are listed in the order of such a bound of
//	leastKey,                            their units' keys, as far as a choice goes
//	compareProspects
//	choose           search/choose.go    asks for no whole gang of a band that is not
//	                                     smaller than that of the next single unit
//	bestVictimGroup  search/spread.go    ends with the tier in which it found a unit
//	nextWhole        search/whole.go     whole gangs by band, then by ROI, which changes;
//	                                     Group in internal/units/wholes.go groups them
//	wholesBefore     search/whole.go     ends at a band above that of the unit to replace
//	leastOutside     search/reprieve.go  a bound of the keys outside of the plan: gentler
//	                                     units are sought only for larger keys. It is a
//	                                     whole key, or ends with its class or band
//	nextOfTenants    search/tenancy.go  skips tenants by paid and tenant; within one, where
//	                                     keys have no band, single units precede gangs
//	nextOfTenant     search/tenancy.go  stops measuring at the best ROI there can be
//	wholesAdmitted   search/tenancy.go  wholesBefore, between tenants
//	dealByTenant     search/tenancy.go  the giver stands right behind excess in CompareTiers
//
// Beside the key of units:
//
//   - VictimsMachine: excess first, then by score, then by id: buildVictimPool in
//     victims/machines.go, beforeAsVictim in preempt/spread.go, and their twin,
//     victimCandidates in reference/victims.go. DropUnneeded in victims/machines.go drops
//     superfluous victims, in an order of its own: compareWorth. Under hard spread it
//     is not called. Its twins are giveBack and byWorth in reference/victims.go.
//   - The score, for both ways: ScoreTerms in victims/score.go. A new term needs its
//     largest value in mostScore (victims/roster.go). The twin is victimScore in
//     reference/victims.go.
//   - Which of several domains: PlanCost in internal/units/cost.go, filled by costOf in
//     search/plan.go and compared by cheaper in search/domains.go; costOf and cheaper in
//     reference/units_plan.go are the twins. Which domains are tried at all:
//     search/domains.go and search/bounds.go; candidateDomain and compare in
//     reference/units_plan.go are the twins. VictimsMachine: preempt/same.go.
//   - Tests: TestContract (its cases are in internal/fleet/contract), Example_oneNeed
//     with its text in doc.go, and the scenarios fail where the order is stated; random
//     fleets (equality_test.go) do only where internal/fleet makes machines that differ
//     in the new field alone. scaling_test.go counts what preemption looks at.
//   - What the user is told: search/explain.go, docs/explanation/gangs.md, and
//     decisions 4, 11 and 12 in docs/decisions.
//
// # Recipe: a new reason
//
//   - Of a Need that is not satisfied: Unmet in internal/plan/need.go, its condition
//     and place in report.go; the twin in reference/input.go and reference/plan.go; the
//     value on the wire in shard/session/inspect.go.
//   - Of an action: Reason in internal/plan/action.go and reportActions in report.go.
//     Of the end of a plan: PlanEnd in internal/plan and endOf in report.go. Of a
//     verdict on a machine: internal/records and explain.go.
//
// # Recipe: a new option
//
//   - Field, default and fault in internal/plan/options.go; a default for the zero
//     value in New (engine.go). The comment of Options names those that change an
//     answer.
//   - If it changes an answer: Options in reference/input.go, internal/twin/twin.go,
//     and the random fleets of internal/fleet.
//   - In files of worlds: internal/world/options.go reads it, internal/world/input.go
//     writes it.
package engine
