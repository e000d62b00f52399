// Wires the store to the panels. Drawing happens at most once per frame of the
// screen, only while the page is visible and not held.

import { Changes } from './changes.js';
import { Chart } from './chart.js';
import { Clusters } from './clusters.js';
import { Demand } from './demand.js';
import { Drawer } from './drawer.js';
import { Fleet } from './fleet.js';
import { timed } from './frames.js';
import { Recent, Unmet } from './lists.js';
import { Money } from './money.js';
import { Needs } from './needs.js';
import { Region } from './region.js';
import { pace } from './query.js';
import { filter, go, linkTo, linkToTab, onPlace, place } from './router.js';
import { Search } from './search.js';
import { Slow } from './engine.js';
import { Store } from './store.js';
import { Tiles } from './tiles.js';
import { Verdict } from './verdict.js';
import { WhatIf } from './whatif.js';
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
const phaseTimes = (field) => Object.keys(phases).map((k) => shown.window?.[field][ORDER.phases.indexOf(k)] ?? 0);

let queued = false;
let shown = null; // what is drawn: the store, or how it was when the page was held
const WINDOWS = ['120', '600', '3600', '86400'];
const seconds = () => Number(WINDOWS.includes(place.filters.get('window')) ? place.filters.get('window') : 600);
const store = new Store(redraw);
shown = store;

const charts = {
  machines: new Chart(find('#machines'), {
    ...series(states, ORDER.states, 'm'), name: 'Machines by state', how: 'last', whole: true,
    format: count, axis: short, total: (v) => `${count(v)} machines`,
    empty: 'Waiting for the first cycle.',
  }),
  actions: new Chart(find('#actions'), {
    ...series(kinds, ORDER.kinds, 'a'), name: 'Actions per second by kind', how: 'mean', step: true, clip: true,
    format: rate, axis: short, total: (v) => `${rate(v)}/s`,
    empty: 'Waiting for the first cycle.',
  }),
  cycle: new Chart(find('#cycle'), {
    ...series(phases, ORDER.phases, 'p'), name: 'Cycle time by phase', how: 'max', step: true, clip: true,
    format: millis, axis: (v) => (v === 0 ? '0' : `${short(v)} ms`), total: millis,
    marks: () => (shown.window?.cycles > 1 ? [{ value: shown.window.p50, label: `p50 ${millis(shown.window.p50)}` }, { value: shown.window.p99, label: `p99 ${millis(shown.window.p99)}` }] : []),
    extra: () => [{ name: 'p50', values: phaseTimes('phasesP50') }, { name: 'p99', values: phaseTimes('phasesP99') }],
    empty: 'Waiting for the first cycle.',
  }),
  spend: new Chart(find('#spend'), {
    ...series(capacity, ORDER.capacityTypes, 's'), name: 'Spend per hour by capacity type', how: 'last',
    format: money, axis: (v) => `$${short(v)}`, total: dollars,
    empty: 'Waiting for the first cycle.',
  }),
};
const tiles = new Tiles(find('#tiles'));
const demand = new Demand(find('#demand'));
const unmet = new Unmet(find('#unmet'), redraw);
const recent = new Recent(find('#recent'));
const region = new Region(find('#region'));
const verdict = new Verdict(find('#verdict'), redraw);
const drawer = new Drawer(find('#drawer'), redraw);
const box = (tab) => find(`[data-view=${tab}]`);

