// Where the page is, in the fragment of its address: #/TAB?filter=value&open=KIND/NAME. So
// everything has an address, filters included, and the browser's buttons work.

export const TABS = ['overview', 'needs', 'fleet', 'clusters', 'money', 'changes', 'whatif', 'engine', 'search'];

/** The place now: its tab, its filters and what is open beside it. */
export const place = { tab: 'overview', filters: new URLSearchParams(), open: null };

const watchers = new Set();

/** Calls back whenever the place has changed. */
export const onPlace = (f) => watchers.add(f);

function read() {
  const [path, query = ''] = location.hash.slice(1).split('?');
  const parts = path.split('/').filter(Boolean).map(decode);
  const filters = new URLSearchParams(query);
  let open = filters.get('open');
  filters.delete('open');
  // #/machine/m-1 is short for a machine that is open beside the overview.
  if (parts.length > 1 && !TABS.includes(parts[0])) open = [parts[0], ...parts.slice(1)].join('/');
  if (parts.length === 1 && !TABS.includes(parts[0])) history.replaceState(null, '', address('overview', filters, thing(open))); // there is no such view
  place.tab = TABS.includes(parts[0]) ? parts[0] : 'overview';
  place.filters = filters;
  place.open = thing(open);
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** 'need/c1/0' → {kind: 'need', name: 'c1/0'} */
function thing(text) {
  const at = text?.indexOf('/') ?? -1;
  return at > 0 && at < text.length - 1 ? { kind: text.slice(0, at), name: text.slice(at + 1) } : null;
}

// What may stand in a fragment as it is; names are read more easily so.
const plain = (text) => encodeURIComponent(text).replaceAll('%2F', '/').replaceAll('%3A', ':').replaceAll('%3D', '=').replaceAll('%2C', ',');

function address(tab, filters, open) {
  const query = [...filters].filter(([, v]) => v !== '').map(([k, v]) => `${k}=${plain(v)}`);
  if (open) query.push(`open=${plain(`${open.kind}/${open.name}`)}`);
  return `#/${tab}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}

/** The address of a thing, opened beside what is shown now. */
export const linkTo = (kind, name) => address(place.tab, place.filters, { kind, name });

/** The address of a tab, with filters. */
export const linkToTab = (tab, filters = {}) => address(tab, new URLSearchParams(filters), null);

/** The address without what is open. */
export const linkClosed = () => address(place.tab, place.filters, null);

/** Sets filters of this tab; null takes one off. Typing is no step back. */
export function filter(changes, step = false) {
  const filters = new URLSearchParams(place.filters);
  for (const [k, v] of Object.entries(changes)) {
    if (v === null || v === '') filters.delete(k);
    else filters.set(k, v);
  }
  go(address(place.tab, filters, place.open), step);
}

/** Goes to an address of this page. */
export function go(to, step = true) {
  if (to === location.hash) return;
  history[step ? 'pushState' : 'replaceState'](null, '', to);
  changed();
}

function changed() {
  read();
  for (const f of watchers) f();
}

addEventListener('popstate', changed);
addEventListener('hashchange', changed);
read();
