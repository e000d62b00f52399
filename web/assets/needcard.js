// One Need: why it is short, who holds what matches, its plan, and what would help.

import { count, percent, span, vector } from './format.js';
import { h } from './dom.js';
import { rejections, verdicts } from './names.js';
import { domainLink, field, moment, reasonOf, reasonTag, several, stateTag, table, to, tr } from './parts.js';

const OPERATORS = { In: 'is', NotIn: 'is not', Exists: 'is there', DoesNotExist: 'is not there', Same: 'is the same for all', Gt: 'is above', Lt: 'is below' };

export function needCard(n, { more, ask }) {
  ask(['explain', { need: n.name }]);
  return [
    h('p.lead', {}, n.unmet
      ? [reasonTag(n.reason), ` short of ${vector(n.deficit)} for ${span(n.age)}`]
      : [h('span.tag', { color: '--teal' }, 'satisfied'), ` ${several(n.held.length + n.heldMore, 'machine')} carry its stamp`]),
    n.unmet ? h('p.meaning', {}, reasonOf(n.reason).text) : null,
    h('dl.fields', {},
      field('Cluster', to('cluster', n.cluster)),
      field('Wants', vector(n.wants), n.unit.length > 0 ? h('span.second', {}, `, each machine at least ${vector(n.unit)}`) : null),
      field('Requires', n.requirements.length > 0 ? h('ul', {}, n.requirements.map(requirement)) : 'nothing of a machine but its size'),
      field('Priority', count(n.priority)),
      field('Costs', penalties(n)),
      n.group ? field('Gang', n.group) : null,
      n.arrival > 0 ? field('Demanded', moment(n.arrival)) : null,
      n.parked ? field('Parked', 'it waits until matching supply appears') : null,
      n.alike > 1 ? field('Alike', `${count(n.alike)} rows of the cluster have this profile and group; machines do not tell them apart`) : null),
    h('section', { 'data-key': 'why' }, h('h3', {}, n.unmet ? 'Why it is short' : 'What the machines are to it'), why(n, more)),
    n.unmet ? h('section', { 'data-key': 'help' }, h('h3', {}, 'What would help'), h('p', {}, reasonOf(n.reason).help)) : null,
    n.plans.length > 0 ? h('section', { 'data-key': 'plans' }, h('h3', {}, 'Plans of preemption for it'), h('ul.plain', {}, n.plans.map((p) => h('li', {}, to('plan', String(p.number), `plan ${p.number}`), `, ${moment(p.at)}: takes ${several(p.machines, 'machine')}${p.domain ? ` in ${p.domain}` : ''}`)))) : null,
    h('section', { 'data-key': 'held' }, h('h3', {}, 'Machines that serve it'), held(n)),
    h('section', { 'data-key': 'past' }, h('h3', {}, 'What happened'), past(n)),
    h('p.small', {}, 'On the command line: ', h('code', {}, `tonnage explain need --shard ${location.origin} ${n.name}`)),
  ];
}

needCard.title = (n) => n.name;

function requirement(r) {
  return h('li', {}, h('code', {}, r.key), ` ${OPERATORS[r.operator] ?? r.operator} ${r.values.join(' or ')}`);
}

function penalties(n) {
  const of = (label) => (label === 'pinned' ? 'not to be allowed' : label === 'unspecified' ? 'not said' : `$${label}`);
  return `an interruption: ${of(n.interruption)}; losing a machine: ${of(n.reclamation)}`;
}

