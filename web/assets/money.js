// What the fleet costs: list against effective price, the risk of spot, and what idles.

import { cents, count, dollars, money, percent, span } from './format.js';
import { h, morph } from './dom.js';
import { capacity } from './names.js';
import { capacityName, empty, moment, several, table, tr } from './parts.js';
import { Fresh } from './query.js';
import { linkToTab } from './router.js';

const KIND_HEADS = [{ name: 'Paid as', cls: 'id' }, { name: 'Machines', cls: 'num' }, { name: 'List price', cls: 'num' }, { name: 'Effective price', cls: 'num' }, { name: 'Interruptions', cls: 'num' }, { name: 'Idle', cls: 'num' }, { name: 'Idle costs', cls: 'num' }];
const IDLE_HEADS = [{ name: 'Idle machines', cls: 'id' }, { name: 'Paid as', cls: 'wide' }, { name: 'Longest', cls: 'num' }, { name: 'Cost', cls: 'num' }];
const TYPE_HEADS = [{ name: 'Type', cls: 'id' }, { name: 'Paid as', cls: 'wide' }, { name: 'Machines', cls: 'num' }, { name: 'List price', cls: 'num' }, { name: 'Effective price', cls: 'num' }];

export class Money {
  constructor(box, redraw) {
    this.fresh = new Fresh(redraw);
    this.panels = [];
    const panel = (id, cls, title) => {
      const body = h('div.body');
      this.panels.push(box.appendChild(h(`section.panel.${cls}`, { id, 'aria-labelledby': `${id}-h` }, h('header', {}, h('h2', { id: `${id}-h` }, title)), body)));
      return body;
    };
    this.sums = panel('sums', 'all', 'What the fleet costs an hour');
    this.idle = panel('idle', 'half', 'What idles, and what it costs');
    this.types = panel('types', 'half', 'By type');
  }

