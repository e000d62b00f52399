// All Needs, satisfied ones too: by state, cluster and text.

import { count, vector } from './format.js';
import { h, morph } from './dom.js';
import { empty, needLink, reasonTag, several, table, to, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, linkToTab, place } from './router.js';

const HEADS = [{ name: 'Need', cls: 'id' }, { name: 'What it wants', cls: 'wide' }, { name: 'Priority', cls: 'num' }, { name: 'State', cls: 'reason' }, { name: 'Machines', cls: 'num' }];
const PAGE = 100;
const STATES = [['short', 'short'], ['satisfied', 'satisfied']];

export class Needs {
  constructor(box, redraw) {
    this.fresh = new Fresh(redraw);
    this.state = h('select', { id: 'needs-state', 'aria-label': 'State of the Needs', onchange: (e) => filter({ state: e.target.value || null, offset: null }, true) }, h('option', { value: '' }, 'short or satisfied'), STATES.map(([v, label]) => h('option', { value: v }, label)));
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter the Needs', autocomplete: 'off', oninput: () => filter({ q: this.search.value || null, offset: null }) });
    this.now = h('p.now');
    this.body = h('div.body');
    box.append(h('section.panel.all', { id: 'needs', 'aria-labelledby': 'needs-h' }, h('header', {}, h('h2', { id: 'needs-h' }, 'All Needs'), this.now), h('div.tools', {}, this.state, this.search), this.body));
  }

  update() {
    const f = Object.fromEntries(['q', 'state', 'cluster', 'offset'].map((k) => [k, place.filters.get(k)]).filter(([, v]) => v));
    if (document.activeElement !== this.state) this.state.value = f.state ?? '';
    if (document.activeElement !== this.search) this.search.value = f.q ?? '';
    this.fresh.want(['needs', { ...f, all: true, limit: PAGE }]);
    const { answer: a, error } = this.fresh;
    if (error || !a) return morph(this.body, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    const filtered = f.q || f.state || f.cluster;
    this.now.textContent = `${filtered ? `${count(a.total)} of ${several(a.all ?? 0, 'Need')}` : several(a.all ?? 0, 'Need')}, highest priority first`;
    const offset = Number(f.offset) || 0;
    const turn = (at, words) => h('a', { href: linkToTab('needs', { ...f, offset: at > 0 ? String(at) : '' }) }, words);
    morph(this.body, [
      f.cluster ? h('p.small', {}, `Only of ${f.cluster}. `, h('a', { href: linkToTab('needs', { ...f, cluster: '', offset: '' }) }, 'Show all')) : null,
      a.needs.length > 0 ? table('All Needs, highest priority first', HEADS, a.needs.map(everyNeedRow)) : empty(filtered ? 'No Need matches.' : 'No cluster has reported demand yet.'),
      a.total > PAGE ? h('p.more', {}, offset > 0 ? turn(Math.max(offset - PAGE, 0), 'Before') : null, `${count(offset + 1)} to ${count(offset + a.needs.length)}`, offset + PAGE < a.total ? turn(offset + PAGE, 'Next') : null) : null,
    ]);
  }
}

/** A Need in a list of all. */
export function everyNeedRow(u) {
  return tr([
    h('div', {}, needLink(u.name, u.key), u.name.startsWith(`${u.cluster}/`) ? null : h('div.second', {}, 'of ', to('cluster', u.cluster))),
    h('div', {}, u.profile || 'any machine', h('div.second', {}, vector(u.wants ?? []), u.rows > 1 ? ` in ${count(u.rows)} rows` : '', u.deficit.length > 0 ? h('span.short', {}, ` · short of ${vector(u.deficit)}`) : '')),
    count(u.priority), u.satisfied ? h('span.tag', { color: '--teal' }, 'satisfied') : u.reason ? reasonTag(u.reason) : h('span.faint', {}, 'not decided yet'), count(u.machines ?? 0),
  ], HEADS, { key: `${u.cluster} ${u.key} ${u.name}`, open: `need/${u.name}~${u.key}` });
}

export const everyNeedTable = (caption, list) => table(caption, HEADS, list.map(everyNeedRow));
