// The squares of the map, drawn on a canvas. A frame draws only the squares that have changed.
//
// A square of a machine is filled by its cluster's colour, deeper the higher the priority; one that belongs to
// nobody is hollow. Squares of one gang have one outline. In place of more machines than can be
// drawn there is a square for each domain, filled as far as its machines are bound.

const BLOCK_GAP = 5, LABEL_HEIGHT = 13, LABELS_MAX = 80, HEIGHT_WANTED = 560;
const SIZE_MAX = 18, SIZE_MIN = 3;
const MACHINE_BYTES = 6, DOMAIN_BYTES = 10;
// The states by number: those of nobody, on the way, and failed.
const IDLE = 3, FAILED = 8, DRAINING = 6, ON_ITS_WAY = new Set([2, 4, 7]);
const HUES = ['--blue', '--rose', '--gold', '--purple', '--slate', '--sky', '--orange', '--teal'];
const REDRAW_SHARE = 0.3; // beyond this part of changed squares all are drawn

const given = new Map();
const GIVEN_MAX = 10_000;

/** The colour variable of a cluster: as long as the page is open the same. The first ones all differ. */
export function hueOf(name) {
  if (!given.has(name)) {
    if (given.size >= GIVEN_MAX) given.clear();
    given.set(name, HUES[given.size % HUES.length]);
  }
  return given.get(name);
}

