// Clusters and tenants as tables: demand, share, short, spend, trend.

import { count, dollars, vector } from './format.js';
import { h, morph } from './dom.js';
import { spark } from './chart.js';
import { mostOf, percent2 } from './cards.js';
import { empty, meter, reasonTag, several, table, to, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, linkToTab, place } from './router.js';

const COLUMNS = [
  { name: 'Cluster', cls: 'id', sort: 'cluster' }, { name: 'Short', cls: 'num', sort: 'short' }, { name: 'Why', cls: 'reason' }, { name: 'Demand', cls: 'wide', sort: 'rows' },
  { name: 'Machines', cls: 'num', sort: 'machines' }, { name: 'Largest share', cls: 'num', sort: 'share' }, { name: 'Spend', cls: 'num', sort: 'spend' }, { name: 'Short over time', cls: 'line' },
];
const TENANT_HEADS = [
  { name: 'Tenant', cls: 'id' }, { name: 'Of its share', cls: 'num' }, { name: 'Clusters', cls: 'wide' }, { name: 'Machines', cls: 'num' }, { name: 'Short', cls: 'num' }, { name: 'Spend', cls: 'num' }, { name: 'Short over time', cls: 'line' },
];

export class Clusters {
  constructor(box, redraw) {
    this.clusters = new Fresh(redraw);
    this.tenants = new Fresh(redraw);
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter the clusters', autocomplete: 'off', oninput: () => filter({ q: this.search.value || null }) });
    this.now = h('p.now');
    this.body = h('div.body');
    this.lower = h('div.body');
    box.append(
      h('section.panel.all', { id: 'clusters', 'aria-labelledby': 'clusters-h' }, h('header', {}, h('h2', { id: 'clusters-h' }, 'Clusters'), this.now), h('div.tools', {}, this.search), this.body),
      h('section.panel.all', { id: 'tenants', 'aria-labelledby': 'tenants-h' }, h('header', {}, h('h2', { id: 'tenants-h' }, 'Tenants')), this.lower));
  }

  update() {
    const f = place.filters;
    if (document.activeElement !== this.search) this.search.value = f.get('q') ?? '';
    this.clusters.want(['clusters', { q: f.get('q'), tenant: f.get('tenant'), sort: f.get('sort'), limit: 500 }]);
    this.tenants.want(['tenants', {}]);
    this.drawClusters();
    this.drawTenants();
  }

  drawClusters() {
    const { answer, error } = this.clusters;
    if (error) return morph(this.body, [h('p.refused', {}, error.message)]);
    if (!answer) return morph(this.body, [empty('Asking …')]);
    this.now.textContent = answer.clusters.length < answer.total ? `${count(answer.clusters.length)} of ${count(answer.total)}` : several(answer.total, 'cluster');
    const sorted = place.filters.get('sort') ?? 'short';
    const keep = Object.fromEntries([...place.filters].filter(([k]) => k !== 'sort'));
    const heads = COLUMNS.map((c) => (c.sort ? { ...c, link: linkToTab('clusters', { ...keep, sort: c.sort }), sorted: c.sort === sorted ? (c.sort === 'cluster' ? 'ascending' : 'descending') : null } : c));
    morph(this.body, [answer.clusters.length > 0 ? table('Clusters', heads, answer.clusters.map(clusterRow)) : empty('No cluster has this text in its name.')]);
  }

  drawTenants() {
    const { answer, error } = this.tenants;
    if (error || !answer) return morph(this.lower, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    morph(this.lower, [answer.length > 0
      ? table('Tenants, those furthest above their share first', TENANT_HEADS, answer.map(tenantRow))
      : empty('No tenants are declared: only priority decides who may take from whom. The options of a world and the policy of a shard can name them.')]);
  }
}

export const trend = (points) => (points.length > 1 ? h('span.trend-cell', { title: `Needs that were short: ${points[0]} → ${points.at(-1)}, at most ${Math.max(...points)}` }, spark(points, points.map((_, i) => i / (points.length - 1)), 90, 18, Math.max(...points) > 0 ? '--red' : '--grey')) : '');

function clusterRow(c) {
  return tr([
    h('div', {}, to('cluster', c.cluster), c.tenant ? h('div.second', {}, 'of ', to('tenant', c.tenant)) : null),
    h(c.short > 0 ? 'b.bad' : 'span', {}, count(c.short)),
    c.short > 0 ? reasonTag(c.reason) : '–',
    h('div', {}, vector(c.demand) || 'nothing', c.short > 0 ? h('div.second', {}, `short of ${vector(c.deficit)}`) : null),
    c.draining === 0 ? count(c.machines) : h('span', {}, count(c.machines), h('span.second', { title: 'they are paid for until they are given back or bound to another cluster' }, ` and ${count(c.draining)} that ${c.draining === 1 ? 'drains' : 'drain'}`)), h('span', { title: 'of the CPU, memory or accelerators of all machines that serve clusters: of that of which it has the largest part. Such parts do not sum up to 100 %.' }, meter(c.share)), dollars(c.spend), trend(c.trend),
  ], COLUMNS, { key: c.cluster, open: `cluster/${c.cluster}` });
}

function tenantRow(t) {
  return tr([
    to('tenant', t.tenant), h(t.ratio > 1 ? 'b.bad' : 'span', { title: t.ratio > 1 ? 'above its share: tenants that are short and within theirs may take machines from it, for work of the same priority or a higher one' : 'within its share' }, t.ratio > 1 ? [h('span.tag', { color: '--red' }, 'above'), ' '] : '', meter(t.ratio, percent2(t.ratio)), h('div.second', {}, mostOf(t))),
    h('span', {}, t.clusters.map((c, i) => [i > 0 ? ', ' : '', to('cluster', c)])), count(t.machines), h(t.short > 0 ? 'b.bad' : 'span', {}, count(t.short)), dollars(t.spend), trend(t.trend),
  ], TENANT_HEADS, { key: t.tenant, open: `tenant/${t.tenant}` });
}

