// Demand against bound capacity: one block per resource, two bars on one scale,
// and the way that both went over the time shown.

import { amount, percent, resource } from './format.js';
import { find, h, s, text } from './dom.js';
import { columns, domain } from './scale.js';

const LINE_WIDTH = 300, LINE_HEIGHT = 40;

export class Demand {
  constructor(panel) {
    this.now = find('.now', panel);
    this.body = find('.body', panel);
  }

  update(store, seconds) {
    const list = store.frame?.resources ?? [];
    if (list.length === 0) {
      this.body.replaceChildren(h('p.empty', {}, store.frame ? 'No cluster has reported demand yet.' : 'Waiting for the first cycle.'));
      return text(this.now, '');
    }
    const worst = list.reduce((a, b) => (share(b) < share(a) ? b : a));
    text(this.now, share(worst) < 1 ? `scarcest: ${resource(worst.name)}` : 'all covered');
    const span = domain(store.rows, seconds);
    this.body.replaceChildren(...list.map((r) => block(r, store, span)), key());
  }
}

/** What the bars and lines mean. */
function key() {
  const item = (cls, words) => h('li', {}, h(`i.${cls}`), words);
  return h('ul.marks', {}, item('ok', 'satisfied'), item('miss', 'short'), item('bound', 'bound'), item('idle', 'idle'), item('dash', 'demand over time'));
}

const share = (r) => (r.demand > 0 ? 1 - r.deficit / r.demand : 1);

function block(r, store, span) {
  const scale = Math.max(r.demand, r.bound + r.idle, 1);
  const part = (v) => (v / scale) * 100;
  const say = (v) => amount(r.name, v);
  const met = h('b.met', {}, percent(share(r)));
  if (r.deficit > 0) met.classList.add('short');
  return h('article.resource', {},
    h('h3', {}, resource(r.name), h('span', {}, met, ' satisfied')),
    h('div.bars', {},
      h('span.key', {}, 'demand'),
      h('div.track', { role: 'img', 'aria-label': `demand ${say(r.demand)}, of which ${say(r.deficit)} unmet` },
        h('i.ok', { 'width%': part(r.demand - r.deficit) }), h('i.miss', { 'width%': part(r.deficit) })),
      h('span.figure', {}, say(r.demand)),
      h('span.key', {}, 'bound'),
      h('div.track', { role: 'img', 'aria-label': `bound ${say(r.bound)}, and ${say(r.idle)} idle` },
        h('i.bound', { 'width%': part(r.bound) }), h('i.idle', { 'width%': part(r.idle) })),
      h('span.figure', {}, say(r.bound))),
    h('p.small', {},
      r.deficit > 0 ? h('span.short', {}, `${say(r.deficit)} short`) : 'nothing short', ` · ${say(r.idle)} idle`),
    line(r, store, span));
}

/** Demand as a dashed line, bound capacity as an area, on one scale from 0. */
function line(r, store, span) {
  const slot = store.names.indexOf(r.name);
  if (slot < 0 || !span) return null;
  const cols = columns(store.rows.filter((row) => row.d.length > slot), span, LINE_WIDTH / 2, (row) => [row.d[slot], row.b[slot]], 'last');
  if (cols.length < 2) return null;
  const top = Math.max(...cols.flatMap((c) => c.v), 1);
  const at = (k) => cols.map((c) => `${(((c.t - span.from) / (span.to - span.from)) * LINE_WIDTH).toFixed(1)} ${(LINE_HEIGHT - 1 - (c.v[k] / top) * (LINE_HEIGHT - 3)).toFixed(1)}`).join('L');
  const edge = (c) => (((c.t - span.from) / (span.to - span.from)) * LINE_WIDTH).toFixed(1);
  return s('svg.trend', { viewBox: `0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${resource(r.name)} over the time shown: demand and bound capacity` },
    s('path.bound', { d: `M${edge(cols[0])} ${LINE_HEIGHT}L${at(1)}L${edge(cols.at(-1))} ${LINE_HEIGHT}Z` }),
    s('path.demand', { d: `M${at(0)}` }));
}
