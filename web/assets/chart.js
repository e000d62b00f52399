// A stacked chart over time, drawn by hand in SVG: axes with units, a legend
// that shows the values and hides series, a cursor that all charts share, and a
// table for those who would rather read.

import { clock, span } from './format.js';
import { find, h, s, text } from './dom.js';
import { columns, domain, quantile, sum, ticks, timeTicks } from './scale.js';

const TOP = 12, BOTTOM = 20, RIGHT = 6, PIXELS_PER_COLUMN = 1.5;
const CLIP_FACTOR = 4; // a column this much above the others is cut, and marked
const CLIP_LABEL_COLUMNS = 5; // a run wider than this also says its peak

/** The moment under the pointer, the same for all charts; null = now. */
export const cursor = {
  t: null,
  charts: new Set(),
  set(t) {
    if (this.t === t) return;
    this.t = t;
    for (const c of this.charts) c.point();
  },
};

/**
 * options: series [{key, label, color, hint, off}], bottom of the stack first;
 * values(row) in their order; how to thin (last, mean, max); step; clip; whole;
 * format(v) for read-outs, axis(v) for ticks; total(v) for the panel's head;
 * marks() [{value, label}]; empty text; name for assistive technology.
 */
export class Chart {
  constructor(panel, options) {
    this.o = options;
    this.off = new Set(options.series.filter((x) => x.off).map((x) => x.key));
    this.now = find('.now', panel);
    this.plot = h('div.plot', { tabindex: 0, role: 'group', 'aria-label': `${options.name}; arrow keys read past values` });
    this.said = h('p.away', { 'aria-live': 'polite' });
    this.legend = h('ul.legend');
    this.twin = h('details.twin', { ontoggle: () => this.table() }, h('summary', {}, 'Table'));
    panel.append(this.plot, this.legend, this.twin, this.said);
    this.items = options.series.map((series) => this.item(series));
    this.svg = s('svg', { role: 'img', 'aria-label': `${options.name}: no figures yet` });
    this.plot.append(this.svg);
    this.listen();
    cursor.charts.add(this);
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  item(series) {
    const value = h('span.value');
    const button = h('button', {
      type: 'button', title: series.hint, color: series.color, 'aria-pressed': String(!this.off.has(series.key)),
      onclick: () => this.toggle(series.key, button),
    }, h('i'), h('span.label', {}, series.label ?? series.key), value);
    this.legend.append(h('li', {}, button));
    return value;
  }

  toggle(key, button) {
    if (!this.off.delete(key)) this.off.add(key);
    button.setAttribute('aria-pressed', String(!this.off.has(key)));
    this.draw();
  }

  listen() {
    this.plot.addEventListener('pointermove', (e) => {
      if (!this.x || this.cols.length === 0) return;
      cursor.set(this.nearest(e.clientX - this.svg.getBoundingClientRect().left).t);
    });
    this.plot.addEventListener('pointerleave', () => cursor.set(null));
    this.plot.addEventListener('blur', () => cursor.set(null));
    this.plot.addEventListener('keydown', (e) => this.key(e));
  }

  key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[e.key];
    if (e.key === 'Escape') cursor.set(null);
    if (!step || !this.cols?.length) return;
    e.preventDefault();
    const here = cursor.t === null ? this.cols.length - 1 : this.cols.indexOf(this.at(cursor.t));
    const col = this.cols[Math.min(Math.max(here + step, 0), this.cols.length - 1)];
    cursor.set(col.t);
    text(this.said, `${clock(col.t)}: ${this.sentence(col.v)}`);
  }

  nearest(px) {
    return this.cols.reduce((a, b) => (Math.abs(this.x(b.t) - px) < Math.abs(this.x(a.t) - px) ? b : a));
  }

  at(t) {
    return this.cols.reduce((a, b) => (Math.abs(b.t - t) < Math.abs(a.t - t) ? b : a));
  }

  update(rows, seconds) {
    this.rows = rows;
    this.seconds = seconds;
    this.draw();
  }

