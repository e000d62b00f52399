// One machine: its record, whose it is, why it is there and not a cheaper one, and what happened to it.

import { count, dollars, money, percent, span, vector } from './format.js';
import { h } from './dom.js';
import { acquire, rules } from './names.js';
import { capacityName, domainLink, field, moment, needLink, several, stateTag, table, to, tr } from './parts.js';

export function machineCard(m, { store, more, ask }) {
  if (m.state === 'gone') return [h('p.lead', {}, 'The provider does not list it any more.'), h('section', {}, h('h3', {}, 'What happened'), past(m))];
  ask(['explain', { machine: m.id }]);
  return [
    h('p.lead', {}, stateTag(m.state), ' ', lead(m)),
    h('dl.fields', {},
      field('Type', m.type || '–', m.capacity !== 'Unspecified' ? `, ${capacityName(m.capacity)}` : ''),
      field('Offers', vector(m.offers)),
      field('Price', `${money(m.price)}/h`, m.effective > m.price ? h('b', {}, `, ${money(m.effective)}/h with what interruptions cost (${percent(m.probability)} an hour)`) : ''),
      m.domains.map((d) => field(short(d.key), domainLink(d.key, d.value))),
      m.host ? field('Host', m.host) : null,
      m.idleSince ? field('Idle', `for ${span((store.now() - m.idleSince) / 1000)}`) : null,
      m.lastError ? field('Error', m.lastError) : null,
      m.reserved ? field('Held for', 'a Need of ', to('cluster', m.reserved.cluster), ` with priority ${count(m.reserved.priority)}`, m.reserved.domain ? ` in ${m.reserved.domain}` : '', m.reserved.until ? ` until ${moment(m.reserved.until)}` : '') : null),
    h('section', { 'data-key': 'why' }, h('h3', {}, 'Why it is there'), why(m, more)),
    m.need ? h('section', { 'data-key': 'cheaper' }, h('h3', {}, 'Why this one and not a cheaper one'), chosen(m, more), cheaper(m)) : null,
    h('section', { 'data-key': 'past' }, h('h3', {}, 'What happened'), past(m)),
    h('section', { 'data-key': 'labels' }, h('details', {}, h('summary', {}, several(Object.keys(m.labels ?? {}).length, 'label')), h('ul.plain', {}, Object.entries(m.labels ?? {}).sort().map(([k, v]) => h('li', {}, h('code', {}, `${k}=${v}`)))))),
    h('p.small', {}, 'On the command line: ', h('code', {}, `tonnage fleet machine --shard ${location.origin} ${m.id}`), ' and ', h('code', {}, `tonnage explain machine --shard ${location.origin} ${m.id}`)),
  ];
}

const short = (key) => key.slice(key.lastIndexOf('/') + 1).replace(/^./, (c) => c.toUpperCase());

function lead(m) {
  if (!m.cluster) return m.state === 'Idle' ? `belongs to no cluster, and costs ${money(m.price)}/h` : '';
  return ['in ', to('cluster', m.cluster), m.group ? `, gang ${m.group}` : ''];
}

function why(m, more) {
  const x = more.answer?.machines?.[m.id];
  return [
    m.need ? h('p', {}, 'It serves ', needLink(m.need, m.needKey), ` (${m.profile || 'any machine'}), priority ${count(m.priority)}`, m.alike > 1 ? ` or one of ${count(m.alike - 1)} Needs alike` : '', '.') : m.cluster ? h('p', {}, 'The Need that it was bound for is no longer asked for.') : null,
    more.error ? h('p.refused', {}, more.error.message) : null,
    !more.answer && !more.error ? h('p.faint', {}, 'Deciding again about the fleet as it is …') : null,
    x?.action ? h('p', {}, h('b', {}, x.action), `: ${rules[x.reason] ?? x.reason}`, x.for ? [', for ', needLink(x.for)] : '', x.score ? ` (score ${x.score.total.toFixed(1)} = gap ${x.score.gap.toFixed(1)} + drain ${x.score.drainSpeed.toFixed(3)} + interruption ${x.score.interruption.toFixed(1)} + reclamation ${x.score.reclamation.toFixed(1)})` : '', '.') : null,
    more.answer && !x?.action ? h('p', {}, 'No change planned.') : null,
    x?.effectiveCosts?.length > 0 ? h('p', {}, 'With interruptions it would cost ', x.effectiveCosts.slice(0, 6).map((c, i) => [i > 0 ? ', ' : '', needLink(c.need), c.needs > 1 ? ` and ${count(c.needs - 1)} more` : '', ` ${typeof c.effectiveCost === 'number' ? `${money(c.effectiveCost)}/h` : 'too much: it must not be interrupted'}`]), '.') : null,
  ];
}

