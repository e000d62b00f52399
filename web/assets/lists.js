// The two tables: unmet Needs with their reasons, and the last actions.

import { clock, count, percent, span, vector } from './format.js';
import { find, h, text } from './dom.js';
import { kinds, reasons, rules } from './names.js';

/** Buttons that show one name of several; none pressed shows all. */
class Chips {
  constructor(box, changed) {
    this.box = box;
    this.changed = changed;
    this.chosen = null;
    this.buttons = new Map();
  }

  /** entries: [{key, label, color, count, hint}] */
  update(entries) {
    if (this.chosen && !entries.some((e) => e.key === this.chosen)) this.chosen = null;
    for (const [key, b] of this.buttons) {
      if (entries.some((e) => e.key === key)) continue;
      b.remove();
      this.buttons.delete(key);
    }
    for (const e of entries) {
      let b = this.buttons.get(e.key);
      if (!b) {
        b = h('button.chip', { type: 'button', color: e.color, title: e.hint, onclick: () => this.choose(e.key) }, h('i'), h('span', {}, e.label), h('b'));
        this.buttons.set(e.key, b);
        this.box.append(b);
      }
      text(find('b', b), e.count === undefined ? '' : count(e.count));
      b.setAttribute('aria-pressed', String(this.chosen === e.key));
    }
  }

  choose(key) {
    this.chosen = this.chosen === key ? null : key;
    this.changed();
  }
}

/** One row of a table; its cells carry their column's name for narrow screens. */
export function tr(cells, heads) {
  return h('tr', {}, cells.map((c, i) => h(`td.${heads[i].cls}`, { 'data-name': heads[i].name }, c)));
}

export function table(caption, heads, rows) {
  return h('table.list', {},
    h('caption.away', {}, caption),
    h('thead', {}, h('tr', {}, heads.map((x) => h(`th.${x.cls}`, { scope: 'col' }, x.name)))),
    h('tbody', {}, rows));
}

const reasonOf = (key) => reasons[key] ?? { label: key.replaceAll('_', ' '), color: '--grey', text: '', help: '' };

const NEED_HEADS = [
  { name: 'Cluster', cls: 'id' }, { name: 'Need, and what it is short of', cls: 'wide' }, { name: 'Priority', cls: 'num' },
  { name: 'Reason', cls: 'reason' }, { name: 'Age', cls: 'num' },
];

export class Unmet {
  constructor(panel, redraw) {
    this.now = find('.now', panel);
    this.meaning = find('.meaning', panel);
    this.body = find('.body', panel);
    this.lowered = find('#lowered', panel);
    this.chips = new Chips(find('.chips', panel), redraw);
  }

  update(store) {
    const f = store.frame;
    if (!f) return this.empty('Waiting for the first cycle.');
    this.showLowered(f.lowered ?? []);
    const counts = [...f.reasons].sort((a, b) => b.count - a.count);
    this.chips.update(counts.map((r) => ({ key: r.reason, label: reasonOf(r.reason).label, color: reasonOf(r.reason).color, count: r.count, hint: reasonOf(r.reason).text })));
    if (f.unmet.length === 0) {
      return f.needs === 0 ? this.empty('No cluster has reported demand yet.') : this.empty('Every Need is satisfied: machines are bound or on their way for all that the clusters ask for.', true);
    }
    const chosen = this.chips.chosen;
    const why = reasonOf(chosen ?? counts[0]?.reason ?? '');
    this.meaning.replaceChildren(h('b', {}, `${why.label[0]?.toUpperCase() ?? ''}${why.label.slice(1)}: `), `${why.text} ${why.help}`);
    const rows = f.unmet.filter((u) => !chosen || u.reason === chosen);
    const total = chosen ? counts.find((c) => c.reason === chosen).count : f.needs - f.satisfied;
    text(this.now, rows.length < total ? `${count(rows.length)} of ${count(total)}, highest priority first` : `${count(total)}`);
    this.body.replaceChildren(rows.length > 0
      ? table('Unmet Needs, highest priority first, then oldest', NEED_HEADS, rows.map(needRow))
      : h('p.empty', {}, 'None of these is among the Needs of highest priority listed here.'));
  }