export class RackMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.paper = canvas.getContext('2d', { alpha: false });
    this.layout = null;
    this.cells = null;
    this.lit = null; // owner whose squares stand out
    this.holding = null; // values of domains that are marked
    this.picked = null; // square that is marked
  }

  /** Another arrangement of squares, for so many pixels of width. */
  arrange(layout, width) {
    this.layout = layout;
    const n = layout.aggregated ? layout.groups.length : layout.ids.length;
    this.labels = !layout.aggregated && layout.groups.length <= LABELS_MAX && layout.key !== '';
    let size = SIZE_MAX;
    while (size > SIZE_MIN && this.place(width, size) > HEIGHT_WANTED) size--;
    this.height = Math.max(this.place(width, size), 40) + 4;
    this.size = size;
    this.width = width;
    this.count = n;
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.setProperty('height', `${this.height}px`);
    this.paper.setTransform(scale, 0, 0, scale, 0, 0);
    this.cells = null;
  }

  /** Places all squares; returns the height that they take. */
  place(width, size) {
    const step = size + 1;
    const groups = this.layout.aggregated ? [{ value: '', count: this.layout.groups.length }] : this.layout.groups;
    const total = groups.reduce((a, g) => a + g.count, 0);
    this.xs = new Uint16Array(total);
    this.ys = new Uint32Array(total);
    this.blocks = [];
    let x = 2, y = 2, tall = 0, at = 0; // room for a frame around a block
    const top = this.labels ? LABEL_HEIGHT : 0;
    for (const g of groups) {
      const most = Math.max(Math.floor((width - 4) / step), 1);
      let columns = Math.min(Math.ceil(Math.sqrt(g.count)), most);
      if (g.count > 400) columns = most; // a wide block wraps as text does
      if (this.labels) columns = Math.min(Math.max(columns, Math.ceil(46 / step)), most);
      const rows = Math.ceil(g.count / columns);
      const w = columns * step, hgt = rows * step + top;
      if (x > 2 && x + w > width) {
        x = 2;
        y += tall + BLOCK_GAP;
        tall = 0;
      }
      this.blocks.push({ x, y, w, h: hgt, top, columns, from: at, count: g.count, value: g.value });
      for (let i = 0; i < g.count; i++) {
        this.xs[at + i] = x + (i % columns) * step;
        this.ys[at + i] = y + top + Math.floor(i / columns) * step;
      }
      at += g.count;
      x += w + BLOCK_GAP;
      tall = Math.max(tall, hgt);
    }
    return y + tall;
  }

  /** Takes the theme's colours; call it when they have changed. */
  colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.ink = of('--ink');
    this.panel = of('--panel');
    this.soft = of('--soft');
    this.track = of('--track');
    this.teal = of('--teal');
    this.orange = of('--orange');
    this.red = of('--red');
    this.grey = of('--grey');
    this.good = of('--good');
    this.hues = Object.fromEntries(HUES.map((h) => [h, of(h)]));
    this.cells = null;
  }

  /** Shows new cells; only what differs is drawn. Returns how many squares were. */
  show(answer, again = false) {
    const text = atob(answer.data);
    const data = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) data[i] = text.charCodeAt(i);
    const bytes = this.layout.aggregated ? DOMAIN_BYTES : MACHINE_BYTES;
    // Numbers of owners and gangs are of one answer: they are compared by what they mean.
    const before = this.cells;
    this.cells = data;
    this.view = new DataView(data.buffer);
    this.owners = answer.owners;
    this.priorities = answer.priorities;
    this.tints = answer.owners.map((name) => this.hues[hueOf(name)]);
    this.bytes = bytes;
    const n = Math.min(this.count, Math.floor(data.length / bytes));
    this.shown = n;
    const sameNames = before && before.length === data.length && this.ownersKey === answer.owners.join('\0') && this.prioritiesKey === answer.priorities.join();
    this.ownersKey = answer.owners.join('\0');
    this.prioritiesKey = answer.priorities.join();
    if (!sameNames || again) return this.all();
    const dirty = new Set();
    for (let i = 0; i < n; i++) {
      for (let b = i * bytes, end = b + bytes; b < end; b++) {
        if (before[b] !== data[b]) {
          this.touch(i, dirty);
          break;
        }
      }
    }
    if (dirty.size > n * REDRAW_SHARE) return this.all();
    for (const i of dirty) this.square(i, true);
    return dirty.size;
  }

  /** A square and its neighbours, whose outline may be another. */
  touch(i, dirty) {
    const block = this.blockOf(i);
    for (const j of [i, i - 1, i + 1, i - block.columns, i + block.columns]) if (j >= block.from && j < block.from + block.count) dirty.add(j);
  }

  blockOf(i) {
    let lo = 0, hi = this.blocks.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.blocks[mid].from <= i) lo = mid;
      else hi = mid - 1;
    }
    return this.blocks[lo];
  }

  /** Draws everything. */
  all() {
    if (!this.cells) return 0;
    this.paper.fillStyle = this.panel;
    this.paper.fillRect(0, 0, this.width, this.height);
    if (this.labels) this.names();
    for (const block of this.blocks) {
      if (this.holding?.has(block.value)) {
        this.paper.strokeStyle = this.good;
        this.paper.lineWidth = 2;
        this.paper.strokeRect(block.x - 2, block.y + block.top - 2, block.w + 3, block.h - block.top + 3);
      }
      for (let i = block.from; i < Math.min(block.from + block.count, this.shown); i++) this.square(i, false, block);
    }
    return this.shown;
  }

  names() {
    this.paper.font = '10px system-ui, sans-serif';
    this.paper.fillStyle = this.soft;
    for (const b of this.blocks) {
      this.paper.save();
      this.paper.beginPath();
      this.paper.rect(b.x, b.y, b.w + BLOCK_GAP - 2, LABEL_HEIGHT);
      this.paper.clip();
      this.paper.fillText(b.value || 'no label', b.x, b.y + 9);
      this.paper.restore();
    }
  }

  square(i, clear, block = this.blockOf(i)) {
    const x = this.xs[i], y = this.ys[i], size = this.size, paper = this.paper;
    if (clear) {
      paper.fillStyle = this.panel;
      paper.fillRect(x, y, size, size);
    }
    if (this.layout.aggregated) this.domain(i, x, y, size);
    else this.machine(i, x, y, size, block);
    if (i === this.picked) {
      paper.fillStyle = this.ink;
      edges(paper, x, y, size, true, true, true, true);
    }
  }

  machine(i, x, y, size, block) {
    const paper = this.paper, at = i * MACHINE_BYTES;
    const state = this.cells[at], owner = this.view.getUint16(at + 2, true);
    const faint = this.lit && this.owners[owner - 1] !== this.lit;
    paper.globalAlpha = faint ? 0.15 : 1;
    if (state === FAILED) {
      paper.fillStyle = this.red;
      paper.fillRect(x, y, size, size);
    } else if (state === IDLE) {
      paper.fillStyle = this.teal;
      edges(paper, x, y, size, true, true, true, true);
    } else if (owner === 0) {
      paper.fillStyle = this.grey;
      paper.fillRect(x, y, size, size);
    } else this.bound(at, state, owner, x, y, size, faint);
    paper.globalAlpha = 1;
    this.outline(i, at, x, y, size, block);
  }

  bound(at, state, owner, x, y, size, faint) {
    const paper = this.paper, most = this.priorities.length - 1;
    const depth = most > 0 ? this.cells[at + 1] / most : 1;
    paper.globalAlpha = (faint ? 0.15 : 1) * (0.5 + 0.5 * depth) * (ON_ITS_WAY.has(state) ? 0.7 : 1);
    paper.fillStyle = this.tints[owner - 1];
    paper.fillRect(x, y, size, size);
    if (state !== DRAINING) return;
    paper.globalAlpha = faint ? 0.15 : 1;
    paper.fillStyle = this.orange;
    paper.fillRect(x, y + Math.ceil(size / 2), size, Math.floor(size / 2));
  }

  /** The sides of a square that are the border of its gang. */
  outline(i, at, x, y, size, block) {
    const gang = this.view.getUint16(at + 4, true);
    if (gang === 0 || size < 4) return;
    const column = (i - block.from) % block.columns, last = block.from + block.count;
    const other = (j) => j < block.from || j >= last || this.view.getUint16(j * MACHINE_BYTES + 4, true) !== gang;
    this.paper.fillStyle = this.ink;
    edges(this.paper, x, y, size, other(i - block.columns), column === block.columns - 1 || other(i + 1), other(i + block.columns), column === 0 || other(i - 1));
  }

  domain(i, x, y, size) {
    const paper = this.paper, at = i * DOMAIN_BYTES, view = this.view;
    const [all, bound, , moving, owner] = [0, 2, 4, 6, 8].map((o) => view.getUint16(at + o, true));
    const marked = this.holding?.has(this.layout.groups[i].value);
    const faint = this.lit && this.owners[owner - 1] !== this.lit;
    paper.globalAlpha = faint ? 0.15 : 1;
    paper.fillStyle = this.track;
    paper.fillRect(x, y, size, size);
    if (all > 0 && owner > 0) {
      const tall = Math.round((bound / all) * size), way = Math.round((moving / all) * size);
      paper.fillStyle = this.tints[owner - 1];
      paper.fillRect(x, y + size - tall, size, tall);
      paper.fillStyle = this.orange;
      paper.fillRect(x, y + size - Math.min(tall + way, size), size, Math.min(way, size - tall));
    }
    paper.globalAlpha = 1;
    if (marked) {
      paper.fillStyle = this.good;
      edges(paper, x, y, size, true, true, true, true);
    }
  }

  /** The square or the block under a point. */
  at(x, y) {
    for (const b of this.blocks ?? []) {
      if (x < b.x || x >= b.x + b.w || y < b.y || y >= b.y + b.h) continue;
      if (y < b.y + b.top) return { value: b.value };
      const column = Math.floor((x - b.x) / (this.size + 1)), row = Math.floor((y - b.y - b.top) / (this.size + 1));
      const i = b.from + row * b.columns + column;
      return column < b.columns && i < b.from + b.count ? { square: i, value: this.layout.aggregated ? this.layout.groups[i].value : b.value } : null;
    }
    return null;
  }

  /** What a square shows. */
  about(i) {
    if (!this.cells || i >= this.shown) return null;
    if (this.layout.aggregated) {
      const [machines, bound, idle, moving, owner] = [0, 2, 4, 6, 8].map((o) => this.view.getUint16(i * DOMAIN_BYTES + o, true));
      return { machines, bound, idle, moving, owner: this.owners[owner - 1] ?? '' };
    }
    const at = i * MACHINE_BYTES, owner = this.view.getUint16(at + 2, true);
    return { id: this.layout.ids[i], state: this.cells[at], owner: this.owners[owner - 1] ?? '', priority: owner > 0 ? this.priorities[this.cells[at + 1]] : null, gang: this.view.getUint16(at + 4, true) > 0 };
  }

  /** How many squares each owner has, most first. */
  tally() {
    const counts = new Map();
    if (!this.cells) return counts;
    for (let i = 0; i < this.shown; i++) {
      const owner = this.view.getUint16(i * this.bytes + (this.layout.aggregated ? 8 : 2), true);
      if (owner > 0) counts.set(this.owners[owner - 1], (counts.get(this.owners[owner - 1]) ?? 0) + 1);
    }
    return new Map([...counts].sort((a, b) => b[1] - a[1]));
  }
}

function edges(paper, x, y, size, top, right, bottom, left) {
  if (top) paper.fillRect(x, y, size, 1);
  if (bottom) paper.fillRect(x, y + size - 1, size, 1);
  if (left) paper.fillRect(x, y, 1, size);
  if (right) paper.fillRect(x + size - 1, y, 1, size);
}