/** Why the machine was acquired: what it costs the Need, what it covers, and what would have come in its place. */
function chosen(m, more) {
  const covers = `It covers ${percent(m.covers)} of what ${m.need} asks for, and costs ${dollars(m.effective)}${m.effective > m.price ? ' with interruptions' : ''}.`;
  const x = more.answer?.free?.[m.id] ?? more.answer?.machines?.[m.id];
  if (!x?.acquire) return h('p', { 'data-key': 'chosen' }, covers, more.answer?.free ? ` If it were free now, the next cycle would ${x?.action ? `do something else with it: ${x.action}` : 'leave it idle'}.` : '');
  const parts = Object.entries(x.covers ?? {}).map(([name, part]) => `${percent(part)} of ${name}`).join(', ');
  return [h('p', { 'data-key': 'chosen' }, covers, more.answer.free?.[m.id] ? ' If it were free now, the next cycle would bind it' : ' It is acquired', x.for ? [' for ', needLink(x.for)] : '', ' by ', h('b', { title: acquire[x.acquire]?.hint }, acquire[x.acquire]?.label ?? x.acquire), parts ? ` (${parts})` : '', x.for && x.for !== m.need ? ': decided anew, a Need need not get the machines that it has now' : '', '. ',
    x.runnerUp ? ['The runner-up is ', to('machine', x.runnerUp), ` for ${dollars(x.runnerUpCost)}.`] : 'There is no runner-up: no free machine of another price or size covers it in its place.'), h('p.small', { 'data-key': 'rule' }, `By ${acquire[x.acquire]?.label ?? x.acquire}: ${acquire[x.acquire]?.hint ?? ''}.`)];
}

const CHEAPER_HEADS = [{ name: 'Machines', cls: 'num' }, { name: 'Why not', cls: 'wide' }, { name: 'From', cls: 'num' }, { name: 'Covers', cls: 'num' }, { name: 'One of them', cls: 'id' }];

function cheaper(m) {
  if (m.cheaper.length === 0) return h('p', {}, 'No machine of the fleet has a lower price.');
  const rows = m.cheaper.slice(0, 20).map((c) => tr([count(c.machines), c.suits ? h('b', {}, c.why) : c.why, `${money(c.price)}/h`, percent(c.covers), to('machine', c.example)], CHEAPER_HEADS, { key: c.why }));
  return table('Machines with a lower price, and why they do not serve this Need', CHEAPER_HEADS, rows);
}

function past(m) {
  if (m.history.length === 0) return h('p.faint', {}, 'Nothing in the cycles that are kept.');
  return h('ol.past', {}, m.history.map((e, i) => h('li', { 'data-key': `${e.cycle} ${e.did ? 'did' : 'moved'} ${i}` }, h('time', {}, moment(e.at)), ' ', e.did ? did(e.did) : moved(e.moved))));
}

const place = (state, cluster) => [state ? stateTag(state) : 'not listed', cluster ? [' in ', to('cluster', cluster)] : ''];

function moved(e) {
  if (!e.to && e.from !== 'Deleting') return [h('b', {}, 'Lost'), ': ', place(e.from, e.fromCluster), ' → the provider does not list it any more'];
  return [place(e.from, e.fromCluster), ' → ', place(e.to, e.toCluster === e.fromCluster ? '' : e.toCluster)];
}

/** From or for whom an action is: a Need and its cluster, or the cluster alone. */
const side = (word, need, cluster) => (need ? [`, ${word} `, needLink(need), ' of ', to('cluster', cluster)] : cluster ? [`, ${word} `, to('cluster', cluster)] : '');

function did(a) {
  return [h('b', {}, a.kind), `: ${rules[a.reason] ?? a.reason}`, side('from', a.fromNeed, a.from), side('for', a.forNeed, a.cluster), a.need ? ` (${a.need})` : '', a.plan ? [', ', to('plan', String(a.plan), 'its plan')] : '', a.error ? h('span.bad', {}, ` ${a.error}`) : ''];
}
