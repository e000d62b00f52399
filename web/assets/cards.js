// One cluster, tenant, domain or plan.

import { amount, count, dollars, percent, resource, span, vector } from './format.js';
import { h } from './dom.js';
import { spark } from './chart.js';
import { capacityName, field, moment, needLink, reasonTag, several, stateTag, table, to, tr } from './parts.js';
import { linkToTab } from './router.js';
import { linkToWhatIf, outcome } from './whatif.js';

const counts = (list, link = (name) => name) => h('ul.plain', {}, list.slice(0, 12).map((x) => h('li', { 'data-key': x.name }, h('b', {}, count(x.count)), ' ', link(x.name) || '–')), list.length > 12 ? h('li.faint', {}, `and ${count(list.length - 12)} more`) : null);

export function trendLine(points, words) {
  if (points.length < 2) return null;
  return h('figure.trendline', {}, spark(points, points.map((_, i) => i / (points.length - 1)), 200, 34, '--red'), h('figcaption', {}, words));
}

export function clusterCard(c) {
  return [
    h('p.lead', {}, c.short > 0 ? [h('b.bad', {}, several(c.short, 'Need')), c.short === 1 ? ' is short' : ' are short', c.reason ? [c.reasons.length > 1 ? ', mostly ' : ': ', reasonTag(c.reason)] : ''] : h('span.tag', { color: '--teal' }, 'all satisfied')),
    h('dl.fields', {},
      c.tenant ? field('Tenant', to('tenant', c.tenant)) : null,
      field('Asks for', vector(c.demand) || 'nothing', ` in ${several(c.rows, 'row')}`),
      field('Has', vector(c.has) || 'nothing', `: ${several(c.machines, 'machine')}, ${percent(c.share)} of all that is bound`, c.draining > 0 ? `, ${count(c.draining)} more drain` : ''),
      c.short > 0 ? field('Short of', h('b.bad', {}, vector(c.deficit))) : null,
      field('Spends', dollars(c.spend), c.risk > 0 ? `, and interruptions cost ${dollars(c.risk)}` : '')),
    trendLine(c.trend, `Needs that were short, last ${span((c.trend.length - 1) * 5)}`),
    c.reasons.length > 0 ? h('section', {}, h('h3', {}, 'Why its Needs are short'), h('ul.plain', {}, c.reasons.map((r) => h('li', { 'data-key': r.reason }, h('b', {}, count(r.count)), ' ', reasonTag(r.reason))))) : null,
    h('section', {}, h('h3', {}, 'Machines'), h('div.two', {}, counts(c.states), counts(c.types))),
    h('p.more', {},
      h('a', { href: linkToTab('needs', { cluster: c.cluster }) }, 'Its Needs'),
      c.short > 0 ? h('a', { href: linkToTab('overview', { q: c.cluster }) }, 'Its unmet Needs') : null,
      h('a', { href: linkToTab('fleet', { owner: c.cluster }) }, 'Its machines on the map'),
      h('a', { href: linkToTab('search', { cluster: c.cluster }) }, 'List of its machines'),
      h('a', { href: linkToTab('changes', { q: c.cluster }) }, 'What changed')),
  ];
}

export function tenantCard(all, { name }) {
  const t = all.find((x) => x.tenant === name);
  if (!t) return h('p.refused', {}, 'There is no such tenant.');
  return [
    h('p.lead', {}, t.ratio > 1 ? h('b.bad', {}, `${percent2(t.ratio)} of its share: tenants that are short and within theirs may take machines from it, for work of the same priority or a higher one`) : h('span.tag', { color: '--teal' }, `${percent2(t.ratio)} of its share`)),
    h('dl.fields', {},
      t.shares.map((s) => field(resource(s.name), `${amount(s.name, s.has)} of ${amount(s.name, s.share)}`)),
      field('Machines', count(t.machines)),
      field('Short', several(t.short, 'Need')),
      field('Spends', dollars(t.spend))),
    trendLine(t.trend, 'Needs of its clusters that were short'),
    h('section', {}, h('h3', {}, 'Clusters'), h('ul.plain', {}, t.clusters.map((c) => h('li', {}, to('cluster', c))))),
  ];
}

/** The resource that a tenant has most of, measured by its share: what its ratio is of. */
export function mostOf(t) {
  const s = [...t.shares].sort((a, b) => b.has / b.share - a.has / a.share)[0];
  return s ? `${resource(s.name)}: ${amount(s.name, s.has)} of its ${amount(s.name, s.share)}` : '';
}

export const percent2 = (ratio) => `${Math.round(ratio * 100)} %`;

