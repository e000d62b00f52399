// Several shards in one process: what each has, and machines that change theirs.

import { clock, count, percent } from './format.js';
import { find, h, morph, text } from './dom.js';
import { table, tr } from './parts.js';
import { movePhases, tiers } from './names.js';

const SHARD_HEADS = [
  { name: 'Shard', cls: 'id' }, { name: 'Machines', cls: 'num' }, { name: 'Idle', cls: 'num' }, { name: 'Needs', cls: 'num' }, { name: 'Short', cls: 'num' },
];
const MOVE_HEADS = [
  { name: 'Time', cls: 'time' }, { name: 'How far', cls: 'kind' }, { name: 'Machines', cls: 'wide' }, { name: 'From, to', cls: 'id' },
];

export class Region {
  constructor(panel) {
    this.panel = panel;
    this.now = find('.now', panel);
    this.shards = find('.shards', panel);
    this.moves = find('.moves', panel);
  }

  update(store) {
    const r = store.frame?.region;
    this.panel.hidden = !r;
    if (!r) return;
    text(this.now, `${count(r.moved)} moved`);
    morph(this.shards, [table('Shards', SHARD_HEADS, r.shards.map(shardRow))]);
    morph(this.moves, [r.moves.length > 0
      ? table('Moves of machines, newest first', MOVE_HEADS, r.moves.map(moveRow))
      : h('p.small', {}, 'No machine has changed its shard: none is short for long of what another could spare.')]);
  }
}

function shardRow(s) {
  const short = s.needs - s.satisfied;
  return tr([
    s.name, count(s.machines), count(s.idle), count(s.needs),
    h(short > 0 ? 'span.met.short' : 'span.met', { title: `${percent(s.needs > 0 ? s.satisfied / s.needs : 1)} of its Needs are satisfied` }, count(short)),
  ], SHARD_HEADS);
}

function moveRow(m) {
  const phase = movePhases[m.phase] ?? { color: '--grey', text: '' };
  return tr([
    clock(m.at),
    h('span.tag', { color: phase.color, title: phase.text }, m.phase),
    h('div', {}, `${count(m.count)} × ${m.kind}`, h('div.second', {}, tiers[m.tier] ?? m.tier)),
    h('div', {}, m.to, h('div.second', {}, `from ${m.from}`)),
  ], MOVE_HEADS);
}
