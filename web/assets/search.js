// What a search finds: clusters, Needs, and machines. A list of machines with filters is the same view.

import { count, dollars } from './format.js';
import { h, morph } from './dom.js';
import { machineTable } from './cards.js';
import { everyNeedTable } from './needs.js';
import { capacity, states } from './names.js';
import { empty, several, to } from './parts.js';
import { Fresh } from './query.js';
import { filter, linkToTab, place } from './router.js';

const PAGE = 100;

export class Search {
  constructor(box, redraw) {
    this.clusters = new Fresh(redraw);
    this.needs = new Fresh(redraw);
    this.machines = new Fresh(redraw);
    const select = (name, all, values) => h('select', { 'aria-label': name, onchange: (e) => filter({ [name]: e.target.value || null, offset: null }, true) }, h('option', { value: '' }, all), values.map(([v, label]) => h('option', { value: v }, label)));
    this.state = select('state', 'any state', Object.keys(states).map((s) => [s, s]));
    this.capacity = select('capacity', 'paid for anyhow', Object.entries(capacity).map(([k, c]) => [k, c.label]));
    this.sort = select('sort', 'by name', [['price', 'dearest first']]);
    this.top = h('div.body');
    this.now = h('p.now');
    this.body = h('div.body');
    box.append(
      h('section.panel.all', { id: 'found', 'aria-labelledby': 'found-h' }, h('header', {}, h('h2', { id: 'found-h' }, 'Found')), this.top),
      h('section.panel.all', { id: 'list', 'aria-labelledby': 'list-h' }, h('header', {}, h('h2', { id: 'list-h' }, 'Machines'), this.now), h('div.tools', {}, this.state, this.capacity, this.sort), this.body));
  }

  update() {
    const f = Object.fromEntries(place.filters);
    this.clusters.want(f.q ? ['clusters', { q: f.q, limit: 20 }] : null);
    this.needs.want(f.q ? ['needs', { q: f.q, all: true, limit: 20 }] : null);
    this.machines.want(['machines', { ...f, limit: PAGE }]);
    for (const [name, select] of [['state', this.state], ['capacity', this.capacity], ['sort', this.sort]]) if (document.activeElement !== select) select.value = f[name] ?? '';
    this.top.parentElement.hidden = !f.q;
    morph(this.top, this.found(f));
    this.list(f);
  }

  found(f) {
    const clusters = this.clusters.answer?.clusters ?? [], needs = this.needs.answer?.needs ?? [];
    const nothing = clusters.length === 0 && needs.length === 0 && this.clusters.answer && this.needs.answer;
    return [
      clusters.length > 0 ? h('p', {}, `${several(this.clusters.answer.total, 'cluster')}: `, clusters.map((c, i) => [i > 0 ? ', ' : '', to('cluster', c.cluster), c.short > 0 ? ` (${count(c.short)} short)` : ''])) : null,
      needs.length > 0 ? [everyNeedTable('Needs', needs), this.needs.answer.total > needs.length ? h('p.small', {}, h('a', { href: linkToTab('needs', { q: f.q }) }, `All ${several(this.needs.answer.total, 'Need')} that match`)) : null] : null,
      nothing ? h('p.faint', {}, `No cluster and no Need has “${f.q}” in its name or its requirements.`) : null,
    ];
  }

  list(f) {
    const { answer: a, error } = this.machines;
    if (error || !a) return morph(this.body, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    this.now.textContent = a.total > 0 ? `${several(a.total, 'machine')}, ${dollars(a.price)}` : '';
    const offset = Number(f.offset) || 0;
    const turn = (at, words) => h('a', { href: linkToTab('search', { ...f, offset: at > 0 ? String(at) : '' }) }, words);
    const only = ['cluster', 'type', 'value'].filter((k) => f[k]).map((k) => (k === 'value' ? `${f.key} ${f.value}` : `${k} ${f[k]}`));
    morph(this.body, [
      only.length > 0 ? h('p.small', {}, `Only ${only.join(', ')}. `, h('a', { href: linkToTab('search', { q: f.q ?? '' }) }, 'Show all')) : null,
      a.machines.length > 0 ? machineTable('Machines', a.machines) : empty(f.q ? `No machine has “${f.q}” in its name, type, zone or labels.` : 'No machine matches.'),
      a.total > PAGE ? h('p.more', {}, offset > 0 ? turn(Math.max(offset - PAGE, 0), 'Before') : null, `${count(offset + 1)} to ${count(offset + a.machines.length)}`, offset + PAGE < a.total ? turn(offset + PAGE, 'Next') : null) : null,
    ]);
  }
}
