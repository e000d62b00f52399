// The two tables: unmet Needs with their reasons, and the last actions.

import { clock, count, percent, span, vector } from './format.js';
import { find, h, morph, text } from './dom.js';
import { kinds, rules } from './names.js';
import { empty, needLink, reasonOf, reasonTag, several, table, to, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, place } from './router.js';

/** Buttons that show one name of several; none pressed shows all. The choice is a filter of the address. */
class Chips {
  constructor(box, name) {
    this.box = box;
    this.name = name;
    this.buttons = new Map();
  }

  get chosen() { return place.filters.get(this.name); }

  /** entries: [{key, label, color, count, hint}] */
  update(entries) {
    for (const [key, b] of this.buttons) {
      if (entries.some((e) => e.key === key)) continue;
      b.remove();
      this.buttons.delete(key);
    }
    for (const e of entries) {
      let b = this.buttons.get(e.key);
      if (!b) {
        b = h('button.chip', { type: 'button', color: e.color, title: e.hint, onclick: () => filter({ [this.name]: this.chosen === e.key ? null : e.key }, true) }, h('i'), h('span', {}, e.label), h('b'));
        this.buttons.set(e.key, b);
        this.box.append(b);
      }
      text(find('b', b), e.count === undefined ? '' : count(e.count));
      b.setAttribute('aria-pressed', String(this.chosen === e.key));
    }
  }
}

const NEED_HEADS = [
  { name: 'Need', cls: 'id' }, { name: 'What it wants, and is short of', cls: 'wide' }, { name: 'Priority', cls: 'num' },
  { name: 'Reason', cls: 'reason' }, { name: 'Age', cls: 'num' },
];

/** The unmet Needs. The feed has the first of them; the process is asked for what a filter finds, and for more. */
export class Unmet {
  constructor(panel, redraw) {
    this.now = find('.now', panel);
    this.meaning = find('.meaning', panel);
    this.body = find('.body', panel);
    this.lowered = find('#lowered', panel);
    this.search = find('input', panel);
    this.chips = new Chips(find('.chips', panel), 'reason');
    this.search.addEventListener('input', () => filter({ q: this.search.value || null }));
    this.fresh = new Fresh(redraw);
  }

  update(store) {
    const f = store.frame;
    if (!f) return this.empty('Waiting for the first cycle.');
    this.showLowered(f.lowered ?? []);
    const wanted = place.filters.get('q') ?? '';
    if (document.activeElement !== this.search) this.search.value = wanted;
    const counts = [...f.reasons].sort((a, b) => b.count - a.count);
    const chosen = this.chips.chosen;
    const entries = counts.map((r) => ({ key: r.reason, count: r.count }));
    if (chosen && !counts.some((r) => r.reason === chosen)) entries.push({ key: chosen, count: 0 });
    this.chips.update(entries.map((r) => ({ ...r, label: reasonOf(r.key).label, color: reasonOf(r.key).color, hint: reasonOf(r.key).text })));
    this.search.hidden = f.unmet.length === 0;
    if (f.unmet.length === 0) {
      return f.needs === 0 ? this.empty('No cluster has reported demand yet.') : this.empty('Every Need is satisfied: machines are bound or on their way for all that the clusters ask for.', true);
    }
    const about = chosen ?? f.unmet[0].reason, why = reasonOf(about); // of the first row where no reason is chosen
    morph(this.meaning, [h('b', {}, `${why.label[0]?.toUpperCase() ?? ''}${why.label.slice(1)}: `), `${why.text} `, this.helps(why, about, f)]);
    // Where the frame has them all, the list is as old as the sentence and the numbers above it.
    this.fresh.want(wanted === '' && f.needs - f.satisfied <= f.unmet.length ? null : ['needs', { q: wanted, reason: chosen, limit: 200 }]);
    this.list(f, chosen, wanted);
  }

  /** What helps against a reason; machines that do not exist are named by what they would have to be. */
  helps(why, reason, f) {
    const wanted = [...new Set(f.unmet.filter((u) => u.reason === reason && u.profile).map((u) => u.profile))];
    if (reason !== 'no_matching_supply' || wanted.length === 0) return why.help;
    return ['Add machines or quota with ', wanted.slice(0, 3).map((p, i) => [i > 0 ? ' or ' : '', h('b', {}, p)]), wanted.length > 3 ? ` and ${count(wanted.length - 3)} more` : '', ', or relax these requirements.'];
  }