  update(store) {
    this.fresh.want(['money', {}]);
    const { answer: a, error } = this.fresh;
    this.panels.forEach((panel, i) => { panel.hidden = i > 0 && !a; });
    if (error || !a) return morph(this.sums, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    const risk = a.effective - a.list;
    morph(this.sums, [
      ...split(a),
      h('section', { 'data-key': 'now' }, h('h3', {}, 'Now, by how machines are paid for')),
      h('p.small', { 'data-key': 'list' }, h('b', {}, cents(a.list)), ' by list price; ', h('b', {}, cents(a.effective)), ` with what interruptions cost the work that they hit (${cents(risk)}, ${a.interruptions.toFixed(2)} interruptions an hour on average${a.interruptions > 0 && risk < 0.005 ? ', of machines whose Needs put no price on them' : ''}).`),
      a.kinds.length > 0 ? table('Cost by how machines are paid for', KIND_HEADS, a.kinds.map(kindRow)) : empty('Nothing is paid for.'),
      h('p.small', {}, 'Effective price: the list price, and for machines that may be interrupted the probability in an hour times what an interruption costs the work on them.'),
      bill(a.bill),
    ]);
    morph(this.idle, [a.idleBy.length > 0 ? table('Idle machines by type, the dearest first', IDLE_HEADS, a.idleBy.map((r) => idleRow(r, store))) : empty('Nothing idles.', true)]);
    morph(this.types, [table('All machines by type, the dearest first', TYPE_HEADS, a.types.map(typeRow))]);
  }
}

/** The last bill, all of one moment: what is paid, and whom it serves. Until there is one, what idles now. */
function split(a) {
  const b = a.bill;
  if (!b.at || b.paid <= 0) return [h('p.lead', { 'data-key': 'lead' }, h(a.idle > 0 ? 'b.bad' : 'b', {}, dollars(a.idle)), ' of it is for idle machines.')];
  const rest = b.paid - b.serving - b.idle, waits = a.incompleteGangs;
  const over = b.bound > 0 ? Math.max(b.effective / b.bound - 1, 0) : null;
  return [
    h('p.lead', { 'data-key': 'lead' }, waits > 0 ? [h('b.bad', {}, percent((b.idle + a.incomplete) / b.paid)), ' of what you pay runs nothing: ', percent(b.idle / b.paid), ' is for idle machines, ', percent(a.incomplete / b.paid), ' for machines of gangs that are not complete'] : [h(b.idle > 0 ? 'b.bad' : 'b', {}, percent(b.idle / b.paid)), ' of what you pay is for idle machines, which serve nobody'], over === null ? '.' : over < 0.0005 ? '; what Needs have costs as little as it could.' : ['; what Needs have costs ', h('b', {}, percent(over)), ' more than the least possible.']),
    h('p', { id: 'split', 'data-key': 'split' }, `As of ${moment(b.at)}: `, h('b', {}, cents(b.paid)), ` paid = ${cents(b.serving)} for what Needs have + ${cents(b.idle)} idle`, rest >= 0.005 ? ` + ${cents(rest)} that drains or that no Need claims` : rest <= -0.005 ? ` − ${cents(-rest)} that is only being bought` : '', '.'),
    waits > 0 ? h('p', { id: 'incomplete', 'data-key': 'incomplete' }, h('b.bad', {}, cents(a.incomplete)), ` of what Needs have ${waits === 1 ? 'is held by a gang that is' : `are held by ${several(waits, 'gang')} that are`} not complete: nothing runs on these machines until the rest has come. `, h('a', { href: linkToTab('needs', { state: 'short' }) }, 'Needs that are short')) : null,
  ];
}

const BILL_HEADS = [{ name: 'What Needs have', cls: 'id' }, { name: 'an hour', cls: 'num' }];

/** What the machines of Needs cost, and would cost at least: how far the bill is above its bound. */
function bill(b) {
  const row = (name, v) => tr([name, cents(v)], BILL_HEADS, { key: name });
  const over = b.bound > 0 ? b.effective / b.bound - 1 : null;
  const said = over === null
    ? 'The least that the machines of Needs could cost is not known yet: it is computed about once a minute.'
    : over < 0.0005 ? ['The machines that Needs have cost as little as any could: the bill is at the lower limit', b.effective - b.bound >= 0.005 ? `, but for ${cents(b.effective - b.bound)}` : '', '.']
      : ['The machines that Needs have cost ', h(over > 0.2 ? 'b.bad' : 'b', { id: 'over' }, `${percent(over)} more`), ` than the least that machines for these Needs could cost: ${cents(b.effective - b.bound)}.`];
  return h('section', { id: 'bill', 'data-key': 'bill' }, h('h3', {}, b.at ? `The bill and its lower limit, as of ${moment(b.at)}` : 'The bill and its lower limit'),
    h('p.lead', {}, said),
    b.bound > 0 ? h('p.bars', { 'aria-hidden': 'true' }, h('span.key', {}, 'lower limit'), h('span.track', {}, h('i.ok', { 'width%': (100 * b.bound) / Math.max(b.effective, b.bound) })), h('span.figure', {}, cents(b.bound)),
      h('span.key', {}, 'bill'), h('span.track', {}, h('i.bound', { 'width%': (100 * b.effective) / Math.max(b.effective, b.bound) })), h('span.figure', {}, cents(b.effective))) : null,
    h('div.loss', {}, table('The bill and its lower limit', BILL_HEADS, [row('List price', b.serving), row('With interruptions: the bill', b.effective), row('The least that it could be: the lower limit', b.bound), row('Distance', Math.max(b.effective - b.bound, 0))])),
    h('p.small', {}, 'The lower limit is a linear program over the machines that exist and can be bought; nothing that is made of whole machines can cost less, and often nothing can cost so little. The part of the bill for idle machines stands above.'));
}

const kindRow = (r) => tr([
  h('span.tag', { color: capacity[r.name]?.color ?? '--grey' }, capacityName(r.name)), count(r.machines), money(r.list), h(r.effective > r.list ? 'b' : 'span', {}, money(r.effective)), r.interruptions > 0 ? `${r.interruptions.toFixed(2)} an hour` : '–', count(r.idle), money(r.idleCost),
], KIND_HEADS, { key: r.name });

const idleRow = (r, store) => tr([
  h('a', { href: linkToTab('search', { state: 'Idle', type: r.name, capacity: r.capacity, sort: 'price' }) }, `${count(r.idle)} × ${r.name || 'of no type'}`), capacityName(r.capacity), r.longest ? span((store.now() - r.longest) / 1000) : '–', h('b', {}, dollars(r.idleCost)),
], IDLE_HEADS, { key: `${r.name} ${r.capacity}` });

const typeRow = (r) => tr([
  h('a', { href: linkToTab('search', { type: r.name, capacity: r.capacity }) }, r.name || 'of no type'), capacityName(r.capacity), count(r.machines), money(r.list), money(r.effective),
], TYPE_HEADS, { key: `${r.name} ${r.capacity}` });