  draw() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!this.rows || width === 0) return;
    const time = domain(this.rows, this.seconds);
    this.svg.replaceChildren();
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.cols = time ? columns(this.rows, time, width / PIXELS_PER_COLUMN, this.o.values, this.o.how) : [];
    if (this.cols.length === 0) return this.blank();
    find('.empty', this.plot)?.remove();
    this.frame(time, width, height);
    this.stack();
    this.marks(width);
    this.line = s('g.cursor');
    this.svg.append(this.line);
    this.svg.setAttribute('aria-label', `${this.o.name}, now: ${this.sentence(this.cols.at(-1).v)}`);
    this.point();
    if (this.twin.open) this.table();
  }

  blank() {
    this.x = null;
    if (!find('.empty', this.plot)) this.plot.append(h('p.empty', {}, this.o.empty));
    text(this.now, '');
  }

  /** Scales, grid and axes. */
  frame(span, width, height) {
    const totals = this.cols.map((c) => this.total(c.v));
    const peak = Math.max(...totals, ...this.lines().map((m) => m.value));
    const usual = this.o.clip ? quantile(totals, 0.9) : peak;
    this.clipped = usual > 0 && peak > usual * CLIP_FACTOR;
    const steps = ticks(this.clipped ? usual * 2 : peak, height > 220 ? 6 : 4, this.o.whole);
    this.top = steps.at(-1);
    const left = 10 + Math.max(...steps.map((v) => this.o.axis(v).length)) * 6.6;
    this.x = (t) => left + ((t - span.from) / (span.to - span.from)) * (width - left - RIGHT);
    this.y = (v) => TOP + (1 - Math.min(v / this.top, 1)) * (height - TOP - BOTTOM);
    const grid = s('g.grid');
    for (const v of steps) {
      grid.append(s('line', { x1: left, x2: width - RIGHT, y1: this.y(v), y2: this.y(v) }));
      grid.append(s('text', { x: left - 6, y: this.y(v) + 3.5, 'text-anchor': 'end' }, this.o.axis(v)));
    }
    const times = timeTicks(span.from, span.to, Math.max(width / 90, 2));
    for (const t of times.at) {
      const edge = this.x(t) > width - 26 ? 'end' : this.x(t) < left + 14 ? 'start' : 'middle';
      grid.append(s('line.tick', { x1: this.x(t), x2: this.x(t), y1: this.y(0), y2: this.y(0) + 4 }));
      grid.append(s('text', { x: edge === 'end' ? width - 2 : this.x(t), y: height - 4, 'text-anchor': edge }, clock(t, times.step < 60e3)));
    }
    this.svg.append(grid);
  }

  total(v) {
    return v.reduce((a, x, i) => (this.off.has(this.o.series[i].key) ? a : a + x), 0);
  }

  /** The areas, bottom first, and a mark on every column that was cut. */
  stack() {
    const low = this.cols.map(() => 0);
    this.o.series.forEach((series, i) => {
      if (this.off.has(series.key)) return;
      const high = this.cols.map((c, k) => low[k] + c.v[i]);
      if (high.some((v, k) => v > low[k])) {
        this.svg.append(s(this.o.step ? 'path.area.step' : 'path.area', { d: this.area(low, high), color: series.color }));
      }
      high.forEach((v, k) => { low[k] = v; });
    });
    if (this.clipped) this.cuts(low);
  }

  /** One mark, with the peak, for each run of columns that were cut. */
  cuts(totals) {
    for (let k = 0; k < totals.length; k++) {
      if (totals[k] <= this.top) continue;
      const first = k;
      while (totals[k + 1] > this.top) k++;
      const peak = Math.max(...totals.slice(first, k + 1));
      const x = (this.x(this.cols[first].t) + this.x(this.cols[k].t)) / 2;
      this.svg.append(s('path.cut', { d: `M${x - 4} ${TOP - 2}l4 -6l4 6z` }));
      if (k - first > CLIP_LABEL_COLUMNS) this.svg.append(s('text.mark', { x: x + 8, y: TOP - 1 }, this.o.format(peak)));
    }
  }

  area(low, high) {
    const up = [], down = [];
    this.cols.forEach((c, k) => {
      const x = this.x(c.t).toFixed(1);
      // A step shows what was measured at a time and not a way from one
      // measurement to the next.
      if (this.o.step && k > 0) {
        const before = this.x(this.cols[k - 1].t).toFixed(1);
        up.push(`${before} ${this.y(high[k]).toFixed(1)}`);
        down.push(`${before} ${this.y(low[k]).toFixed(1)}`);
      }
      up.push(`${x} ${this.y(high[k]).toFixed(1)}`);
      down.push(`${x} ${this.y(low[k]).toFixed(1)}`);
    });
    return `M${up.join('L')}L${down.reverse().join('L')}Z`;
  }

  lines() { return this.o.marks?.() ?? []; }

  marks(width) {
    let free = Infinity; // labels must not lie on one another
    for (const m of this.lines().sort((a, b) => a.value - b.value)) {
      const y = this.y(m.value);
      const at = Math.min(y - 4, free - 12);
      free = at;
      const above = m.value > this.top; // beyond what the axis shows
      if (!above) this.svg.append(s('line.mark', { x1: this.x(this.cols[0].t), x2: width - RIGHT, y1: y, y2: y }));
      this.svg.append(s('text.mark', { x: width - RIGHT - 2, y: above ? TOP + 12 : Math.max(at, 9), 'text-anchor': 'end' }, above ? `${m.label} ↑` : m.label));
    }
  }

  /** Read-outs, at the cursor or now. */
  point() {
    if (!this.x || !this.line) return;
    const col = cursor.t === null ? this.cols.at(-1) : this.at(cursor.t);
    this.line.replaceChildren();
    if (cursor.t !== null) {
      const x = this.x(col.t);
      this.line.append(s('line', { x1: x, x2: x, y1: TOP, y2: this.y(0) }));
    }
    col.v.forEach((v, i) => text(this.items[i], this.o.format(v)));
    text(this.now, this.o.total(this.total(col.v)) + (cursor.t === null ? this.reach() : ` at ${clock(col.t)}`));
  }

  /** How far back the chart reaches, where that is less than what was chosen. */
  reach() {
    const has = (this.cols.at(-1).t - this.cols[0].t) / 1000;
    return has < 0.9 * this.seconds ? ` · the last ${span(has)}` : '';
  }

  sentence(v) {
    return this.o.series.map((x, i) => `${x.label ?? x.key} ${this.o.format(v[i])}`).join(', ');
  }

  /** The same figures as a table, over the time shown. */
  table() {
    if (!this.twin.open || !this.cols?.length) return;
    const extra = this.o.extra?.() ?? [];
    const head = h('tr', {}, ['series', 'now', 'least', 'mean', 'most', ...extra.map((e) => e.name)].map((t) => h('th', { scope: 'col' }, t)));
    const rows = this.o.series.map((series, i) => {
      const all = this.cols.map((c) => c.v[i]);
      const figures = [all.at(-1), Math.min(...all), sum(all) / all.length, Math.max(...all), ...extra.map((e) => e.values[i])];
      return h('tr', {}, h('th', { scope: 'row' }, series.label ?? series.key), figures.map((v) => h('td', {}, this.o.format(v))));
    });
    const table = h('table', {}, h('caption.away', {}, `${this.o.name} over the time shown`), h('thead', {}, head), h('tbody', {}, rows));
    this.twin.replaceChildren(find('summary', this.twin), table);
  }
}

/** A small line without axes, its points at parts of the width; the caller
 *  gives it words. */
export function spark(values, parts, width, height, color) {
  const top = Math.max(...values, 1e-9);
  const at = values.map((v, i) => `${(parts[i] * width).toFixed(1)} ${(height - 1 - (v / top) * (height - 2)).toFixed(1)}`);
  const svg = s('svg.spark', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', color });
  if (values.length > 1) {
    svg.append(s('path.fill', { d: `M${(parts[0] * width).toFixed(1)} ${height}L${at.join('L')}L${(parts.at(-1) * width).toFixed(1)} ${height}Z` }));
    svg.append(s('path', { d: `M${at.join('L')}` }));
  }
  return svg;
}
