// The state of the fleet in one sentence.

import { clock, count, dollars } from './format.js';
import { h, morph } from './dom.js';
import { capacityName, needLink, reasonOf, several } from './parts.js';
import { Fresh } from './query.js';
import { linkToTab } from './router.js';
import { linkToWhatIf } from './whatif.js';

export class Verdict {
  constructor(box, redraw) {
    this.box = box;
    this.relief = new Fresh(redraw);
  }

  update(store) {
    const f = store.frame;
    const short = Boolean(f && f.satisfied < f.needs);
    this.box.classList.toggle('short', short);
    this.relief.want(short ? ['relief', {}] : null);
    const now = this.relief.answer;
    const said = now?.capacity && JSON.stringify(now);
    if (said && f && said !== this.last?.said) this.last = { answer: now, said, at: store.now(), lacked: lacks(now, f) };
    morph(this.box, store.info ? sentence(f, this.last, store.now()) : ['Loading …']);
  }
}

const NAMED = 3; // Needs that the sentence names

/** What the Needs of an answer lack in a frame. One that waits for drains only is getting it. */
const lacks = (r, f) => JSON.stringify((r.needs ?? []).map((name) => f.unmet.find((u) => u.name === name && u.reason !== 'awaiting_drain')?.deficit));

const OLD_MS = 3000; // an answer that is older tells its time

/**
 * The machines of one kind that would satisfy the most Needs, as it was decided: a line of its own, whose place is kept. The last answer
 * stays, with its time, until another is found, as long as what it would satisfy lacks the same.
 */
function relief(last, f, now) {
  if (!last) return '\u00a0';
  const r = last.answer, c = r.capacity, short = f.needs - f.satisfied, names = r.needs ?? [];
  const stale = f.unmet.length === short && (names.some((name) => !f.unmet.some((u) => u.name === name && u.reason !== 'awaiting_drain')) || lacks(r, f) !== last.lacked);
  if (r.satisfies > short || stale) return '\u00a0';
  const all = r.satisfies === short && short > 1, listed = names.slice(0, NAMED);
  const whom = all ? 'all of them' : [listed.map((name, i) => [i === 0 ? '' : i === r.satisfies - 1 ? ' and ' : ', ', needLink(name)]), r.satisfies > listed.length ? ` and ${several(r.satisfies - listed.length, 'more', 'more')}` : ''];
  return [h('a.to', { href: linkToWhatIf({ add: c.like, count: c.count }), title: 'The engine has decided about the fleet with them: see what would happen' },
    `${several(c.count, 'more machine')} like ${c.like}`), ` (${[c.instanceType, c.capacityType !== 'Unspecified' ? capacityName(c.capacityType) : '', dollars(c.addedDollarsPerHour) + (c.count > 1 ? ` for all ${count(c.count)}` : '')].filter(Boolean).join(', ')}) would satisfy `, whom, now - last.at > OLD_MS ? `, as of ${clock(last.at)}.` : '.'];
}

function sentence(f, found, now) {
  if (!f) return ['Waiting for the first cycle.'];
  const held = f.mode ? ` Nothing is carried out: ${f.mode}.` : '';
  if (f.needs === 0) return [`No cluster has reported demand yet.${held}`];
  const short = f.needs - f.satisfied;
  if (short === 0) return ['All ', h('a', { href: linkToTab('needs') }, several(f.needs, 'Need')), ` ${f.needs === 1 ? 'is' : 'are'} satisfied.${held}`];
  const by = (reason) => f.reasons.find((r) => r.reason === reason)?.count ?? 0;
  const waiting = by('awaiting_drain');
  const most = [...f.reasons].sort((a, b) => b.count - a.count)[0];
  return [
    h('a', { href: linkToTab('overview') }, h('b', {}, `${several(short, 'Need')}`)), ' of ', h('a.plainly', { href: linkToTab('needs') }, h('b', {}, count(f.needs))), h('b', {}, ` ${short === 1 ? 'is' : 'are'} short`),
    f.mostly ? [short === 1 ? ' of ' : ', mostly ', h('b', {}, f.mostly === 'gpu' ? 'GPUs' : f.mostly)] : '',
    most && most.reason !== 'awaiting_drain' ? `; ${inWords(most.reason, most.count, short)}` : '',
    most && most.reason !== NONE_FITS ? noneFits(f) : '',
    waiting > 0 ? `; ${count(waiting)} only ${waiting === 1 ? 'waits' : 'wait'} for machines that drain` : '',
    `.${held}`,
    h('span.relief', { 'data-key': 'relief' }, relief(found, f, now)),
  ];
}

const NONE_FITS = 'no_matching_supply';

/** Needs that no machine fits are named where others are in the majority: nothing else that the sentence says is about them. */
function noneFits(f) {
  const names = f.unmet.filter((u) => u.reason === NONE_FITS).slice(0, NAMED), all = f.reasons.find((r) => r.reason === NONE_FITS)?.count ?? 0;
  if (names.length === 0) return '';
  return ['; no machine fits ', names.map((u, i) => [i === 0 ? '' : i === all - 1 ? ' and ' : ', ', needLink(u.name, u.key)]), all > names.length ? ` and ${several(all - names.length, 'more', 'more')}` : ''];
}

/** What stands against most of those that are short: one = "it", some = "3 of them", all = "they". */
const WORDS = {
  no_matching_supply: (who) => `no machine fits ${who.them}`, insufficient_supply: (who) => `all machines that fit ${who.them} are too few`, priority_starved: (who) => `others of equal or higher priority have what ${who.they} ${who.need}`,
  preemption_exhausted: (who) => `too few machines could be preempted for ${who.them}`, topology_unsatisfiable: (who) => `no single rack or zone could hold ${who.them}`, spread_unsatisfiable: (who) => `spread over domains holds ${who.them} back`,
  parked: (who) => `${who.they} ${who.wait} until one rack or zone can hold ${who.it}`,
};

function inWords(reason, n, short) {
  const one = n === 1, all = n === short;
  const who = { them: all ? (one ? 'it' : 'them') : `${count(n)} of them`, they: all ? (one ? 'it' : 'they') : `${count(n)} of them`, it: one ? 'all of it' : 'all of each', need: one ? 'needs' : 'need', wait: one ? 'waits' : 'wait' };
  return WORDS[reason]?.(who) ?? `${count(n)} ${one ? 'is' : 'are'} ${reasonOf(reason).label}`;
}
