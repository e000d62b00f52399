// What if: machines that join, another priority, a machine or a domain that is lost. The question is the address; the
// engine decides about it, and nothing is changed.

import { count, dollars, money, quantities, span } from './format.js';
import { h, morph } from './dom.js';
import { shortKey } from './names.js';
import { capacityName, empty, needLink, reasonTag, several, table, to, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, linkToTab, place } from './router.js';

const PARTS = ['add', 'count', 'need', 'priority', 'relax', 'lose', 'key', 'value'];
const MACHINE = 'machine'; // in the place of a key: one machine is lost

/** The address of a question. */
export const linkToWhatIf = (question) => linkToTab('whatif', Object.fromEntries(Object.entries(question).map(([k, v]) => [k, String(v)])));

/** A kind of machines, to choose from. */
export const kindOption = (k) => h('option', { value: k.name, 'data-key': k.name }, `${k.type}, ${capacityName(k.capacity)}, ${money(k.price)}/h`);

export class WhatIf {
  constructor(box, redraw) {
    this.answer = new Fresh(redraw);
    this.kinds = new Fresh(redraw);
    this.domains = new Fresh(redraw);
    this.needs = new Fresh(redraw);
    this.redraw = redraw;
    this.filled = {}; // by field, the address that it was filled from
    this.build(box);
  }

  build(box) {
    const label = (id, words) => h('label', { for: id }, words);
    this.count = h('input', { id: 'whatif-count', type: 'number', min: 1, max: 10000, value: 1 });
    this.add = h('select', { id: 'whatif-add', 'aria-label': 'Machines to add' });
    this.need = h('input', { id: 'whatif-need', type: 'text', list: 'whatif-needs', autocomplete: 'off', placeholder: 'name of a Need' });
    this.list = h('datalist', { id: 'whatif-needs' });
    this.priority = h('input', { id: 'whatif-priority', type: 'number', min: -2147483648, max: 2147483647 });
    this.relax = h('input', { id: 'whatif-relax', type: 'text', autocomplete: 'off', placeholder: 'key of a label' });
    this.key = h('select', { id: 'whatif-key', onchange: () => { this.value.value = ''; this.redraw(); } });
    this.value = h('select', { id: 'whatif-value', 'aria-label': 'Which of them is lost' });
    this.lose = h('input', { id: 'whatif-lose', type: 'text', autocomplete: 'off', placeholder: 'id of a machine', 'aria-label': 'Machine that is lost' });
    const form = h('form.questions', { id: 'whatif-form', onsubmit: (e) => { e.preventDefault(); this.submit(); } },
      h('div.tools', {}, label('whatif-count', 'Add'), this.count, label('whatif-add', 'machines like'), this.add),
      h('div.tools', {}, label('whatif-need', 'Give Need'), this.need, this.list, label('whatif-priority', 'the priority'), this.priority, label('whatif-relax', 'and no requirement on'), this.relax),
      h('div.tools', {}, label('whatif-key', 'Lose one'), this.key, this.value, this.lose),
      h('div.tools', {}, h('button.strong', { type: 'submit' }, 'Try it'), h('button', { type: 'button', onclick: () => this.clear() }, 'Clear'), h('span.small', {}, 'The engine decides about the fleet as it is now, with the change. Nothing is changed.')));
    this.now = h('p.now');
    this.body = h('div.body');
    box.append(
      h('section.panel.all', { id: 'whatif', 'aria-labelledby': 'whatif-h' }, h('header', {}, h('h2', { id: 'whatif-h' }, 'What if')), form),
      h('section.panel.all', { id: 'outcome', 'aria-labelledby': 'outcome-h' }, h('header', {}, h('h2', { id: 'outcome-h' }, 'What would happen'), this.now), this.body));
  }

  clear() {
    this.filled = {}; // the fields are filled anew
    for (const x of [this.need, this.priority, this.relax, this.lose, this.add, this.key]) x.value = '';
    filter(Object.fromEntries(PARTS.map((k) => [k, null])), true);
  }

  submit() {
    const key = this.key.value;
    this.answer.forget(); // the same question is asked again
    filter({
      add: this.add.value || null, count: this.add.value ? this.count.value : null,
      need: this.priority.value || this.relax.value ? this.need.value || null : null, priority: this.need.value ? this.priority.value || null : null, relax: this.need.value ? this.relax.value || null : null,
      lose: key === MACHINE ? this.lose.value || null : null,
      key: key && key !== MACHINE && this.value.value ? key : null, value: key && key !== MACHINE ? this.value.value || null : null,
    }, true);
    this.redraw();
  }

