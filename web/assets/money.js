// What the fleet costs: list against effective price, the risk of spot, and what idles.

import { count, dollars, money, span } from './format.js';
import { h, morph } from './dom.js';
import { capacity } from './names.js';
import { capacityName, empty, table, tr } from './parts.js';
import { Fresh } from './query.js';
import { linkToTab } from './router.js';

const KIND_HEADS = [{ name: 'Paid as', cls: 'id' }, { name: 'Machines', cls: 'num' }, { name: 'List price', cls: 'num' }, { name: 'Effective price', cls: 'num' }, { name: 'Interruptions', cls: 'num' }, { name: 'Idle', cls: 'num' }, { name: 'Idle costs', cls: 'num' }];
const IDLE_HEADS = [{ name: 'Idle machines', cls: 'id' }, { name: 'Paid as', cls: 'wide' }, { name: 'Longest', cls: 'num' }, { name: 'Cost', cls: 'num' }];
const TYPE_HEADS = [{ name: 'Type', cls: 'id' }, { name: 'Paid as', cls: 'wide' }, { name: 'Machines', cls: 'num' }, { name: 'List price', cls: 'num' }, { name: 'Effective price', cls: 'num' }];

export class Money {
  constructor(box, redraw) {
    this.fresh = new Fresh(redraw);
    const panel = (id, cls, title) => {
      const body = h('div.body');
      box.append(h(`section.panel.${cls}`, { id, 'aria-labelledby': `${id}-h` }, h('header', {}, h('h2', { id: `${id}-h` }, title)), body));
      return body;
    };
    this.sums = panel('sums', 'all', 'What the fleet costs an hour');
    this.idle = panel('idle', 'half', 'What idles, and what it costs');
    this.types = panel('types', 'half', 'By type');
  }

  update(store) {
    this.fresh.want(['money', {}]);
    const { answer: a, error } = this.fresh;
    if (error || !a) return morph(this.sums, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    const risk = a.effective - a.list;
    morph(this.sums, [
      h('p.lead', {}, h('b', {}, dollars(a.list)), ' by list price; ', h('b', {}, dollars(a.effective)), ` with what interruptions cost the work that they hit (${dollars(risk)}, ${a.interruptions.toFixed(2)} interruptions an hour on average). `, h(a.idle > 0 ? 'b.bad' : 'b', {}, dollars(a.idle)), ' of it is for idle machines.'),
      a.kinds.length > 0 ? table('Cost by how machines are paid for', KIND_HEADS, a.kinds.map(kindRow)) : empty('Nothing is paid for.'),
      h('p.small', {}, 'Effective price: the list price, and for machines that may be interrupted the probability in an hour times what an interruption costs the work on them. The least that all of this could cost, as a bound, is not computed here.'),
    ]);
    morph(this.idle, [a.idleBy.length > 0 ? table('Idle machines by type, the dearest first', IDLE_HEADS, a.idleBy.map((r) => idleRow(r, store))) : empty('Nothing idles.', true)]);
    morph(this.types, [table('All machines by type, the dearest first', TYPE_HEADS, a.types.map(typeRow))]);
  }
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