  /** The clusters whose rows are above the limits of the policy. */
  showLowered(list) {
    this.lowered.hidden = list.length === 0;
    text(this.lowered, list.map((x) => `${x.cluster}: ${count(x.rows)} ${x.rows === 1 ? 'row' : 'rows'} lowered by policy (${x.limits})`).join(' · '));
  }

  empty(why, good = false) {
    this.chips.update([]);
    text(this.meaning, '');
    text(this.now, '');
    this.body.replaceChildren(h(good ? 'p.empty.good' : 'p.empty', {}, why));
  }
}

function needRow(u) {
  const why = reasonOf(u.reason);
  const meter = h('span.meter', { 'aria-hidden': 'true' }, h('i', { 'width%': u.missing * 100 }));
  return tr([
    u.cluster,
    h('div', {}, u.profile, h('div.second', { title: `${percent(u.missing)} of what it asks for is missing` }, meter, vector(u.deficit))),
    count(u.priority),
    h('span.tag', { color: why.color, title: `${why.text} ${why.help}` }, why.label),
    span(u.age),
  ], NEED_HEADS);
}

const ACTION_HEADS = [
  { name: 'Time', cls: 'time' }, { name: 'Action', cls: 'kind' }, { name: 'Machines, and why', cls: 'wide' }, { name: 'Cluster', cls: 'id' },
];

export class Recent {
  constructor(panel, redraw) {
    this.now = find('.now', panel);
    this.body = find('.body', panel);
    this.chips = new Chips(find('.chips', panel), redraw);
  }

  update(store) {
    const all = store.recent;
    this.chips.update(store.frame ? Object.entries(kinds).map(([key, k]) => ({ key, label: key, color: k.color, hint: k.hint })) : []);
    const rows = all.filter((a) => !this.chips.chosen || a.kind === this.chips.chosen);
    text(this.now, rows.length > 0 ? 'newest first, alike ones together' : '');
    if (rows.length > 0) {
      return this.body.replaceChildren(table('The last actions, newest first', ACTION_HEADS, rows.map(actionRow)));
    }
    this.body.replaceChildren(h('p.empty', {}, emptyActions(store, all)));
  }
}

function emptyActions(store, all) {
  if (!store.frame) return 'Waiting for the first cycle.';
  if (all.length > 0) return 'None of this kind among the last actions.';
  if (store.frame.mode === 'paused') return 'Paused: actions are decided, none is carried out.';
  return 'No action yet: the engine acts only where demand and machines differ.';
}

function actionRow(a) {
  const many = a.count > 1;
  return tr([
    clock(a.at),
    h('span.tag', { color: kinds[a.kind]?.color ?? '--grey', title: kinds[a.kind]?.hint }, a.kind, many ? h('b', {}, ` ×${count(a.count)}`) : null),
    h('div', {},
      a.machine ? [a.type, h('span.faint', {}, ` ${a.machine}${many ? ` and ${count(a.count - 1)} more` : ''}`)] : h('span.faint', {}, 'and more of them in the same cycle'),
      h('div.second', {}, rules[a.reason] ?? a.reason, a.need ? `; for ${a.need}` : '', planLink(a))),
    where(a),
  ], ACTION_HEADS);
}

/** The picture of the plan that an action is part of. */
function planLink(a) {
  if (!a.plan) return null;
  return [' ', h('a.plan', { href: `plans/${a.plan}`, target: '_blank', rel: 'noopener', title: 'A picture of this plan: what it takes, from whom, and how long they have' }, 'its plan')];
}

function where(a) {
  if (!a.cluster) return h('span.faint', {}, '–');
  return a.from ? h('div', {}, a.cluster, h('div.second', {}, `from ${a.from}`)) : a.cluster;
}
