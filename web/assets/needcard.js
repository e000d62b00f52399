// One Need: why it is short, who holds what matches, its plan, and what would help.

import { count, dollars, percent, quantities, span, vector } from './format.js';
import { h } from './dom.js';
import { rejections } from './names.js';
import { domainLink, field, moment, reasonOf, reasonTag, several, stateTag, table, to, tr } from './parts.js';
import { funnel, help, kindOption } from './whatif.js';

const OPERATORS = { In: 'is', NotIn: 'is not', Exists: 'is there', DoesNotExist: 'is not there', Same: 'is the same for all', Gt: 'is above', Lt: 'is below' };

export function needCard(n, { store, more, ask, help: helped, kinds }) {
  ask(['explain', { need: n.name }]);
  return [
    h('p.lead', {}, n.unmet
      ? [reasonTag(n.reason), ` short of ${vector(n.deficit)} for ${span(n.age)}`]
      : [h('span.tag', { color: '--teal' }, 'satisfied'), ` by ${several(n.held.length + n.heldMore, 'machine')}`]),
    n.unmet ? h('p.meaning', {}, reasonOf(n.reason).text) : null,
    h('dl.fields', {},
      field('Cluster', to('cluster', n.cluster)),
      field('Wants', vector(n.wants), n.unit.length > 0 ? h('span.second', {}, `, each machine at least ${vector(n.unit)}`) : null),
      field('Requires', n.requirements.length > 0 ? h('ul', {}, n.requirements.map(requirement)) : 'no label: any machine that is large enough'),
      field('Priority', count(n.priority)),
      penalties(n) ? field('Penalties', penalties(n)) : null,
      n.group ? field('Gang', n.group) : null,
      n.arrival > 0 ? field('Demanded', moment(n.arrival)) : null,
      n.parked ? field('Parked', parked(n, store)) : null,
      n.alike > 1 ? field('Alike', `${count(n.alike)} rows of the cluster have this profile and group, and share their machines`) : null),
    h('section', { 'data-key': 'why' }, h('h3', {}, n.unmet ? 'Why it is short' : 'Which machines fit it'), why(n, more)),
    n.unmet ? h('section', { 'data-key': 'help' }, h('h3', {}, 'What would help'), whatHelps(n, more, helped, store.info?.source.startsWith('Demo')), tryOut(n, kinds)) : null,
    n.plans.length > 0 ? h('section', { 'data-key': 'plans' }, h('h3', {}, 'Plans of preemption for it'), h('ul.plain', {}, n.plans.map((p) => h('li', {}, to('plan', String(p.number), `plan ${p.number}`), `, ${moment(p.at)}: takes ${several(p.machines, 'machine')}${p.domain ? ` in ${p.domain}` : ''}`)))) : null,
    h('section', { 'data-key': 'held' }, h('h3', {}, n.unmet && n.held.length > 0 ? 'Machines that it has so far' : 'Machines that serve it'), held(n)),
    h('section', { 'data-key': 'past' }, h('h3', {}, 'What happened'), past(n)),
    h('p.small', {}, 'On the command line: ', h('code', {}, `tonnage explain need --shard ${location.origin}${helped.answer ? ' --help-me' : ''} ${n.name}`)),
  ];
}

const PARKED_CYCLES = 32; // after so many a parked Need is tried again

/** What a Need that is parked does: it keeps what it has, which serves nobody until the rest comes. */
function parked(n, store) {
  const cost = n.held.reduce((sum, m) => sum + m.price, 0), has = n.held.length + n.heldMore, every = store.info?.cycleInterval;
  return [has > 0 ? [h('b', {}, `it keeps ${several(has, 'machine')}${n.heldMore > 0 ? '' : `, ${dollars(cost)}`}`), ', which serve only once the rest has come, and '] : 'it ', `takes no more until one domain can hold all of it. It is tried again after ${PARKED_CYCLES} cycles`,
    every ? `, within ${span((PARKED_CYCLES * every) / 1000)},` : '', ' and at once when machines that match appear.'];
}

/** What would help, as it was decided about; until somebody asks, what usually does. */
function whatHelps(n, more, helped, demo) {
  const button = (words) => h('button', { type: 'button', 'data-help': n.name, 'data-key': 'ask', disabled: helped.waiting }, words);
  if (helped.error) return [h('p.refused', { role: 'alert' }, helped.error.message), button('Ask again')];
  if (helped.answer) return [help(n, helped.answer, demo), button('Ask again')];
  return [h('p', {}, helped.waiting ? 'Trying what would help, for two seconds at most …' : usually(n, more)), button('Find what would help')];
}

/** What usually helps; machines that do not exist are named by what they would have to be. */
function usually(n, more) {
  const steps = more.answer?.needs?.[n.name]?.funnel.requirements ?? [];
  const last = steps.findIndex((r) => r.leaves === 0);
  if (n.reason !== 'no_matching_supply' || last < 0) return suchMachines(n, steps);
  return ['Add machines or quota with ', steps.slice(0, last + 1).map((r, i) => [i > 0 ? ' and ' : '', h('code', {}, r.requirement)]), ', or relax ', last > 0 ? 'these requirements.' : 'this requirement.'];
}

/** What usually helps, with the machines named that would be added. */
function suchMachines(n, steps) {
  const kind = steps.filter((r) => !r.requirement.startsWith('one '));
  const adds = { insufficient_supply: 'A higher priority does not help.', preemption_exhausted: '', priority_starved: 'Or raise its priority, if it matters more.' }[n.reason];
  if (adds === undefined || kind.length === 0) return reasonOf(n.reason).help;
  return ['Add machines or quota with ', kind.map((r, i) => [i > 0 ? ' and ' : '', h('code', {}, r.requirement)]), `. ${adds}`];
}

