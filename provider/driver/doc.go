// Package driver is the interface between the provider and whatever makes machines: a
// cloud through Cluster API or Karpenter, commands of the user, or a simulation.
//
// # Level-triggered
//
// The provider keeps a durable record of what each machine shall become. A driver keeps
// nothing that matters: the objects that it makes are its state. In each round the provider
// calls Observe, compares what exists with its records, and calls a verb for every machine
// that differs. So a verb may come any number of times, also after either process was killed
// between asking and hearing.
//
// A verb is named by (Machine.ID, Machine.Generation). Its repeat has the same effect as one
// call. The name of the object that a driver makes is a function of these two alone (see
// ObjectName), so that two providers that both believe they are in charge collide on one
// object and do not buy two. An object that exists under that name and belongs to the machine
// is a success.
//
// A verb returns nil when the request is durable at the driver's end (the object is written,
// the command was accepted), not when the work is done. The end of the work shows in Observe.
//
// A verb that returns an error may have done a part of its work. It is called again, with longer and longer pauses, whatever
// transitional phase Observe reports by then, and after a restart of the provider that did not hear the answer. So a verb
// of several writes looks at what is there and goes on where the last call stopped: an object that exists is no proof that
// the rest was done. Only the phase in which the change ends (Idle, Configured, absence), or Failed, makes a repeat
// needless; so a driver reports it when all parts are there. A driver that finds a part missing after the verb has returned
// nil says so with Observation.Incomplete, and the verb is called again. Package simulated/rack is an example.
//
// # Generations
//
// A generation is one making of a machine. It rises by one with each Create of an early-bound
// machine, and with each Configure of a late-bound one. The provider begins generation n+1
// after Observe has shown that n is gone. A driver that sees an object of an older generation
// reports it like any other; the provider has it deleted.
//
// # Owned hosts
//
// A pool may list hosts that are owned (Machine.Host). At the first start, and for each host without a machine,
// the provider calls Create, as fast as launchesPerMinute allows; the machine is Idle when the host is on and in no
// cluster. Delete turns it off and releases it. Its slot stays, and the next Create has the next generation.
//
// What marks a host as a machine of ours is a claim at the driver's end: a tag or a label with id and generation,
// written only over what was read before (compare and set), so that two providers cannot both have the host. Observe yields
// hosts with such a claim, with their name in HostName, and no others.
//
//   - Create on a host with another claim of ours returns a transient error: its Delete may be under way.
//   - Create on a host that somebody else uses returns ErrPermanent and changes nothing. The machine is Failed; it is tried
//     anew when its record is cleared away (keepFailed).
//   - A host with a claim of ours that somebody else has taken since is reported as Failed and Taken. No verb is called for it until
//     that ends. A Failed machine that is not Taken is deleted at once, and that turns the host off.
//   - Drain and Delete of a machine that the host's claim does not name return nil and change nothing. Delete of one that
//     somebody else has taken gives up the claim at most, and leaves power and cluster alone.
//
// # Two ways to bind
//
// An early-bound machine exists before it has a cluster, and afterwards: Create makes it,
// Configure binds it, Drain unbinds it, Delete removes it.
//
//	absent ─ Create → Creating → Idle ─ Configure → Configuring → Configured
//	Configured ─ Drain → Draining → Idle        Idle ─ Delete → Deleting → absent
//
// A late-bound machine is made for one cluster: Configure makes it and Drain removes it.
// Create is never called. Delete is called to remove one that failed or that nobody asked for.
//
//	absent ─ Configure → Configuring → Configured ─ Drain → Draining → absent
//
// Machine.LateBound says which way a machine goes. A driver that cannot go a way answers with
// ErrPermanent, and says so from Check before.
//
// # Who owns which transition
//
// The provider owns the start of each: it decides that Create, Configure, Drain and Delete
// begin, and only after that is on its disk it calls the verb. The driver owns the end: it
// reports Idle, Configured or absence when that is true, and Failed when it never will be.
// The provider decides
//
//   - that a machine is Configured: the driver reports Configured, and what the offer declares
//     (allocatable, labels, taints) is in the Observation;
//   - that a change has taken too long: see the timeouts of pools. It marks the machine Failed
//     and calls Delete;
//   - that a machine is lost: its request was accepted, and two rounds that began later do not have it;
//   - what becomes of an object that no record asked for: an orphan is adopted or reported.
//
// A driver never changes an object without a verb, except to carry one out (labels of a
// node that has just registered, the next step of a drain). It never deletes an object because
// a machine failed: the provider asks for that, after it has read the reason.
//
// # Concurrency and time
//
// Verbs of different machines run at the same time, at most 32 of one driver. Verbs of one
// machine never overlap. Observe runs beside verbs, never beside itself. What a verb that has
// returned nil did is in every Observe that begins afterwards: a driver that reads from a cache
// waits for it to catch up, or returns an error.
//
// Each call has a deadline in its context: VerbTimeout, ObserveTimeout. A call whose context has
// ended returns soon; whether it had an effect is then unknown, and the provider repeats it. How
// often is the provider's matter: it paces creations by account and waits longer after each
// transient error. A driver does not retry a verb; one quick repeat of an idempotent request within it, after a connection that
// broke, is fine.
package driver