  update() {
    const f = place.filters;
    this.kinds.want(['kinds', {}], true);
    this.needs.want(['needs', { limit: 200 }]);
    const key = this.key.value || f.get('key') || '';
    this.domains.want(['domains', { key: key === MACHINE ? '' : key, limit: 1000 }]);
    this.fill(f);
    const question = Object.fromEntries(PARTS.filter((k) => f.get(k)).map((k) => [k, f.get(k)]));
    const asked = Boolean(question.add || question.need || question.lose || question.key);
    this.answer.want(asked ? ['whatif', question] : null, true);
    this.draw(question, asked);
  }

  /** Fills the fields from the address when that has changed; what people type stays. */
  fill(f) {
    morph(this.add, [h('option', { value: '' }, 'none'), (this.kinds.answer ?? []).map(kindOption), this.like(f)]);
    morph(this.list, (this.needs.answer?.needs ?? []).map((n) => h('option', { value: n.name, 'data-key': n.name }, `priority ${count(n.priority)}`)));
    const d = this.domains.answer;
    if (d) morph(this.key, [h('option', { value: '' }, 'nothing'), h('option', { value: MACHINE }, 'machine'), d.keys.map((k) => h('option', { value: k, 'data-key': k }, k))]);
    if (d && document.activeElement !== this.value && d.key === this.key.value) {
      const chosen = this.value.value || f.get('value') || '';
      morph(this.value, [h('option', { value: '' }, 'choose'), d.domains.map((x) => h('option', { value: x.value, 'data-key': x.value }, `${x.value} (${several(x.machines, 'machine')})`))]);
      this.value.value = chosen;
    }
    this.value.hidden = !this.key.value || this.key.value === MACHINE;
    this.lose.hidden = this.key.value !== MACHINE;
    const now = PARTS.map((k) => f.get(k) ?? '').join('\0');
    // Each field as soon as it has its choices, so that none is filled that somebody has used meanwhile.
    const once = (field, ready, fill) => {
      if (!ready || this.filled[field] === now) return;
      this.filled[field] = now;
      fill();
      this.redraw();
    };
    once('add', this.kinds.answer, () => { this.add.value = f.get('add') ?? ''; });
    once('key', d, () => { this.key.value = f.get('lose') ? MACHINE : f.get('key') ?? ''; });
    once('texts', true, () => {
      this.count.value = f.get('count') ?? '1';
      for (const name of ['need', 'priority', 'relax', 'lose']) this[name].value = f.get(name) ?? '';
    });
  }

  /** A machine like which some are added is no kind of its own. */
  like(f) {
    const name = f.get('add');
    return name && !(this.kinds.answer ?? []).some((k) => k.name === name) ? h('option', { value: name, 'data-key': name }, name) : null;
  }

  draw(question, asked) {
    const { answer, error } = this.answer;
    this.body.toggleAttribute('aria-busy', asked && !answer && !error);
    if (!asked) return morph(this.body, [empty(this.need.value && !this.priority.value && !this.relax.value ? `Say which priority ${this.need.value} is to have, or which of its requirements it is to do without.` : 'Say above what is to change.')]);
    if (error) return morph(this.body, [h('p.refused', { role: 'alert' }, error.message)]);
    if (!answer) return morph(this.body, [empty('Deciding …')]);
    morph(this.body, outcome(answer, inWords(question, answer)));
  }
}

/** The question as the beginning of a sentence. */
function inWords(q, a) {
  const parts = [];
  if (q.add) parts.push(`with ${several(a.added, 'more machine')} like ${q.add}`);
  if (q.need && q.priority) parts.push(`with priority ${count(Number(q.priority))} for ${q.need}`);
  if (q.need && q.relax) parts.push(`without the requirement of ${q.need} on ${shortKey(q.relax)}`);
  if (q.lose) parts.push(`without machine ${q.lose}`);
  if (q.key) parts.push(q.value ? `without ${shortKey(q.key)} ${q.value} (${several(a.lost, 'machine')})` : `without the ${several(a.lost, 'machine')} that ${a.lost === 1 ? 'has' : 'have'} no ${shortKey(q.key)}`);
  const words = parts.join(' and ');
  return words[0].toUpperCase() + words.slice(1);
}

