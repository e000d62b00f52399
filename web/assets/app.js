// Wires the store to the panels. Drawing happens at most once per frame of the
// screen, only while the page is visible and not held.

import { Chart } from './chart.js';
import { Demand } from './demand.js';
import { Recent, Unmet } from './lists.js';
import { Region } from './region.js';
import { Tiles } from './tiles.js';
import { Store } from './store.js';
import { count, dollars, millis, money, rate, short, span } from './format.js';
import { find, text } from './dom.js';
import { capacity, kinds, phases, states } from './names.js';

// The orders of the arrays in the feed; the server sends them too, and the page
// refuses to draw when they differ.
const ORDER = {
  states: ['Speculative', 'Creating', 'Idle', 'Configuring', 'Configured', 'Draining', 'Deleting', 'Failed'],
  kinds: ['Bootstrap', 'Provision', 'Preempt', 'Reclaim', 'Delete'],
  phases: ['reconcile', 'snapread', 'phase1', 'phase2', 'phase3', 'emit', 'execute'],
  capacityTypes: ['Unspecified', 'BareMetal', 'Reserved', 'OnDemand', 'Spot'],
};

/** Series in the order of a table of names, with a picker for their values. */
function series(table, order, field) {
  const keys = Object.keys(table);
  const at = keys.map((k) => order.indexOf(k));
  return {
    series: keys.map((key) => ({ key, ...table[key] })),
    values: (row) => at.map((i) => row[field][i]),
  };
}

/** Percentiles over the last cycles, in the order of the legend. */
const phaseTimes = (field) => Object.keys(phases).map((k) => store.window?.[field][ORDER.phases.indexOf(k)] ?? 0);

let seconds = 600, held = false, queued = false;
const store = new Store(redraw);

const charts = [
  new Chart(find('#machines'), {
    ...series(states, ORDER.states, 'm'), name: 'Machines by state', how: 'last', whole: true,
    format: count, axis: short, total: (v) => `${count(v)} machines`,
    empty: 'Waiting for the first cycle.',
  }),
  new Chart(find('#actions'), {
    ...series(kinds, ORDER.kinds, 'a'), name: 'Actions per second by kind', how: 'mean', step: true, clip: true,
    format: rate, axis: short, total: (v) => `${rate(v)}/s`,
    empty: 'Waiting for the first cycle.',
  }),
  new Chart(find('#cycle'), {
    ...series(phases, ORDER.phases, 'p'), name: 'Cycle time by phase', how: 'max', step: true, clip: true,
    format: millis, axis: (v) => (v === 0 ? '0' : `${short(v)} ms`), total: millis,
    marks: () => (store.window?.cycles > 1 ? [{ value: store.window.p50, label: `p50 ${millis(store.window.p50)}` }, { value: store.window.p99, label: `p99 ${millis(store.window.p99)}` }] : []),
    extra: () => [{ name: 'p50', values: phaseTimes('phasesP50') }, { name: 'p99', values: phaseTimes('phasesP99') }],
    empty: 'Waiting for the first cycle.',
  }),
  new Chart(find('#spend'), {
    ...series(capacity, ORDER.capacityTypes, 's'), name: 'Spend per hour by capacity type', how: 'last',
    format: money, axis: (v) => `$${short(v)}`, total: dollars,
    empty: 'Waiting for the first cycle.',
  }),
];
const tiles = new Tiles(find('#tiles'));
const demand = new Demand(find('#demand'));
const unmet = new Unmet(find('#unmet'), redraw);
const recent = new Recent(find('#recent'), redraw);
const region = new Region(find('#region'));

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    if (!document.hidden) draw();
  });
}

function draw() {
  head();
  if (held || (store.frame && !store.info)) return; // an event may come before the state
  for (const c of charts) c.update(store.rows, seconds);
  tiles.update(store, seconds);
  demand.update(store, seconds);
  unmet.update(store);
  recent.update(store);
  region.update(store);
}

const LINKS = {
  connecting: ['connecting', 'wait'], live: ['live', 'ok'], reconnecting: ['reconnecting …', 'wait'],
  stopped: ['process stopped, waiting for it', 'bad'],
};
const STALL_CYCLES = 5; // without an event for so many cycles the loop counts as stalled

function head() {
  const stalledFor = store.info ? Date.now() - store.heard : 0;
  const limit = Math.max((store.info?.cycleInterval ?? 1000) * STALL_CYCLES, 5000);
  let [words, mood] = LINKS[store.link];
  if (store.link === 'live' && stalledFor > limit) [words, mood] = [`no cycle for ${span(stalledFor / 1000)}`, 'bad'];
  if (held) [words, mood] = ['held', 'wait'];
  const live = find('#live');
  text(live, words);
  live.dataset.mood = mood;
  const mode = find('#mode');
  mode.hidden = !store.frame?.mode;
  text(mode, store.frame?.mode ?? '');
  text(find('#source'), [store.info?.source, store.frame?.progress].filter(Boolean).join(' · '));
  if (!store.info) return;
  text(find('#about'), [`Tonnage ${store.info.version}`, `cycle every ${span(store.info.cycleInterval / 1000)}`, store.info.provider].filter(Boolean).join(' · '));
  const strange = Object.keys(ORDER).find((k) => ORDER[k].join() !== store.info[k].join());
  if (strange) location.reload(); // the process was upgraded under an open page
}

find('#window').addEventListener('change', (e) => { seconds = Number(e.target.value); redraw(); });
find('#hold').addEventListener('click', (e) => {
  held = !held;
  e.target.setAttribute('aria-pressed', String(held));
  text(e.target, held ? 'Resume' : 'Hold');
  redraw();
});

const root = document.documentElement, system = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : system.matches);
const nameTheme = () => text(find('#theme'), isDark() ? 'Light' : 'Dark');
find('#theme').addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark';
  try { localStorage.setItem('tonnage.theme', root.dataset.theme); } catch { /* holds for this visit only */ }
  nameTheme();
});
system.addEventListener('change', nameTheme);
nameTheme();

document.addEventListener('visibilitychange', redraw);
setInterval(redraw, 1000); // uptime and the age of the connection go on by themselves
redraw();
store.start();