/** What each tab shows. A view is made when it is first looked at. */
const views = {
  overview: () => ({ update: () => {
    verdict.update(shown);
    charts.machines.update(shown.rows, seconds());
    charts.spend.update(shown.rows, seconds());
    tiles.update(shown, seconds());
    demand.update(shown, seconds());
    unmet.update(shown);
    recent.update(shown);
    region.update(shown);
  } }),
  needs: () => new Needs(box('needs'), redraw),
  fleet: () => new Fleet(box('fleet'), redraw),
  clusters: () => new Clusters(box('clusters'), redraw),
  money: () => new Money(box('money'), redraw),
  changes: () => new Changes(box('changes'), redraw),
  engine: () => {
    const slow = new Slow(find('#slow'), redraw);
    return { update: () => {
      charts.cycle.update(shown.rows, seconds());
      charts.actions.update(shown.rows, seconds());
      slow.update(shown);
    } };
  },
  whatif: () => new WhatIf(box('whatif'), redraw),
  search: () => new Search(box('search'), redraw),
};
const made = new Map();

function view(tab) {
  if (!made.has(tab)) made.set(tab, views[tab]());
  return made.get(tab);
}

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    if (!document.hidden) draw();
  });
}

function draw() {
  timed('draw', () => {
    head();
    tabs();
    if (!store.info && store.frame) return; // an event may come before the state
    view(place.tab).update(shown);
    drawer.update(shown);
  });
}

function tabs() {
  for (const a of document.querySelectorAll('.tabs a')) {
    if (a.dataset.tab === place.tab) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  for (const v of document.querySelectorAll('.view')) v.hidden = v.dataset.view !== place.tab;
  const shown = String(seconds());
  for (const x of document.querySelectorAll('#window input')) x.checked = x.value === shown;
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
  if (pace.held) [words, mood] = ['frozen', 'wait'];
  const live = find('#live');
  text(live, words);
  live.dataset.mood = mood;
  const mode = find('#mode');
  mode.hidden = !store.frame?.mode;
  text(mode, store.frame?.mode ?? '');
  text(find('#source'), [store.info?.source, store.frame?.progress].filter(Boolean).join(' · '));
  if (!store.info) return;
  text(find('#about'), [`Tonnage ${store.info.version}`, `a cycle every ${span(store.info.cycleInterval / 1000)}, and when something changes`, store.info.provider].filter(Boolean).join(' · '));
  const strange = Object.keys(ORDER).find((k) => ORDER[k].join() !== store.info[k].join());
  if (strange) location.reload(); // the process was upgraded under an open page
}

find('#window').addEventListener('change', (e) => filter({ window: e.target.value === '600' ? null : e.target.value }));
find('#hold').addEventListener('click', (e) => {
  pace.held = !pace.held;
  const now = store.now();
  shown = pace.held ? { ...store, rows: [...store.rows], now: () => now } : store;
  e.target.setAttribute('aria-pressed', String(pace.held));
  text(e.target, pace.held ? 'Resume' : 'Freeze');
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

// A click on a row opens what it is about, unless it was on something of its own or selected a text.
document.addEventListener('click', (e) => {
  const row = e.target.closest('tr[data-open]');
  if (!row || e.target.closest('a, button, input, select, summary') || String(getSelection())) return;
  const at = row.dataset.open.indexOf('/');
  go(linkTo(row.dataset.open.slice(0, at), row.dataset.open.slice(at + 1)));
});

find('.skip').addEventListener('click', (e) => {
  e.preventDefault(); // the fragment is the page's own address
  find('.view:not([hidden]) .panel')?.scrollIntoView();
  find('#unmet').focus();
});

find('#search').addEventListener('submit', (e) => {
  e.preventDefault();
  go(linkToTab('search', { q: find('#search-q').value }));
});

/** The field says what was searched for, and nothing elsewhere. */
function searched() {
  const field = find('#search-q');
  if (document.activeElement !== field || place.tab !== 'search') field.value = place.tab === 'search' ? place.filters.get('q') ?? '' : '';
}

onPlace(() => {
  searched();
  window.scrollTo({ top: place.tab === lastTab ? window.scrollY : 0 });
  lastTab = place.tab;
  redraw();
});
let lastTab = place.tab;
searched();

document.addEventListener('visibilitychange', redraw);
setInterval(redraw, 1000); // uptime and the age of the connection go on by themselves
redraw();
store.start();