/** A form for what if, about this Need. */
function tryOut(n, kinds) {
  return h('form.tools', { 'data-need': n.name, 'data-key': 'try', 'aria-label': 'What if' },
    h('label', {}, 'What if it had priority ', h('input', { type: 'number', name: 'priority', min: -2147483648, max: 2147483647, placeholder: String(n.priority) })),
    h('label', {}, ' and there were ', h('input', { type: 'number', name: 'count', min: 1, max: 10000, value: 1 })),
    h('label', {}, ' more machines of ', h('select', { name: 'add' }, h('option', { value: '' }, 'no kind'), kinds.map(kindOption))),
    h('button', { type: 'submit' }, 'Try it'));
}

needCard.title = (n) => n.name;

function requirement(r) {
  return h('li', {}, h('code', {}, r.key), ` ${OPERATORS[r.operator] ?? r.operator} ${r.values.join(' or ')}`);
}

/** What interruptions cost it; empty where they cost nothing. */
function penalties(n) {
  const of = (label) => (label === 'pinned' ? 'never to happen' : `costs $${label}`);
  const said = [['an interruption', n.interruption], ['losing a machine', n.reclamation]].filter(([, label]) => label !== 'unspecified' && label !== '0').map(([what, label]) => `${what} ${of(label)}`);
  return said.join('; ');
}

/** The way from the fleet to the machines that it can have, and what the engine weighed. */
function why(n, more) {
  if (more.error) return h('p.refused', {}, more.error.message);
  const x = more.answer?.needs?.[n.name];
  if (!x) return h('p.faint', {}, more.answer ? 'The Need has another name by now.' : 'Deciding again about the fleet as it is …');
  return [
    n.unmet && x.funnel.verdict ? h('p.says', {}, x.funnel.verdict) : null,
    funnel(x.funnel),
    n.unmet && x.funnel.domains?.length > 0 ? holding(n, x.funnel.domains, x.domains) : x.domains?.length > 0 ? domains(n, x.domains) : null,
    n.unmet && x.preemption?.length > 0 ? preemption(n, x.preemption) : null,
    x.heldBack?.length > 0 ? h('p', {}, 'Held back: ', x.heldBack.map((b) => `${b.reason ?? b.by}`).join(', ')) : null,
  ];
}

const HOLDING_HEADS = [{ name: 'Domain', cls: 'id' }, { name: 'Own', cls: 'num' }, { name: 'Free', cls: 'num' }, { name: 'Could be taken', cls: 'num' }, { name: 'Out of reach', cls: 'num' }, { name: 'Missing', cls: 'wide.said' }, { name: 'Verdict', cls: 'wide' }];

/** Of each domain, whose its machines are that fit, and what is missing there. */
function holding(n, list, weighed) {
  const best = weighed?.find((d) => d.chosen)?.domain;
  const rows = list.slice(0, 12).map((d) => tr([
    domainLink(sameKey(n), d.domain), count(d.own), count(d.free - d.own), count(d.takeable), count(d.outOfReach),
    d.lacks ? missing(d.lacks) : 'nothing', verdictOf(d, best),
  ], HOLDING_HEADS, { key: d.domain }));
  return [
    h('h4', {}, 'What each domain could give it'), table('Domains: machines that fit, by whose they are, and what is missing', HOLDING_HEADS, rows),
    list.length > rows.length ? h('p.small', {}, `and ${count(list.length - rows.length)} more`) : null,
    h('p.small', {}, 'Out of reach: of Needs with a higher priority, of those of other clusters with the same, or held for others. Missing: what it would lack even with all that is its own, free, or could be taken.'),
  ];
}

/** What is missing; accelerators and the like before processors and memory, which every machine has. */
function missing(lacks) {
  const common = (name) => ['cpu', 'memory', 'ephemeral-storage', 'pods'].includes(name);
  const [rare, rest] = [false, true].map((is) => Object.fromEntries(Object.entries(lacks).filter(([name]) => common(name) === is)));
  const [rares, rests] = [quantities(rare), quantities(rest)];
  return rares ? h('div', {}, rares, rests ? h('div.second', {}, rests) : null) : rests;
}

/** What a domain is to a Need that is short. */
function verdictOf(d, best) {
  if (d.domain === best) return h('b', {}, 'best place so far');
  if (d.missing) return 'too small even if it were empty';
  return d.lacks ? 'others have too much of it' : d.takeable > 0 ? 'only by preemption' : 'enough by count; the engine weighed more';
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
  return h('ol.past', {}, runs(n.history).map(([e, ...more]) => h('li', { 'data-key': `${e.cycle} ${e.to}` }, h('time', {}, moment(e.at)), ' ', e.from ? [stand(e.from), ' → '] : null, stand(e.to),
    more.length > 0 ? h('span.faint', {}, ` and back, ${count(more.length + 1)} changes since ${moment(more.at(-1).at)}`) : null)));
}

const stand = (reason) => (['satisfied', 'gone'].includes(reason) ? h('span.tag', { color: '--teal' }, reason) : reasonTag(reason));

/** Events, newest first, with those together that only go back and forth between two reasons, three changes or more. */
export function runs(list) {
  const out = [];
  for (let i = 0; i < list.length;) {
    const last = list[i];
    let to = i + 1;
    while (to < list.length && list[to].to === list[to - 1].from && list[to].from === ((to - i) % 2 === 0 ? last.from : last.to)) to++;
    if (to - i < 3) to = i + 1;
    out.push(list.slice(i, to));
    i = to;
  }
  return out;
}

