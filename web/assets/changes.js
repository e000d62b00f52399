// What changed: between any two cycles that are kept, and who was preempted for whom.

import { clock, count, dollars, span } from './format.js';
import { h, morph } from './dom.js';
import { kinds, rules, states } from './names.js';
import { empty, moment, needLink, reasonTag, several, stateTag, table, to, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, place } from './router.js';

const HOUR_MS = 3600e3;
const CHOICES_MAX = 400; // cycles in a list to choose from
const NEED_HEADS = [{ name: 'Need', cls: 'id' }, { name: 'What it wants', cls: 'wide' }, { name: 'Priority', cls: 'num' }, { name: 'Was', cls: 'reason' }, { name: 'Is', cls: 'reason' }];
const MACHINE_HEADS = [{ name: 'Machine', cls: 'id' }, { name: 'Was', cls: 'wide' }, { name: 'Is', cls: 'wide' }];
const ACTION_HEADS = [{ name: 'Action', cls: 'kind' }, { name: 'Machines', cls: 'num' }, { name: 'Cluster', cls: 'id' }, { name: 'Why', cls: 'wide' }];
const PAIR_HEADS = [{ name: 'Last', cls: 'time' }, { name: 'Who lost', cls: 'id' }, { name: 'Its priority', cls: 'num' }, { name: 'Who got it', cls: 'id' }, { name: 'Its priority', cls: 'num' }, { name: 'How often', cls: 'wide' }, { name: 'Notice up to', cls: 'num' }, { name: 'Plan', cls: 'num' }];

export class Changes {
  constructor(box, redraw) {
    this.cycles = new Fresh(redraw);
    this.changes = new Fresh(redraw);
    this.pairs = new Fresh(redraw);
    this.from = h('select', { id: 'changes-from', onchange: () => filter({ from: this.from.value }, true) });
    this.to = h('select', { id: 'changes-to', onchange: () => filter({ to: this.to.value || null }, true) });
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter what changed', autocomplete: 'off', oninput: () => filter({ q: this.search.value || null }) });
    this.kept = h('p.now');
    this.sums = h('div.body');
    this.pairsNow = h('p.now');
    this.pairsBody = h('div.body');
    box.append(
      h('section.panel.all', { id: 'preempted', 'aria-labelledby': 'preempted-h' }, h('header', {}, h('h2', { id: 'preempted-h' }, 'Preempted in the last hour'), this.pairsNow), this.pairsBody),
      h('section.panel.all', { id: 'compare', 'aria-labelledby': 'compare-h' }, h('header', {}, h('h2', { id: 'compare-h' }, 'What changed between two cycles'), this.kept),
        h('div.tools', {}, h('label', { for: 'changes-from' }, 'from'), this.from, h('label', { for: 'changes-to' }, 'to'), this.to, this.search), this.sums));
  }

  update(store) {
    const f = place.filters;
    this.cycles.want(['cycles', { limit: 4000 }]);
    // A span that ends now moves on by ten seconds, so that an answer is used for a while.
    const hourAgo = Math.floor((store.now() - HOUR_MS) / 10e3) * 10e3;
    this.pairs.want(['preemptions', { from: hourAgo }]);
    this.drawPairs(store);
    const list = this.cycles.answer?.cycles;
    if (!list) return morph(this.sums, [h('p.empty', {}, this.cycles.error?.message ?? 'Asking …')]);
    if (list.length === 0) return morph(this.sums, [empty('No cycle is kept yet.')]);
    this.kept.textContent = `${several(list.length, 'cycle')} kept, since ${moment(this.cycles.answer.since)}`;
    const from = Number(f.get('from')) || list[Math.min(60, list.length - 1)].at;
    this.choices(this.from, list, from);
    this.choices(this.to, list, Number(f.get('to')) || 0, 'now');
    if (document.activeElement !== this.search) this.search.value = f.get('q') ?? '';
    this.changes.want(['changes', { from, to: f.get('to'), q: f.get('q') }]);
    this.drawChanges();
  }

  /** Fills a list of cycles, unless it is open: every cycle of late, then ever fewer. */
  choices(select, list, chosen, none = null) {
    if (document.activeElement === select) return;
    const stride = Math.max(Math.ceil(list.length / CHOICES_MAX), 1);
    const some = list.filter((c, i) => i < CHOICES_MAX / 4 || i % stride === 0 || c.at === chosen);
    const option = (value, label) => h('option', { value, 'data-key': String(value), selected: value === chosen }, label);
    const known = some.some((c) => c.at === chosen);
    morph(select, [none ? option('', none) : null, known || !chosen ? null : option(chosen, moment(chosen)), some.map((c) => option(c.at, `${clock(c.at)} · cycle ${count(c.cycle)} · ${count(c.unmet)} short`))]);
    select.value = chosen ? String(chosen) : '';
  }

