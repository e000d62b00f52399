// The map of the fleet, and which domain could hold a gang.

import { count, dollars } from './format.js';
import { h, morph } from './dom.js';
import { timed } from './frames.js';
import { domainLink, empty, several, table, tr } from './parts.js';
import { Fresh } from './query.js';
import { filter, go, linkTo, linkToTab, place } from './router.js';
import { hueOf, RackMap } from './rackmap.js';

const STATES = ['', 'Speculative', 'Creating', 'Idle', 'Configuring', 'Configured', 'Draining', 'Deleting', 'Failed'];
const OWNERS_MAX = 14;
const HEADS = [{ name: 'Domain', cls: 'id' }, { name: 'Machines', cls: 'num' }, { name: 'Idle', cls: 'num' }, { name: 'Bound', cls: 'num' }, { name: 'On their way', cls: 'num' }, { name: 'Can be bought', cls: 'num' }, { name: 'Clusters', cls: 'num' }, { name: 'Spend', cls: 'num' }];

export class Fleet {
  constructor(box, redraw) {
    this.redraw = redraw;
    this.layout = new Fresh(redraw);
    this.cells = new Fresh(() => {
      if (!this.frame()) redraw();
    });
    this.domains = new Fresh(redraw);
    this.build(box);
    this.map = new RackMap(this.canvas);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.frameBox);
    const theme = () => {
      this.map.colours();
      this.frame(true);
    };
    new MutationObserver(theme).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', theme);
    this.map.colours();
  }

  build(box) {
    this.now = h('p.now');
    this.keys = h('select', { id: 'map-key', onchange: () => filter({ key: this.keys.value, within: null }, true) });
    this.legend = h('div.chips', { role: 'group', 'aria-label': 'Show the machines of one cluster' });
    this.canvas = h('canvas', { role: 'img', tabindex: 0, 'aria-label': 'Map of the fleet' });
    this.tip = h('div.tip', { hidden: true });
    this.said = h('p.away', { 'aria-live': 'polite' });
    this.frameBox = h('div.map', {}, this.canvas, this.tip);
    this.hold = h('input', { id: 'gang-size', type: 'number', min: 1, max: 100000, value: 16, 'aria-label': 'Size of the gang in machines', oninput: () => { this.typed = this.hold.value; } });
    this.kind = h('select', { 'aria-label': 'Instance type of the gang' });
    const form = this.form = h('form.tools', { id: 'gang-form', onsubmit: (e) => {
      e.preventDefault();
      filter({ hold: this.hold.value, type: this.kind.value || null }, true);
    } }, h('label', { for: 'gang-size' }, 'Where would a gang of'), this.hold, 'machines of', this.kind, 'fit?', h('button', { type: 'submit' }, 'Show'), this.off = h('button', { type: 'button', onclick: () => filter({ hold: null, type: null }, true) }, 'Clear'));
    this.answer = h('p.lead');
    this.body = h('div.body');
    this.key = h('ul.marks', {}, ['hollow idle', 'full bound, deeper = higher priority', 'half draining', 'outline gang', 'red failed'].map((x) => h('li', {}, h(`i.${x.split(' ')[0]}`), x.slice(x.indexOf(' ') + 1))));
    box.append(
      h('section.panel.all', { id: 'map', 'aria-labelledby': 'map-h' }, h('header', {}, h('h2', { id: 'map-h' }, 'Map of the fleet'), this.now),
        this.keysBox = h('div.tools', {}, h('label', { for: 'map-key' }, 'by'), this.keys, this.legend), this.where = h('p.small'), this.frameBox, this.key, this.said),
      h('section.panel.all', { id: 'domains', 'aria-labelledby': 'domains-h' }, h('header', {}, h('h2', { id: 'domains-h' }, 'Domains')), form, this.answer, this.body));
  }

  listen() {
    const over = (e) => this.map.at(e.offsetX, e.offsetY);
    this.canvas.addEventListener('pointermove', (e) => this.point(over(e), e.offsetX, e.offsetY));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('click', (e) => this.open(over(e)));
    this.canvas.addEventListener('keydown', (e) => this.press(e));
  }

  /** The arrows go from square to square, Enter opens. */
  press(e) {
    const block = this.map.blocks && this.map.blockOf(this.map.picked ?? 0);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -block?.columns, ArrowDown: block?.columns }[e.key];
    if (e.key === 'Enter' && this.map.picked !== null) this.open(this.map.layout.aggregated ? { square: this.map.picked, value: this.map.layout.groups[this.map.picked].value } : { square: this.map.picked });
    if (!step || !this.map.shown) return;
    e.preventDefault();
    const before = this.map.picked;
    this.map.picked = Math.min(Math.max((before ?? -step) + step, 0), this.map.shown - 1);
    for (const i of [before, this.map.picked]) if (i !== null) this.map.square(i, true);
    this.said.textContent = this.words(this.map.picked);
  }

  words(i) {
    const x = this.map.about(i);
    if (!x) return '';
    if (x.machines !== undefined) return `${this.map.layout.groups[i].value}: ${several(x.machines, 'machine')}, ${count(x.bound)} bound, ${count(x.idle)} idle, ${count(x.moving)} on their way${x.owner ? `, most of ${x.owner}` : ''}`;
    return `${x.id}: ${STATES[x.state]}${x.owner ? `, ${x.owner}, priority ${count(x.priority)}` : ''}${x.gang ? ', in a gang' : ''}`;
  }

  point(hit, x, y) {
    this.tip.hidden = !hit;
    this.canvas.classList.toggle('hit', Boolean(hit));
    if (!hit) return;
    this.tip.textContent = hit.square === undefined ? hit.value : this.words(hit.square);
    this.tip.style.setProperty('left', `${Math.min(x + 12, Math.max(this.map.width - 240, 0))}px`);
    this.tip.style.setProperty('top', `${y + 14}px`);
  }

  open(hit) {
    if (!hit) return;
    if (hit.square !== undefined && !this.map.layout.aggregated) go(linkTo('machine', this.map.layout.ids[hit.square]));
    else if (this.map.layout.key && hit.value) go(linkTo('domain', `${this.map.layout.key}=${hit.value}`));
  }

  resize() {
    if (!this.layout.answer || !this.frameBox.clientWidth || this.frameBox.clientWidth === this.map.width) return;
    this.map.arrange(this.layout.answer, this.frameBox.clientWidth);
    this.frame(true);
  }

  update() {
    const f = place.filters;
    const of = { key: f.get('key'), within: f.get('within') };
    this.layout.want(['map', of], this.layout.answer && this.layout.answer.version === this.cells.answer?.version);
    this.cells.want(['cells', of]);
    this.domains.want(['domains', { key: f.get('key'), hold: f.get('hold'), type: f.get('type'), limit: 60 }]);
    this.drawMap();
    this.drawDomains();
  }

  drawMap() {
    const { answer: a, error } = this.layout;
    for (const x of [this.frameBox, this.keysBox, this.key]) x.hidden = !a && !this.map.layout;
    if (error || !a) {
      this.now.textContent = error?.message ?? 'Asking …';
      return;
    }
    if (this.map.layout !== a && this.frameBox.clientWidth) {
      this.map.arrange(a, this.frameBox.clientWidth);
      this.map.picked = null;
    }
    morph(this.keys, a.keys.map((k) => h('option', { value: k, 'data-key': k }, k)));
    if (document.activeElement !== this.keys) this.keys.value = a.key;
    this.now.textContent = a.machines > a.ids.length && !a.aggregated ? `${count(a.ids.length)} of ${several(a.machines, 'machine')}` : several(a.machines, 'machine');
    morph(this.where, [
      a.within ? [`Only ${a.within}. `, h('a', { href: linkToTab('fleet', { key: a.key }) }, 'Show all'), ' '] : null,
      a.aggregated ? 'A square is a domain, coloured by the cluster that has most of it and filled as far as its machines are bound. Click one for its machines.' : a.key ? '' : 'Demand names no racks or zones, so the machines stand in the order of their names.',
    ]);
    this.key.hidden = a.aggregated;
    const lit = place.filters.get('owner');
    const holding = this.holdingNow();
    const again = lit !== this.map.lit || holding.key !== this.holdingKey;
    this.map.lit = lit;
    this.map.holding = holding.values;
    this.holdingKey = holding.key;
    if (again || !this.map.cells) this.frame(true);
    this.drawLegend(lit);
  }

  /** The domains that could hold the gang that is asked about, without preemption. */
  holdingNow() {
    const a = this.domains.answer;
    if (!place.filters.get('hold') || !a) return { values: null, key: '' };
    const good = a.domains.filter((d) => d.holds === 'now').map((d) => d.value);
    return { values: new Set(good), key: good.join('\0') };
  }

  drawLegend(lit) {
    const owners = [...this.map.tally()];
    const shown = owners.slice(0, OWNERS_MAX);
    if (lit && !shown.some(([name]) => name === lit)) shown.push([lit, this.map.tally().get(lit) ?? 0]);
    morph(this.legend, [shown.map(([name, n]) => h('a.chip', { href: linkToTab('fleet', { ...Object.fromEntries(place.filters), owner: lit === name ? '' : name }), 'data-key': name, color: hueOf(name), 'aria-current': lit === name ? 'true' : null }, h('i'), h('span', {}, name), h('b', {}, count(n)))), owners.length > OWNERS_MAX ? h('span.faint', {}, `and ${count(owners.length - OWNERS_MAX)} more`) : null]);
  }

  /** A frame of the map: what has come is shown. Returns whether it is. */
  frame(again = false) {
    const layout = this.layout.answer, cells = this.cells.answer;
    if (!layout || !cells || this.map.layout !== layout || !this.map.width) return false;
    if (cells.version !== layout.version) {
      this.layout.restUntil = 0; // machines came or went: where they are is asked anew
      return false;
    }
    if (!again && this.last === cells) return true;
    this.last = cells;
    timed('map', () => this.map.show(cells, again));
    this.canvas.setAttribute('aria-label', `Map of the fleet: ${this.now.textContent}. The arrow keys go from square to square; the table below has the same by domain.`);
    return true;
  }

  drawDomains() {
    const { answer: a, error } = this.domains;
    this.form.hidden = Boolean(error && !a);
    if (error || !a) {
      this.answer.hidden = true;
      return morph(this.body, [h('p.empty', {}, error?.message ?? 'Asking …')]);
    }
    morph(this.kind, [h('option', { value: '' }, 'any type'), a.types.map((t) => h('option', { value: t, 'data-key': t }, t))]);
    const f = place.filters, hold = f.get('hold');
    if (document.activeElement !== this.hold) this.hold.value = hold || this.typed || Math.max(Math.min(16, Math.max(...a.domains.map((d) => d.machines + d.speculative), 0)), 1);
    if (document.activeElement !== this.kind) this.kind.value = f.get('type') ?? '';
    this.off.hidden = !hold;
    const now = a.domains.filter((d) => d.holds === 'now').length;
    this.answer.hidden = !hold;
    morph(this.answer, hold ? [now > 0 ? h('b', {}, `${several(now, 'domain')} could hold it now`) : h('b.bad', {}, 'No domain could hold it now'), `; ${count(a.holding)} of ${count(a.total)} could, counting machines that drain, can be bought or can be taken from others.`] : []);
    const heads = hold ? [HEADS[0], { name: `A gang of ${count(Number(hold))}`, cls: 'wide' }, ...HEADS.slice(1)] : HEADS;
    const row = (d) => {
      const cells = [domainLink(a.key, d.value), count(d.machines), count(d.idle), count(d.bound), count(d.moving), count(d.speculative), count(d.clusters), dollars(d.spend)];
      if (hold) cells.splice(1, 0, holds(d));
      return tr(cells, heads, { key: d.value, open: `domain/${a.key}=${d.value}` });
    };
    morph(this.body, [a.domains.length > 0 ? table('Domains', heads, a.domains.map(row)) : empty('Machines are not grouped: no demand names racks or zones.'), a.total > a.domains.length ? h('p.small', {}, `and ${count(a.total - a.domains.length)} more`) : null]);
  }
}

function holds(d) {
  switch (d.holds) {
    case 'now': return h('b.met', {}, 'now: enough are idle');
    case 'drains': return 'when what is on its way is free';
    case 'buys': return 'with machines that can be bought';
    case 'preempts': return `by preemption, with a priority above ${count(d.above ?? 0)}`;
    default: return h('span.faint', {}, 'never: it is too small');
  }
}

