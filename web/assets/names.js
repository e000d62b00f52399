// Words and colours for the names that the feed uses. Colours are variables of
// style.css, one set for light and one for dark; a state, the action that leads
// to it and the phase that decides it share a hue.

export const states = {
  Configured: { color: '--blue', hint: 'bound to a cluster and serving it' },
  Configuring: { color: '--sky', hint: 'on its way into a cluster' },
  Idle: { color: '--teal', hint: 'has a host, belongs to no cluster' },
  Creating: { color: '--gold', hint: 'being made by the provider' },
  Draining: { color: '--orange', hint: 'leaving its cluster' },
  Deleting: { color: '--purple', hint: 'being given back to the provider' },
  Failed: { color: '--red', hint: 'ended in an error; an administrator retires it' },
  Speculative: { color: '--grey', hint: 'a quota slot that could become a machine; no host yet', off: true },
};

export const kinds = {
  Bootstrap: { color: '--blue', hint: 'bind an idle machine to a cluster' },
  Provision: { color: '--gold', hint: 'create a machine in a speculative slot' },
  Preempt: { color: '--rose', hint: 'drain a machine of another cluster for a Need of higher priority' },
  Reclaim: { color: '--orange', hint: 'drain a machine that no demand claims' },
  Delete: { color: '--purple', hint: 'give an idle machine back to the provider' },
};

export const phases = {
  phase1: { color: '--blue', label: '1 · acquire', hint: 'phase 1: credit what is bound, acquire what is missing' },
  phase2: { color: '--rose', label: '2 · preempt', hint: 'phase 2: choose victims for what phase 1 left' },
  phase3: { color: '--orange', label: '3 · release', hint: 'phase 3: release what demand no longer claims' },
  snapread: { color: '--teal', label: 'snapshot', hint: 'freeze supply and demand, fold and rank the Needs' },
  reconcile: { color: '--slate', label: 'reconcile', hint: 'take in what the provider lists' },
  emit: { color: '--sky', label: 'emit', hint: 'apply the rails and queue the actions' },
  execute: { color: '--gold', label: 'execute', hint: 'hand the actions to the executor' },
};

export const capacity = {
  BareMetal: { color: '--slate', label: 'bare metal' },
  Reserved: { color: '--teal', label: 'reserved' },
  OnDemand: { color: '--blue', label: 'on demand' },
  Spot: { color: '--gold', label: 'spot' },
  Unspecified: { color: '--grey', label: 'unspecified' },
};

/** Why a Need is unmet: the words, what it means, and what helps. */
export const reasons = {
  no_matching_supply: {
    label: 'no matching supply', color: '--red',
    text: 'No machine in any usable state matches the requirements and holds the smallest unit, or none of those holds some resource that is wanted.',
    help: 'Add such machines or quota, or relax the requirements.',
  },
  insufficient_supply: {
    label: 'insufficient supply', color: '--teal',
    text: 'All machines that match are not enough together, even if nobody else had any of them.',
    help: 'Add machines or quota of this kind. A higher priority does not help.',
  },
  priority_starved: {
    label: 'priority starved', color: '--orange',
    text: 'What matches is held by Needs of equal or higher rank.',
    help: 'Add capacity, or raise this priority if it matters more.',
  },
  preemption_exhausted: {
    label: 'preemption exhausted', color: '--rose',
    text: 'Machines of lower priority were found, but not enough of them.',
    help: 'Add capacity of this kind.',
  },
  awaiting_drain: {
    label: 'awaiting drain', color: '--sky',
    text: 'Machines that are being drained for it cover the rest.',
    help: 'Nothing to do: it gets them when they are empty.',
  },
  topology_unsatisfiable: {
    label: 'topology', color: '--purple',
    text: 'No single domain (rack, zone …) could hold the whole group, even if nobody else had any of its machines.',
    help: 'Add machines to one domain, or make the group smaller.',
  },
  spread_unsatisfiable: {
    label: 'spread', color: '--gold',
    text: 'Machines are free, but taking them would break the spread over domains.',
    help: 'Add machines to the emptier domains, or allow more skew.',
  },
  parked: {
    label: 'parked', color: '--slate',
    text: 'No domain could hold all of it for eight cycles: it takes no more machines until one can. It is tried again every 32 cycles, and at once when machines that match appear.',
    help: 'Add machines to one domain, or raise its priority.',
  },
};

/** Why an action was taken. */
export const rules = {
  'phase1.idle': 'an idle machine that suits it',
  'phase1.speculative': 'no idle machine that suits it was left, so this one is bought',
  'phase2.preempt': 'a Need of higher priority is short',
  'phase3.excess': 'no demand claims it',
  'phase3.release': 'idle for its whole hold time',
};

/** How far machines are on their way from one shard to another. */
export const movePhases = {
  asked: { color: '--grey', text: 'The shard that has them is asked to give them.' },
  released: { color: '--gold', text: 'They are given away, and not taken over yet: nobody uses them.' },
  adopted: { color: '--teal', text: 'They are the other shard’s.' },
  settled: { color: '--teal', text: 'They are the other shard’s, and both know.' },
  returning: { color: '--orange', text: 'The other shard did not take them: they go back.' },
  returned: { color: '--slate', text: 'They are where they were.' },
  cancelled: { color: '--slate', text: 'Nothing was given.' },
};

export const tiers = { idle: 'idle', speculative: 'quota, not bought yet', preempt: 'drained of work with a lower priority' };

/** How a Need chooses among free machines that suit it. */
export const acquire = {
  cheapest: { label: 'lowest cost', hint: 'the machine that costs the Need least goes first, interruptions included, however little of it the machine covers' },
  fit: { label: 'fit', hint: 'those machines go first that together cover what is missing at the least cost, interruptions included: a dearer machine that covers more can be the better one' },
};

/** The last part of a label's key: zone of topology.kubernetes.io/zone. */
export const shortKey = (key) => key.slice(key.lastIndexOf('/') + 1);

/** Why a domain was not chosen. */
export const rejections = {
  covers: 'another covers all of it', minimum: 'another covers its minimum', own: 'another has more machines of its own', total: 'another has more for it', creditable: 'another has more bound to its cluster',
  surplus: 'another has more to spare', machines: 'another costs fewer machines', value: 'alike; another comes first by name',
  capacity: 'too small, even with every preemption', units: 'nothing there may be preempted', ledger: 'tenants’ shares forbid it', dry_run: 'the machines would not be enough after all', top_domains: 'enough others were better',
  excess: 'another has machines that nobody claims', band: 'another hurts less', gangs: 'another breaks fewer gangs', destroyed: 'another destroys less', grace: 'another is free sooner', phase1_domain: 'another is where it is already',
};