  list(f, chosen, wanted) {
    const rows = this.fresh.answer?.needs ?? f.unmet.filter((u) => (!chosen || u.reason === chosen) && `${u.name} ${u.cluster} ${u.profile}`.toLowerCase().includes(wanted.toLowerCase()));
    const total = this.fresh.answer?.total ?? (chosen ? f.reasons.find((r) => r.reason === chosen)?.count ?? 0 : f.needs - f.satisfied);
    text(this.now, rows.length < total ? `${count(rows.length)} of ${count(total)}, highest priority first` : several(total, 'Need'));
    morph(this.body, [rows.length > 0
      ? table('Unmet Needs, highest priority first, then oldest', NEED_HEADS, rows.map(needRow))
      : empty(wanted ? 'No unmet Need has this text in its name, group or requirements.' : 'None of these is among the Needs of highest priority listed here.')]);
  }

  /** The clusters whose rows are above the limits of the policy. */
  showLowered(list) {
    this.lowered.hidden = list.length === 0;
    text(this.lowered, list.map((x) => `${x.cluster}: ${count(x.rows)} ${x.rows === 1 ? 'row' : 'rows'} lowered by policy (${x.limits})`).join(' · '));
  }

  empty(why, good = false) {
    this.fresh.want(null);
    this.chips.update([]);
    text(this.meaning, '');
    text(this.now, '');
    morph(this.body, [empty(why, good)]);
  }
}

export function needRow(u) {
  const part = u.missing === undefined ? null : h('span.meter', { 'aria-hidden': 'true' }, h('i', { 'width%': u.missing * 100 }));
  return tr([
    h('div', {}, needLink(u.name, u.key), u.name.startsWith(`${u.cluster}/`) ? null : h('div.second', {}, 'of ', to('cluster', u.cluster))),
    h('div', {}, u.profile || 'any machine', h('div.second', { title: u.missing === undefined ? null : `${percent(u.missing)} of what it asks for is missing` }, part, 'short of ', vector(u.deficit))),
    count(u.priority), reasonTag(u.reason), span(u.age),
  ], NEED_HEADS, { key: `${u.cluster} ${u.key}`, open: `need/${u.name}~${u.key}` });
}

const ACTION_HEADS = [
  { name: 'Time', cls: 'time' }, { name: 'Action', cls: 'kind' }, { name: 'Machines, and why', cls: 'wide' }, { name: 'Cluster', cls: 'id' },
];

export class Recent {
  constructor(panel) {
    this.now = find('.now', panel);
    this.body = find('.body', panel);
    this.chips = new Chips(find('.chips', panel), 'kind');
  }

  update(store) {
    const all = store.recent;
    this.chips.update(store.frame ? Object.entries(kinds).map(([key, k]) => ({ key, label: key, color: k.color, hint: k.hint })) : []);
    const rows = all.filter((a) => !this.chips.chosen || a.kind === this.chips.chosen);
    text(this.now, rows.length > 0 ? 'newest first, alike ones together' : '');
    if (rows.length > 0) {
      return morph(this.body, [table('The last actions, newest first', ACTION_HEADS, rows.map(actionRow))]);
    }
    morph(this.body, [empty(emptyActions(store, all))]);
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
      a.machine ? [a.type, ' ', to('machine', a.machine), h('span.faint', {}, `${many ? ` and ${count(a.count - 1)} more` : ''}`)] : h('span.faint', {}, 'and more of them in the same cycle'),
      h('div.second', {}, rules[a.reason] ?? a.reason, forWhom(a))),
    where(a),
  ], ACTION_HEADS, { key: `${a.cycle} ${a.kind} ${a.machine} ${a.cluster}`, open: a.machine ? `machine/${a.machine}` : null });
}

/** For which Need an action is, and the plan that it is part of. */
function forWhom(a) {
  const whom = a.for ? [' for ', needLink(a.for), a.need ? ` (${a.need})` : ''] : a.need ? ` for a Need of ${a.need}` : '';
  return [whom, a.plan ? [' · ', to('plan', String(a.plan), `plan ${a.plan}`)] : ''];
}

function where(a) {
  if (!a.cluster) return h('span.faint', {}, '–');
  return h('div', {}, to('cluster', a.cluster), a.from ? h('div.second', {}, 'from ', to('cluster', a.from)) : null);
}