const SUM_HEADS = [{ name: 'Sum', cls: 'id' }, { name: 'Now', cls: 'num' }, { name: 'Then', cls: 'num' }, { name: 'Without buying', cls: 'num' }];
const CHANGE_HEADS = [{ name: 'Need', cls: 'id' }, { name: 'Is', cls: 'reason' }, { name: 'Would be', cls: 'reason' }];
const ACTION_HEADS = [{ name: 'Action', cls: 'kind' }, { name: 'Machines', cls: 'num' }, { name: 'Cluster', cls: 'id' }, { name: 'One of them', cls: 'wide' }];

const LOSER_HEADS = [{ name: 'Need', cls: 'id' }, { name: 'Cluster', cls: 'id' }, { name: 'Priority', cls: 'num' }, { name: 'Loses', cls: 'wide' }];

const loserRow = (l) => tr([needLink(l.name), to('cluster', l.cluster), count(l.priority), h('b.bad', {}, `${count(l.machines)} of its ${several(l.of, 'machine')}`)], LOSER_HEADS, { key: l.name, open: `need/${l.name}` });

/** What a change would do, as a difference. said is the change in words. */
export function outcome(a, said) {
  const x = a.answer;
  const needs = [...x.needs, ...(x.waiting ?? [])];
  const losers = x.losers ?? [];
  const better = x.needs.filter((n) => n.satisfied).length, waits = needs.length - x.needs.length, worse = x.needs.filter((n) => n.before === 'satisfied').length;
  const clauses = [
    better > 0 ? h('b.met', {}, `${several(better, 'Need')} would be satisfied`) : null,
    waits > 0 ? h('b.met', {}, `${several(waits, 'Need')} would be satisfied as soon as machines have drained for ${waits === 1 ? 'it' : 'them'}`) : null,
    worse > 0 ? h('b.bad', {}, `${several(worse, 'Need')} would no longer be satisfied`) : null,
    losers.length > 0 ? h('b.bad', {}, `${several(losers.length, 'Need')} would lose machines to others`) : null,
  ].filter(Boolean);
  if (needs.length + losers.length === 0) clauses.push('no Need would change');
  else if (clauses.length === 0) clauses.push(`${several(needs.length, 'Need')} would change`);
  const verdict = [clauses.map((c, i) => [i === 0 ? '' : i === clauses.length - 1 ? ', and ' : ', ', c]), '.'];
  return [
    h('p.lead', { 'data-key': 'said' }, `${said}, `, verdict),
    h('div.loss', { 'data-key': 'sums' }, sums(x)),
    needs.length > 0 ? h('section', { 'data-key': 'needs' }, h('h3', {}, `${several(needs.length, 'Need')} would change`), table('Needs that would change', CHANGE_HEADS, needs.slice(0, 200).map(changeRow)), needs.length > 200 ? h('p.small', {}, `and ${count(needs.length - 200)} more`) : null) : null,
    losers.length > 0 ? h('section', { 'data-key': 'losers' }, h('h3', {}, 'Who would lose machines to others'), table('Needs that would lose machines', LOSER_HEADS, losers.slice(0, 200).map(loserRow)), losers.length > 200 ? h('p.small', {}, `and ${count(losers.length - 200)} more`) : null,
      h('p.small', {}, 'Until their machines have drained, they count as satisfied: the sums above are those of the next cycle.', inTheEnd(x))) : null,
    actions('begun', 'What the engine would do', x.begun, a.begun),
    actions('dropped', 'What it would not do any more', x.dropped, a.dropped),
  ];
}

/** What is left when all victims have drained: who waits for them is satisfied, and who had them is not. */
function inTheEnd(x) {
  const n = x.whatIf.satisfiedOnceDrained;
  return [' In the end ', h('b', {}, `${count(n)} of ${several(x.whatIf.satisfied + x.whatIf.unsatisfied.length, 'Need')}`), ' are satisfied, unless those that lose find other machines.'];
}

const SUMS = [
  ['Needs satisfied', (o) => count(o.satisfied)], ['Needs short', (o) => count(o.unsatisfied.length)], ['Cost of what Needs have', (o) => dollars(o.dollarsPerHour)],
  ['Machines to bind', (o) => count(o.bind ?? 0)], ['Machines to buy', (o) => count(o.buy ?? 0)], ['Machines to preempt', (o) => count(o.preempt ?? 0)], ['Machines to reclaim', (o) => count(o.reclaim ?? 0)],
  ['Interruptions of victims', (o) => money(o.interruptionDollars ?? 0)], ['Longest notice', (o) => (o.graceSecondsMax ? span(o.graceSecondsMax) : '–')], ['Victims that must not be interrupted', (o) => count(o.pinnedVictims ?? 0)],
];
const NOTHING = ['0', '$0', '–'];

