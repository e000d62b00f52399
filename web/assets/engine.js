// Cycles that took long: when the last one was, and which phase took the time.

import { count, millis, span } from './format.js';
import { find, h, morph, text } from './dom.js';
import { kinds, phases } from './names.js';
import { empty, moment, table, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, linkToTab, place } from './router.js';

const ORDER = ['reconcile', 'snapread', 'phase1', 'phase2', 'phase3', 'emit', 'execute'];
const KINDS = Object.keys(kinds);
const LIMITS = [10, 20, 50, 100, 200, 500, 1000];
const OVER_DEFAULT = 100;
const HEADS = [{ name: 'Time', cls: 'time' }, { name: 'Cycle', cls: 'num' }, { name: 'Took', cls: 'num' }, { name: 'Longest phase', cls: 'wide' }, { name: 'Short', cls: 'num' }, { name: 'Actions', cls: 'num' }];

export class Slow {
  constructor(panel, redraw) {
    this.fresh = new Fresh(redraw);
    this.now = find('.now', panel);
    this.body = find('.body', panel);
    this.over = h('select', { id: 'slow-over', onchange: () => filter({ over: this.over.value }, true) }, LIMITS.map((ms) => h('option', { value: ms }, `${ms} ms`)));
    find('.tools', panel).append(h('label', { for: 'slow-over' }, 'Cycles of at least'), this.over);
  }

  update(store) {
    const over = LIMITS.includes(Number(place.filters.get('over'))) ? Number(place.filters.get('over')) : OVER_DEFAULT;
    if (document.activeElement !== this.over) this.over.value = String(over);
    this.fresh.want(['cycles', { over, limit: 100 }]);
    const { answer: a, error } = this.fresh;
    if (error || !a) return morph(this.body, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    const last = a.lastOver;
    text(this.now, last ? `the last one ${span((store.now() - last.at) / 1000)} ago, at ${moment(last.at)}` : '');
    const reach = a.since ? ` since ${moment(a.since)}` : '';
    morph(this.body, [last ? table(`Cycles of at least ${over} ms, newest first`, HEADS, a.cycles.map(row)) : empty(`No cycle took ${over} ms${reach}.`, true)]);
  }
}

function row(c) {
  const longest = c.phases.indexOf(Math.max(...c.phases));
  const phase = phases[ORDER[longest]];
  const acted = c.actions.reduce((a, b) => a + b, 0);
  return tr([
    h('a', { href: linkToTab('changes', { from: String(c.at - 1), to: String(c.at) }), title: 'What changed in this cycle' }, moment(c.at)), count(c.cycle), h('b', {}, millis(c.ms)),
    h('span', {}, h('span.tag', { color: phase.color, title: phase.hint }, phase.label ?? ORDER[longest]), ` ${millis(c.phases[longest])}`), count(c.unmet),
    h('span', { title: KINDS.filter((_, i) => c.actions[i]).map((k) => `${k} ${c.actions[KINDS.indexOf(k)]}`).join(', ') }, count(acted)),
  ], HEADS, { key: `${c.shard} ${c.cycle}` });
}
