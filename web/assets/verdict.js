// The state of the fleet in one sentence.

import { count } from './format.js';
import { h, morph } from './dom.js';
import { reasonOf, several } from './parts.js';
import { linkToTab } from './router.js';

export class Verdict {
  constructor(box) {
    this.box = box;
  }

  update(store) {
    const f = store.frame;
    this.box.classList.toggle('short', Boolean(f && f.satisfied < f.needs));
    morph(this.box, sentence(f));
  }
}

function sentence(f) {
  if (!f) return ['Waiting for the first cycle.'];
  const held = f.mode ? ` Nothing is carried out: ${f.mode}.` : '';
  if (f.needs === 0) return [`No cluster has reported demand yet.${held}`];
  const short = f.needs - f.satisfied;
  if (short === 0) return [`All ${several(f.needs, 'Need')} are satisfied.${held}`];
  const by = (reason) => f.reasons.find((r) => r.reason === reason)?.count ?? 0;
  const waiting = by('awaiting_drain');
  const most = [...f.reasons].sort((a, b) => b.count - a.count)[0];
  return [
    h('a', { href: linkToTab('overview') }, h('b', {}, `${several(short, 'Need')} of ${count(f.needs)} ${short === 1 ? 'is' : 'are'} short`)),
    f.mostly ? [short === 1 ? ' of ' : ', mostly ', h('b', {}, f.mostly === 'gpu' ? 'GPUs' : f.mostly)] : '',
    most && most.reason !== 'awaiting_drain' ? `; ${most.count === short ? (short === 1 ? 'it is' : 'all are') : `${count(most.count)} ${most.count === 1 ? 'is' : 'are'}`} ${inWords(most.reason)}` : '',
    waiting > 0 ? `; ${count(waiting)} only ${waiting === 1 ? 'waits' : 'wait'} for machines that drain` : '',
    `.${held}`,
  ];
}

const WORDS = {
  no_matching_supply: 'unlike any machine', insufficient_supply: 'more than all machines that match', priority_starved: 'behind Needs that matter more',
  preemption_exhausted: 'more than could be preempted', topology_unsatisfiable: 'too large for any one rack or zone', spread_unsatisfiable: 'held back by their spread', parked: 'parked',
};
const inWords = (reason) => WORDS[reason] ?? reasonOf(reason).label;