/** The next cycle as it is and with the change; without buying only where that differs, and nothing that is nought in all. */
function sums(x) {
  const rows = SUMS.map(([name, of]) => [name, of(x.now), of(x.whatIf), of(x.withoutBuying)]).filter((r, i) => i < 3 || r.slice(1).some((v) => !NOTHING.includes(v)));
  const heads = rows.some((r) => r[3] !== r[2]) ? SUM_HEADS : SUM_HEADS.slice(0, 3);
  return table('The next cycle, now and with the change', heads, rows.map((r) => tr(r.slice(0, heads.length), heads, { key: r[0] })));
}

const changeRow = (n) => tr([needLink(n.name), word(n.before), word(n.after)], CHANGE_HEADS, { key: n.name, open: `need/${n.name}` });

const word = (w) => (w === 'satisfied' || w === 'absent' ? h('span.tag', { color: '--teal' }, w) : reasonTag(w));

/** Alike actions together. */
function actions(key, title, list, all) {
  if (all === 0) return null;
  const groups = new Map();
  for (const a of list) {
    const of = `${a.kind} ${a.cluster}`;
    const g = groups.get(of) ?? { ...a, count: 0 };
    g.count++;
    groups.set(of, g);
  }
  const rows = [...groups].map(([of, g]) => tr([g.kind, count(g.count), to('cluster', g.cluster), h('div', {}, g.machine.startsWith('added-') ? g.machine : to('machine', g.machine), g.need ? [h('span.faint', {}, ' for '), needLink(g.need)] : null)], ACTION_HEADS, { key: of }));
  return h('section', { 'data-key': key }, h('h3', {}, title), table(title, ACTION_HEADS, rows), all > list.length ? h('p.small', {}, `The first ${count(list.length)} of ${several(all, 'action')}.`) : null);
}

/** What would help a Need: each was decided about. */
export function help(n, a, demo) {
  if (a.satisfied) return h('p', {}, 'It is satisfied, and needs no help.');
  if (a.waiting) return h('p', {}, 'Machines that drain for it cover the rest: it has to wait for them.');
  const none = [a.capacity ? null : 'More machines of the types that exist do not help.', a.priority ? null : 'A higher priority does not help.', a.relax ? null : 'Leaving out one requirement does not help.'].filter(Boolean);
  return [
    h('ul.helps', {},
      (a.capacity ?? []).map((c) => suggestion(`add ${c.like}`, [h('b', {}, `${several(c.count, 'more machine')}`), ' of ', kindOf(c), ': ', h('b', {}, `${dollars(c.addedDollarsPerHour)} more`), '.'], c, { add: c.like, count: c.count })),
      a.priority ? suggestion('priority', [h('b', {}, `Priority ${count(a.priority.priority)}`), ` (${count(n.priority)} now).`], a.priority, { need: n.name, priority: a.priority.priority }, n.cluster) : null,
      (a.relax ?? []).map((r) => suggestion(`leave ${r.leaveOut}`, ['Without ', h('b', {}, h('code', {}, r.leaveOut)), '.'], r, r.key ? { need: n.name, relax: r.key } : null, n.cluster))),
    none.length > 0 ? h('p.faint', {}, none.join(' ')) : null,
    toDoIt(n, a, demo),
    h('p.small', {}, `Each change was tried by itself: ${several(a.decisions, 'decision')} in ${a.millis < 10 ? 'less than 0.01' : (a.millis / 1000).toFixed(2)} s.${a.exhausted ? ' The time was up before all was tried: there may be more that helps.' : ''}`),
  ];
}

/** How what helps is done: nothing on the page changes the fleet. */
function toDoIt(n, a, demo) {
  const steps = [
    a.capacity ? 'Machines: give your provider more of them, as machines or as quota that can be bought.' : '',
    a.priority ? 'A priority: that of the pods (their PriorityClass), of the CapacityRequest, or of the Need in the file of tonnage demand apply.' : '',
    a.relax ? 'A requirement: the node selector or affinity of the pods, the requirements of the CapacityRequest, or of the Need in the file of tonnage demand apply.' : '',
    n.reason === 'no_matching_supply' ? ['Machines that the fleet has none like can be tried with a file that describes them: ', h('code', {}, 'tonnage what-if --edits FILE'), '.'] : '',
  ].filter(Boolean);
  return steps.length > 0 ? h('div.small', { 'data-key': 'do' }, h('b', {}, 'To do it, '), 'change it where it comes from; the next cycle goes by it.', h('ul.plain', {}, steps.map((x) => h('li', {}, x))),
    demo ? ['This is a demo, whose demand and machines come from a scenario. To change a fleet while it runs: ', h('code', {}, 'tonnage init world.yaml'), ', ', h('code', {}, 'tonnage up -f world.yaml'), ', and edit the file.'] : null) : null;
}

