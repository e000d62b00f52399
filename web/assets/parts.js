// Pieces that several panels are made of: links to things, tags, tables, fields.

import { clock, count, percent } from './format.js';
import { h } from './dom.js';
import { capacity, reasons, states } from './names.js';
import { linkTo } from './router.js';

export const cut = (name) => name.endsWith('…'); // the feed shortens long names; such a one finds nothing

/** A link that opens a thing; a plain text where there is nothing to open. */
export function to(kind, name, label = name) {
  if (!name || cut(name)) return label || '–';
  return h('a.to', { href: linkTo(kind, name) }, label);
}

export const needLink = (name, key, label = name) => to('need', key ? `${name}~${key}` : name, label);
export const domainLink = (key, value, label = value) => to('domain', `${key}=${value}`, label);

export const reasonOf = (key) => reasons[key] ?? { label: key.replaceAll('_', ' '), color: '--grey', text: '', help: '' };

export function reasonTag(key) {
  const why = reasonOf(key);
  return h('span.tag', { color: why.color, title: `${why.text} ${why.help}` }, why.label);
}

export const stateTag = (name) => h('span.tag', { color: states[name]?.color ?? '--grey', title: states[name]?.hint }, name);
export const capacityName = (name) => capacity[name]?.label ?? name;

/** One row of a table; its cells carry their column's name for narrow screens. open is what a click on
 *  it opens, key tells it from others. */
export function tr(cells, heads, { key, open } = {}) {
  return h('tr', { 'data-key': key, 'data-open': open }, cells.map((c, i) => h(c === '–' || c === '' ? `td.${heads[i].cls}.none` : `td.${heads[i].cls}`, { 'data-name': heads[i].name }, c)));
}

export function table(caption, heads, rows) {
  return h('table.list', {},
    h('caption.away', {}, caption),
    h('thead', {}, h('tr', {}, heads.map((x) => h(`th.${x.cls}`, { scope: 'col', 'aria-sort': x.sorted }, x.link ? h('a', { href: x.link }, x.name) : x.name)))),
    h('tbody', {}, rows));
}

export const empty = (words, good = false) => h(good ? 'p.empty.good' : 'p.empty', {}, words);

/** A name and a value, in a list of them. */
export const field = (name, ...value) => [h('dt', {}, name), h('dd', {}, value)];

/** A part of a whole as a bar with words. */
export const meter = (part, words = percent(part)) => [h('span.meter.plain', { 'aria-hidden': 'true' }, h('i', { 'width%': Math.min(part, 1) * 100 })), h('span.part', {}, words)];

/** A moment: the time of day, and the day where it is another one. */
export function moment(ms) {
  if (!ms) return '–';
  const day = new Date(ms);
  return day.toDateString() === new Date().toDateString() ? clock(ms) : `${day.toLocaleDateString()} ${clock(ms)}`;
}

export const several = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