  drawPairs(store) {
    const { answer: a, error } = this.pairs;
    if (error || !a) return morph(this.pairsBody, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    this.pairsNow.textContent = a.pairs.length > 0 ? `${several(a.machines, 'preemption')} of ${several(a.different, 'machine')}` : '';
    const reach = a.since > 0 ? span((store.now() - Math.max(a.since, store.now() - HOUR_MS)) / 1000) : '';
    morph(this.pairsBody, [a.pairs.length > 0 ? table('Who was preempted for whom, the latest first', PAIR_HEADS, a.pairs.map(pairRow)) : empty(`Nobody was preempted${reach ? ` in the last ${reach}` : ''}.`, true)]);
  }

  drawChanges() {
    const { answer: a, error } = this.changes;
    if (error || !a) return morph(this.sums, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    morph(this.sums, [
      totals(a),
      part('actions', 'What was done', a.actions, 'Nothing was done.', ACTION_HEADS, actionRow, a.actions.length),
      part('needs', 'Needs', a.needs, 'No Need came to be unmet or ceased to be.', NEED_HEADS, needRow, a.needsTotal),
      part('machines', 'Machines', a.machines, 'No machine changed its state or its cluster.', MACHINE_HEADS, machineRow, a.machinesTotal),
      a.more > 0 ? h('p.small', {}, `${several(a.more, 'event')} of very busy cycles were only counted.`) : null,
      h('p.small', {}, 'Older cycles are in the audit log of a shard (--audit-log); tonnage ctl audit reads it.'),
    ]);
  }
}

function totals(a) {
  if (!a.to.at) return h('p', {}, 'No cycle is kept that is as old.');
  const step = (name, was, is, say = count) => h('li', {}, `${name} `, was === is ? h('b', {}, say(is)) : [say(was), ' → ', h('b', {}, say(is))]);
  const known = a.from.at > 0;
  return h('ul.marks.sums', {}, step('Needs', known ? a.from.needs : a.to.needs, a.to.needs), step('short', known ? a.from.unmet : a.to.unmet, a.to.unmet), step('spend', known ? a.from.spend : a.to.spend, a.to.spend, dollars),
    Object.keys(states).map((s) => {
      const at = ORDER.indexOf(s);
      const was = known ? a.from.machines[at] : a.to.machines[at];
      return was || a.to.machines[at] ? step(s, was, a.to.machines[at]) : null;
    }), h('li.faint', {}, `over ${several(a.cycles, 'cycle')}`));
}

const ORDER = ['Speculative', 'Creating', 'Idle', 'Configuring', 'Configured', 'Draining', 'Deleting', 'Failed'];

function part(key, title, list, none, heads, row, total) {
  return h('section', { 'data-key': key, id: `changed-${key}` }, h('h3', {}, `${title}${list.length > 0 ? ` (${list.length < total ? `${count(list.length)} of ` : ''}${count(total)})` : ''}`), list.length > 0 ? table(title, heads, list.map(row)) : h('p.faint', {}, none));
}

const reason = (r) => (!r ? 'not short' : r === 'satisfied' || r === 'gone' ? h('span.tag', { color: '--teal' }, r) : reasonTag(r));

const needRow = (n) => tr([needLink(n.name, n.key), n.need || 'any machine', count(n.priority), reason(n.from), reason(n.to)], NEED_HEADS, { key: `${n.cluster} ${n.key}`, open: `need/${n.name}~${n.key}` });

const at = (state, cluster, none) => h('span', {}, state ? stateTag(state) : none, cluster ? [' in ', to('cluster', cluster)] : '');

const machineRow = (m) => tr([to('machine', m.machine, m.machine || 'one whose name is not kept'), at(m.from, m.fromCluster, 'not there'), at(m.to, m.toCluster, m.from === 'Deleting' ? 'given back' : h('b.bad', {}, 'lost: the provider does not list it any more'))], MACHINE_HEADS, { key: m.machine || null, open: m.machine ? `machine/${m.machine}` : null });

const actionRow = (a) => tr([
  h('span.tag', { color: kinds[a.kind]?.color ?? '--grey', title: kinds[a.kind]?.hint }, a.kind), count(a.count),
  h('div', {}, to('cluster', a.cluster, a.cluster || '–'), a.from ? h('div.second', {}, 'from ', to('cluster', a.from)) : null),
  h('div', {}, rules[a.reason] ?? a.reason, a.forNeed ? [', for ', needLink(a.forNeed)] : '', h('div.second', {}, a.count > 1 ? 'one of them: ' : '', to('machine', a.example))),
], ACTION_HEADS, { key: `${a.kind} ${a.cluster} ${a.from} ${a.reason}` });

/** A Need and its cluster; the cluster alone where the Need is not known any more. */
const side = (need, cluster, second = null) => h('div', {}, need ? needLink(need) : to('cluster', cluster, cluster || '–'), need ? h('div.second', {}, 'of ', to('cluster', cluster)) : null, second ? h('div.second', {}, second) : null);

/** 13 times, 52 preemptions of 8 machines; where no machine was taken twice, their number alone. */
const howOften = (p) => (p.times > 1 ? [`${p.plan ? several(p.times, 'plan') : several(p.times, 'time')}, ${several(p.machines, 'preemption')} of `, h('b', {}, several(p.different, 'machine'))] : h('b', {}, several(p.different, 'machine')));

const pairRow = (p) => tr([
  moment(p.last), side(p.fromNeed, p.from), p.plan ? count(p.fromPriority ?? 0) : '–', side(p.forNeed, p.for, p.need || 'any machine'), count(p.priority),
  h('div', {}, howOften(p), h('div.second', {}, p.some.slice(0, 3).map((m, i) => [i > 0 ? ', ' : '', to('machine', m)]), p.different > 3 ? ' …' : '')),
  span(p.graceSeconds), p.plan ? to('plan', String(p.plan)) : '–',
], PAIR_HEADS, { key: `${p.from} ${p.fromNeed} ${p.fromPriority} ${p.for} ${p.forNeed} ${p.need} ${p.priority}`, open: p.plan ? `plan/${p.plan}` : null });
