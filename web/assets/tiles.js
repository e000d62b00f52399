// The row of figures at the top.

import { count, dollars, millis, percent, rate, span } from './format.js';
import { find, h, text } from './dom.js';
import { spark } from './chart.js';
import { domain, sum } from './scale.js';

const SPARK_POINTS = 60;
const hosts = (m) => sum(m) - m[0]; // all but Speculative, which comes first

/** Actions per second, over the last ten seconds. */
function recently(rows) {
  const last = rows.slice(-10);
  return last.length > 0 ? sum(last.map((r) => sum(r.a))) / last.length : 0;
}

/** label, then from the store: the figure, what stands below it, its line. */
const tiles = [
  {
    key: 'machines', label: 'Machines', color: '--blue',
    value: (st) => count(hosts(st.frame.machines)),
    below: (st) => (st.frame.machines[0] > 0 ? `${count(st.frame.machines[0])} can be bought` : 'none can be bought'),
    title: 'Machines in every state but Speculative; slots are quota that could become machines',
    line: (r) => hosts(r.m),
  },
  {
    key: 'clusters', label: 'Clusters',
    value: (st) => count(st.frame.clusters),
    below: (st) => `${count(st.frame.rows)} rows`,
    title: 'Clusters with demand, and the rows of their roll-ups',
  },
  {
    key: 'satisfied', label: 'Needs satisfied', color: '--teal',
    value: (st) => (st.frame.needs > 0 ? percent(st.frame.satisfied / st.frame.needs) : '–'),
    below: (st) => (st.frame.needs === 0 ? 'nothing is asked for' : st.frame.needs > st.frame.satisfied ? `${count(st.frame.needs - st.frame.satisfied)} of ${count(st.frame.needs)} unmet` : `all of ${count(st.frame.needs)}`),
    title: 'Needs whose whole aggregate is covered; rows that one machine can serve fold into one Need',
    line: (r) => (r.n > 0 ? r.ok / r.n : 0),
  },
  {
    key: 'cycle', label: 'Cycle', color: '--purple',
    value: (st) => millis(st.frame.cycleMs),
    below: (st) => `p99 ${millis(st.window.p99)}`,
    title: 'The last cycle, and the 99th percentile of the last 600',
    line: (r) => sum(r.p),
  },
  {
    key: 'actions', label: 'Actions', color: '--orange',
    value: (st) => `${rate(recently(st.rows))}/s`,
    below: (st) => `${count(st.frame.actionsTotal)} so far`,
    title: 'Actions started per second over the last ten seconds, and since the start',
    line: (r) => sum(r.a),
  },
  {
    key: 'flight', label: 'In flight',
    value: (st) => count(st.frame.inFlight),
    below: (st) => (st.frame.faults > 0 ? `${count(st.frame.faults)} failed so far` : 'none failed'),
    title: 'Actions that the provider is working on, and those that ended in an error',
  },
  {
    key: 'spend', label: 'Spend', color: '--gold',
    value: (st) => dollars(sum(st.frame.spend)),
    below: (st) => (sum(st.frame.spend) > 0 ? `${percent(st.frame.spend[4] / sum(st.frame.spend))} of it spot` : 'nothing is paid for'),
    title: 'List price of everything that has a host or is getting one',
    line: (r) => sum(r.s),
  },
  {
    key: 'uptime', label: 'Uptime',
    value: (st) => span((st.now() - st.info.started) / 1000),
    below: (st) => `cycle ${count(st.frame.cycle)}`,
    title: 'Since the process started',
  },
];

export class Tiles {
  constructor(list) {
    this.parts = tiles.map((tile) => {
      const parts = { value: h('dd.value', {}, '–'), below: h('dd.below'), line: h('dd.line', { 'aria-hidden': 'true' }) };
      list.append(h('div.tile', { id: `tile-${tile.key}`, title: tile.title }, h('dt', {}, tile.label), parts.value, parts.below, parts.line));
      return parts;
    });
  }

  update(store, seconds) {
    if (!store.frame) return;
    const span = domain(store.rows, seconds);
    const rows = store.rows.filter((r) => r.t >= span.from);
    const stride = Math.max(Math.ceil(rows.length / SPARK_POINTS), 1);
    const thin = rows.filter((_, i) => (rows.length - 1 - i) % stride === 0);
    tiles.forEach((tile, i) => {
      text(this.parts[i].value, tile.value(store));
      text(this.parts[i].below, tile.below(store));
      if (tile.line) this.parts[i].line.replaceChildren(spark(thin.map(tile.line), thin.map((r) => (r.t - span.from) / (span.to - span.from)), 100, 22, tile.color));
    });
    const short = store.frame.satisfied < store.frame.needs;
    find('#tile-satisfied').classList.toggle('short', short);
    document.title = short ? `${percent(store.frame.satisfied / store.frame.needs)} satisfied · Tonnage` : 'Tonnage';
  }
}