/** The machines of the fleet, by what they are to the Need: each step of the way leaves some out. */
function why(n, more) {
  if (more.error) return h('p.refused', {}, more.error.message);
  const x = more.answer?.needs?.[n.name];
  if (!x) return h('p.faint', {}, more.answer ? 'The Need has another name by now.' : 'Deciding again about the fleet as it is …');
  const all = Object.values(x.machines ?? {}).reduce((a, b) => a + b, 0);
  let left = all;
  const steps = Object.keys(verdicts).filter((v) => x.machines?.[v] > 0).map((v) => {
    left -= x.machines[v];
    return h('li', {}, h('span.steps', { 'aria-hidden': 'true' }, h('i', { 'width%': ((left + x.machines[v]) / all) * 100 })), h('b', {}, count(x.machines[v])), ` ${verdicts[v]}`);
  });
  return [
    h('p', {}, `Of ${several(all, 'machine')}:`),
    h('ol.funnel', {}, steps),
    x.domains?.length > 0 ? domains(n, x.domains) : null,
    x.preemption?.length > 0 ? preemption(n, x.preemption) : null,
    x.heldBack?.length > 0 ? h('p', {}, 'Held back: ', x.heldBack.map((b) => `${b.reason ?? b.by}`).join(', ')) : null,
  ];
}

const sameKey = (n) => n.requirements.find((r) => r.operator === 'Same')?.key;

const DOMAIN_HEADS = [{ name: 'Domain', cls: 'id' }, { name: 'Machines', cls: 'num' }, { name: 'Holds of it', cls: 'num' }, { name: 'Verdict', cls: 'wide' }];

function domains(n, list) {
  const rows = list.slice(0, 12).map((d) => tr([
    sameKey(n) ? domainLink(sameKey(n), d.domain) : d.domain, count(d.machines ?? 0), d.share === undefined ? '–' : percent(Math.min(d.share, 1)),
    d.chosen ? h('b', {}, 'chosen') : rejections[d.rejectedBy] ?? d.rejectedBy ?? '–',
  ], DOMAIN_HEADS, { key: d.domain }));
  return [h('h4', {}, 'Domains that it could choose from'), table('Domains, best first', DOMAIN_HEADS, rows)];
}

const PREEMPT_HEADS = [{ name: 'Domain', cls: 'id' }, { name: 'Candidates', cls: 'num' }, { name: 'Would break', cls: 'num' }, { name: 'Verdict', cls: 'wide' }];

function preemption(n, list) {
  const rows = list.slice(0, 12).map((d) => tr([
    sameKey(n) && d.domain ? domainLink(sameKey(n), d.domain) : d.domain || 'anywhere', count(d.candidates ?? 0),
    d.cost ? `${several(d.cost.machines, 'machine')}, ${several(d.cost.gangs ?? 0, 'gang')}` : '–',
    d.rejectedBy ? rejections[d.rejectedBy] ?? d.rejectedBy : d.covered ? h('b', {}, 'chosen') : 'not enough',
  ], PREEMPT_HEADS, { key: d.domain }));
  return [h('h4', {}, 'Where preemption was looked for'), table('Domains where preemption was looked for', PREEMPT_HEADS, rows)];
}

const HELD_HEADS = [{ name: 'Machine', cls: 'id' }, { name: 'State', cls: 'kind' }, { name: 'Type', cls: 'wide' }, { name: '$/h', cls: 'num' }];

function held(n) {
  if (n.held.length === 0) return h('p.faint', {}, 'None.');
  const rows = n.held.slice(0, 50).map((m) => tr([to('machine', m.id), stateTag(m.state), m.type, m.price.toFixed(2)], HELD_HEADS, { key: m.id, open: `machine/${m.id}` }));
  const rest = n.held.length + n.heldMore - rows.length;
  return [table('Machines that serve it', HELD_HEADS, rows), rest > 0 ? h('p.small', {}, `and ${count(rest)} more`) : null];
}

function past(n) {
  if (n.history.length === 0) return h('p.faint', {}, 'Nothing in the cycles that are kept.');
  return h('ol.past', {}, n.history.map((e) => h('li', { 'data-key': `${e.cycle} ${e.to}` }, h('time', {}, moment(e.at)), ' ', e.from ? [reasonTag(e.from), ' → '] : null, ['satisfied', 'gone'].includes(e.to) ? h('span.tag', { color: '--teal' }, e.to) : reasonTag(e.to))));
}