const MACHINE_HEADS = [{ name: 'Machine', cls: 'id' }, { name: 'State', cls: 'kind' }, { name: 'Cluster', cls: 'id' }, { name: 'Priority', cls: 'num' }, { name: 'Type', cls: 'wide' }, { name: '$/h', cls: 'num' }];

export const machineRow = (m) => tr([to('machine', m.id), stateTag(m.state), to('cluster', m.cluster, m.cluster || '–'), m.cluster ? count(m.priority) : '–', `${m.type}${m.capacity !== 'Unspecified' ? `, ${capacityName(m.capacity)}` : ''}`, m.price.toFixed(2)], MACHINE_HEADS, { key: m.id, open: `machine/${m.id}` });

export const machineTable = (caption, list) => table(caption, MACHINE_HEADS, list.map(machineRow));

export function domainCard(d, { more }) {
  return [
    h('p.lead', {}, h('code', {}, d.key), `: ${several(d.machines, 'machine')}, ${dollars(d.spend)}`),
    h('dl.fields', {},
      field('Idle', count(d.idle)), field('Bound', d.bound > 0 ? `${count(d.bound)}, in ${several(d.clusters, 'cluster')}` : '0'),
      field('On their way', count(d.moving)), d.failed > 0 ? field('Failed', count(d.failed)) : null, field('Can be bought', count(d.speculative))),
    h('section', {}, h('h3', {}, 'Whose machines'), d.owners.length > 0 ? counts(d.owners, (name) => to('cluster', name)) : h('p.faint', {}, 'Nobody’s.')),
    d.gangs.length > 0 ? h('section', {}, h('h3', {}, 'Gangs'), counts(d.gangs)) : null,
    h('section', {}, h('h3', {}, 'Types'), counts(d.types)),
    h('section', { 'data-key': 'loss' }, h('h3', {}, 'What if it were lost?'), loss(d, more)),
    h('section', {}, h('h3', {}, 'Machines'), machineTable('Machines of the domain', d.list.slice(0, 50))),
    h('p.more', {}, h('a', { href: linkToTab('fleet', { key: d.key, within: d.value }) }, 'On the map'), h('a', { href: linkToTab('search', { key: d.key, value: d.value }) }, 'List of its machines')),
  ];
}

domainCard.title = (d) => d.value;

function loss(d, more) {
  const button = h('button', { type: 'button', 'data-ask': JSON.stringify(['whatif', { key: d.key, value: d.value }]), disabled: Boolean(more.waiting) }, more.answer ? 'Ask again' : 'Decide what would happen');
  if (more.error) return [h('p.refused', {}, more.error.message), button];
  if (!more.answer) return [h('p', {}, more.waiting ? 'Deciding …' : 'The engine decides about the fleet without these machines. Nothing is changed.'), button];
  return [outcome(more.answer, `Without its ${several(more.answer.lost, 'machine')}`), button, ' ', h('a', { href: linkToWhatIf({ key: d.key, value: d.value }) }, 'With other changes')];
}

const TAKEN_HEADS = [{ name: 'Machine', cls: 'id' }, { name: 'Who loses it', cls: 'id' }, { name: 'Priority', cls: 'num' }, { name: 'Notice up to', cls: 'num' }];

export function planCard(p) {
  return [
    h('p.lead', {}, `Takes ${several(p.machines, 'machine')}${p.domain ? ` in ${p.domain}` : ''} for `, needLink(p.name), ` of `, to('cluster', p.cluster)),
    h('dl.fields', {}, field('Made', moment(p.at)), field('For', p.need || 'any machine', `, priority ${count(p.priority)}`), field('Longest notice', span(p.graceSeconds))),
    h('figure.picture', { 'data-key': 'picture' }, h('a', { href: `plans/${p.number}`, target: '_blank', rel: 'noopener', title: 'The picture alone' }, h('img', { src: `plans/${p.number}`, alt: `The plan drawn: the machines that it takes${p.domain ? `, others in ${p.domain}` : ''}, and whom they serve` }))),
    h('section', {}, h('h3', {}, 'What it takes'), table('Machines that the plan takes', TAKEN_HEADS, p.takes.slice(0, 100).map((v) => tr([to('machine', v.machine), h('div', {}, v.need ? [needLink(v.need), h('div.second', {}, 'of ', to('cluster', v.from))] : to('cluster', v.from)), count(v.priority), span(v.graceSeconds)], TAKEN_HEADS, { key: v.machine, open: `machine/${v.machine}` })))),
  ];
}

planCard.title = (p) => `Plan ${p.number}: ${p.name} takes ${several(p.machines, 'machine')}${p.domain ? ` in ${p.domain}` : ''}`;
