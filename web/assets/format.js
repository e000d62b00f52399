// How figures are written, everywhere on the page.

const integer = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const hundredths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const units = [['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]];
const binary = [['PiB', 2 ** 50], ['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]];

/** 225000 → "225,000" */
export const count = (v) => integer.format(Math.round(v));

/** At most three digits that matter: 12.34 → "12.3", 0.0421 → "0.042". */
export function short(v) {
  if (v === 0) return '0';
  const a = Math.abs(v);
  if (a >= 1e4) {
    const [name, size] = units.find(([, u]) => a >= u);
    return trim(v / size) + name;
  }
  return a >= 100 ? count(v) : trim(v);
}

function trim(v) {
  const a = Math.abs(v);
  const places = a >= 100 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3;
  return String(Number(v.toFixed(places)));
}

/** 0.42 → "0.42 ms", 1234 → "1.23 s" */
export const millis = (v) => (v >= 1000 ? `${trim(v / 1000)} s` : `${fixed(v)} ms`);
const fixed = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

/** 1234.5 → "$1,235/h", 3.2 → "$3.20/h" */
export const dollars = (v) => `${money(v)}/h`;
export const money = (v) => (v !== 0 && Math.abs(v) < 100 ? `$${v.toFixed(2)}` : `$${count(v)}`);

/** Where two amounts are compared: 200.5 → "$200.50/h", 12345.6 → "$12,346/h" */
export const cents = (v) => (Math.abs(v) < 10000 ? `$${hundredths.format(v)}/h` : dollars(v));

/** A rate, without its unit: 123, 7.9, < 0.1 */
export const rate = (v) => (v >= 100 ? count(v) : v > 0 && v < 0.1 ? '< 0.1' : String(Number(v.toFixed(1))));

/** 0.97312 → "97.3 %"; never rounds up to 100 % or down to 0 %. */
export function percent(share) {
  if (share >= 1) return '100 %';
  if (share <= 0) return '0 %';
  const p = share * 100;
  return `${Math.min(Math.max(p, 0.1), 99.9).toFixed(1)} %`;
}

export function bytes(v) {
  const unit = binary.find(([, u]) => Math.abs(v) >= u);
  return unit ? `${grouped(v / unit[1])} ${unit[0]}` : `${count(v)} B`;
}

const grouped = (v) => (Math.abs(v) >= 1000 ? count(v) : trim(v));

const isBytes = (name) => name === 'memory' || name === 'ephemeral-storage' || name.startsWith('hugepages-');

/** An amount of a resource in the unit that people use for it. */
export function amount(name, v) {
  if (name === 'cpu') {
    const cores = v / 1000;
    return `${cores >= 100 ? count(cores) : trim(cores)} ${cores === 1 ? 'core' : 'cores'}`;
  }
  if (name.endsWith(MILLI)) return v >= 1e5 ? count(v / 1000) : trim(v / 1000);
  return isBytes(name) ? bytes(v) : count(v);
}

const MILLI = '-milli'; // a dimension in thousandths, as shared GPUs are counted

/** "nvidia.com/gpu-milli" → "gpu" */
const lastPart = (name) => name.slice(name.lastIndexOf('/') + 1).replace(MILLI, '');

/** "nvidia.com/gpu" → "GPU (nvidia.com)" */
export function resource(name) {
  if (name === 'cpu') return 'CPU';
  if (isBytes(name)) return name[0].toUpperCase() + name.slice(1);
  const slash = name.lastIndexOf('/');
  if (slash < 0) return name;
  const last = lastPart(name);
  return `${last === 'gpu' ? 'GPU' : last} (${name.slice(0, slash)})`;
}

/** A vector on one line: "64 cores · 256 GiB · 8 GPU". */
export function vector(amounts) {
  return amounts.filter((a) => a.value > 0).map((a) => {
    const text = amount(a.name, a.value);
    if (a.name === 'cpu' || isBytes(a.name)) return text;
    const last = lastPart(a.name);
    return `${text} ${last === 'gpu' ? (text === '1' ? 'GPU' : 'GPUs') : last}`;
  }).join(' · ');
}

/** Quantities as files write them, on one line and in the units of the page: {"cpu": "320", "memory": "1280Gi"} → "320 cores · 1.25 TiB". */
export const quantities = (of) => vector(Object.entries(of).map(([name, v]) => ({ name, value: natural(name, v) })));

const SUFFIXES = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

/** A quantity in the unit that the feed has: thousandths of a core, bytes, counts. */
function natural(name, text) {
  const [, digits, suffix] = /^([\d.]+)([a-zA-Z]*)$/.exec(text) ?? [null, '0', ''];
  return Number(digits) * (SUFFIXES[suffix] ?? 1) * (name === 'cpu' || name.endsWith(MILLI) ? 1000 : 1);
}

/** 93784 s → "1d 2h", 75 → "1m 15s" */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d > 0) return `${d}d ${h}h`;
  if (h > 0) return `${h}h ${m}m`;
  if (m > 0) return `${m}m ${s % 60}s`;
  return `${s}s`;
}

const two = (n) => String(n).padStart(2, '0');

/** The time of day, in the browser's zone. */
export function clock(ms, seconds = true) {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? `:${two(d.getSeconds())}` : ''}`;
}