function kindOf(c) {
  const where = c.domain || (c.zone && `zone ${c.zone}`);
  return [c.instanceType || ['the kind of ', to('machine', c.like)], c.capacityType !== 'Unspecified' ? `, ${capacityName(c.capacityType)}` : '', where ? `, in ${where}` : ''];
}

const LOSERS_SHOWN = 6;

function suggestion(key, words, of, question, own) {
  const losers = of.losers ?? [], draining = of.drainingDollarsPerHour ?? 0, all = of.dollarsPerHour + draining;
  return h('li', { 'data-key': key },
    words, all > 0 ? h('span.second', {}, ` Its machines then cost ${dollars(all)}${draining > 0 ? ', when those of others have drained' : ''}.`) : null,
    question ? [' ', h('a.act', { href: linkToWhatIf(question) }, 'What would happen')] : null,
    losers.length === 0 ? h('div.second', {}, 'Nobody loses anything.') : h('ul.losers', {},
      losers.slice(0, LOSERS_SHOWN).map((l) => h('li', { 'data-key': l.need }, needLink(l.need), ' of ', to('cluster', l.cluster), `, priority ${count(l.priority)}, `, h('b.bad', {}, l.machines > 0 ? `loses ${count(l.machines)} of its ${several(l.of, 'machine')}` : 'is no longer satisfied'), l.cluster === own ? h('span.faint', {}, ', to a Need of its own cluster') : null)),
      losers.length > LOSERS_SHOWN ? h('li.faint', {}, `and ${several(losers.length - LOSERS_SHOWN, 'more Need', 'more Needs')}`) : null,
      losers.length > 1 ? h('li.faint', {}, 'Who loses machines to it may take others in turn.') : null));
}

const BAR = (left, all) => h('span.steps', { 'aria-hidden': 'true' }, h('i', { 'width%': all > 0 ? (left / all) * 100 : 0 }));

/** The way from the fleet to the machines that a Need can have, each step with how many it leaves. */
export function funnel(x) {
  const steps = [];
  const step = (key, left, words, nearest) => steps.push(h('li', { 'data-key': key }, BAR(left, x.machines), h('b', {}, count(left)), ' ', words, nearest ? h('div.nearest', {}, nearest) : null));
  step('fleet', x.machines, 'in the fleet');
  if (x.usable !== x.machines) step('usable', x.usable, 'in a usable state: neither being given back nor failed');
  for (const r of x.requirements) {
    step(`requirement ${r.requirement}`, r.leaves, ['meet ', h('code', {}, r.requirement)], r.nearest);
    if (r.leaves === 0) return h('ol.funnel', {}, steps);
  }
  step('size', x.size.leaves, x.size.leaves > 0 ? ['large enough', x.capacity ? `, with ${quantities(x.capacity)} together` : ''] : 'large enough for one unit', x.size.nearest);
  if (x.size.leaves === 0) return h('ol.funnel', {}, steps);
  if (x.reserved > 0) step('reserved', x.reserved, 'of them are held for other Needs');
  if (x.own > 0) step('own', x.own, 'of them are its own');
  x.holders.slice(0, 12).forEach((o) => step(`holder ${o.cluster} ${o.need ?? ''} ${o.priority} ${o.unclaimed ? '' : 'claimed'}`, o.machines, holder(o)));
  if (x.holders.length > 12) steps.push(h('li.faint', {}, `and ${count(x.holders.length - 12)} more holders`));
  step('free', x.free, 'of them are free');
  return h('ol.funnel', {}, steps);
}

function holder(o) {
  if (o.unclaimed) return ['of them are in ', to('cluster', o.cluster), ', whose Needs do not claim them'];
  return ['of them serve ', o.need ? [needLink(o.need), ' of '] : 'Needs of ', to('cluster', o.cluster), `, priority ${count(o.priority)}`, o.outOfReach ? h('span.faint', {}, ': out of reach') : ''];
}
