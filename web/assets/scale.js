// Axes: ticks that people can read, and rows brought down to what a screen can
// show.

/** Round steps from 0 to at least max, about n of them. */
export function ticks(max, n, whole = false) {
  if (!(max > 0)) return [0, 1];
  const rough = max / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((v) => v >= rough * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const out = [];
  for (let i = 0; ; i++) {
    out.push(Number((i * step).toPrecision(12)));
    if (i * step >= max * 0.999) return out;
  }
}

const TIME_STEPS = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].map((v) => v * 1000);

/** Times between from and to that fall on round values of the local clock. */
export function timeTicks(from, to, most) {
  const step = TIME_STEPS.find((v) => (to - from) / v <= most) ?? 86400e3;
  const zone = new Date(to).getTimezoneOffset() * 60000;
  const out = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) out.push(t);
  return { at: out, step };
}

const SPAN_MIN_MS = 30e3;

/** The span of time that a window of so many seconds shows. A young history
 *  fills it from the left; it widens until it is the window. */
export function domain(rows, seconds) {
  if (rows.length === 0) return null;
  const last = rows.at(-1).t;
  const from = Math.max(last - seconds * 1000, rows[0].t);
  return { from, to: Math.max(last, from + SPAN_MIN_MS) };
}

/**
 * Brings rows down to at most one column per slot of the width. Each column
 * holds the time and the values of all series: the last row's, the mean's or
 * those of the row with the largest total.
 */
export function columns(rows, { from, to }, slots, values, how) {
  let i = rows.findIndex((r) => r.t >= from);
  if (i < 0) return [];
  if (i > 0) i--; // the line comes in from the left edge
  const width = Math.max((to - from) / slots, 1);
  const out = [];
  let bucket = null;
  for (; i < rows.length; i++) {
    const slot = Math.floor((rows[i].t - from) / width);
    const v = values(rows[i]);
    if (!bucket || bucket.slot !== slot) {
      bucket = { slot, t: rows[i].t, v, n: 1, total: sum(v) };
      out.push(bucket);
    } else merge(bucket, v, rows[i].t, how);
  }
  if (how === 'mean') for (const b of out) b.v = b.v.map((x) => x / b.n);
  return out;
}

function merge(bucket, v, t, how) {
  bucket.t = t;
  bucket.n++;
  if (how === 'mean') bucket.v = bucket.v.map((x, k) => x + v[k]);
  else if (how === 'last') bucket.v = v;
  else if (sum(v) > bucket.total) {
    bucket.v = v;
    bucket.total = sum(v);
  }
}

export const sum = (list) => list.reduce((a, b) => a + b, 0);

/** The q-th part of a list, by nearest rank. */
export function quantile(list, q) {
  const sorted = Float64Array.from(list).sort();
  return sorted[Math.max(Math.ceil(sorted.length * q) - 1, 0)] ?? 0;
}
