// The page's copy of the feed: the history at once, then one event per cycle.
//
// The server alone thins the history. The page appends what it is sent and, now
// and then and after each interruption, fetches the whole again, which also
// fills the gap and keeps the page's copy bounded.

import { pace } from './query.js';

const REFRESH_MS = 5 * 60 * 1000;
const RETRY_MS = 2000;
const HIDDEN_MS = 10000; // so long after a page was hidden its stream ends

/**
 * Loads the page anew when the process no longer lets this browser in: it answers
 * with a form for the token then. A stream that is refused does not say why.
 */
async function askForToken() {
  const answer = await fetch('/favicon.svg', { cache: 'no-store' });
  if (answer.status === 401) location.reload();
}

export class Store {
  constructor(changed) {
    this.changed = changed; // called after every change
    this.info = null;
    this.frame = null;
    this.window = null;
    this.recent = [];
    this.names = [];
    this.rows = [];
    this.link = 'connecting'; // connecting, live, reconnecting, stopped
    this.heard = 0; // when the last event came, by this clock
    this.skew = 0; // the server's clock minus this one, ms
  }

  start() {
    this.connect();
    // A browser opens six connections to one host, for all its tabs: pages that nobody looks at let theirs go.
    document.addEventListener('visibilitychange', () => (document.hidden ? this.rest(HIDDEN_MS) : this.wake()));
    addEventListener('pagehide', () => this.rest(0));
    addEventListener('pageshow', (e) => { if (e.persisted) this.wake(); });
    setInterval(() => { if (this.link === 'live' && !this.asleep) this.load().catch(() => {}); }, REFRESH_MS);
  }

  /** Lets the stream go after a while without being seen. */
  rest(after) {
    clearTimeout(this.resting);
    const close = () => {
      clearTimeout(this.timer);
      this.source?.close();
      this.source = null;
      this.asleep = true;
    };
    if (after === 0) close();
    else this.resting = setTimeout(close, after);
  }

  wake() {
    clearTimeout(this.resting);
    if (!this.asleep) return;
    this.asleep = false;
    this.set('reconnecting');
    this.connect();
  }

  /** The server's time now. */
  now() { return Date.now() + this.skew; }

  connect() {
    const source = new EventSource('/events');
    this.source = source;
    source.addEventListener('open', () => { this.load().catch(() => {}); });
    source.addEventListener('frame', (e) => this.take(JSON.parse(e.data)));
    source.addEventListener('bye', () => this.again(source, 'stopped'));
    source.addEventListener('error', () => {
      // A refused request closes the source for good; a broken one retries by
      // itself. One way for both is easier to reason about.
      this.again(source, this.link === 'stopped' ? 'stopped' : 'reconnecting');
      if (source.readyState === EventSource.CLOSED) askForToken().catch(() => {});
    });
  }

  again(source, link) {
    source.close();
    this.source = null;
    this.set(link);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), RETRY_MS);
  }

  async load() {
    const source = this.source;
    const answer = await fetch('/api/state');
    if (!answer.ok) return;
    const state = await answer.json();
    // An answer from before the link broke says nothing about the link.
    if (!source || source !== this.source) return;
    const newer = this.rows.filter((r) => state.history.length > 0 && r.t > state.history.at(-1).t);
    const sameProcess = this.info?.started === state.info.started;
    this.info = state.info;
    pace.answers = state.info.queries;
    this.skew = state.info.now - Date.now();
    this.rows = sameProcess ? state.history.concat(newer) : state.history;
    if (state.frame && !(sameProcess && this.frame?.cycle > state.frame.cycle)) {
      this.frame = state.frame;
      this.window = state.window;
      this.recent = state.recent ?? [];
      this.names = state.names ?? [];
    }
    this.heard = Math.max(this.heard, this.frame ? 0 : Date.now());
    this.link = 'live';
    this.changed();
  }

  take(event) {
    if (event.error) return;
    this.heard = Date.now();
    this.frame = event.frame;
    this.window = event.window;
    this.recent = event.recent ?? [];
    this.names = event.names ?? [];
    const last = this.rows.at(-1);
    if (last && last.t === event.point.t) this.rows[this.rows.length - 1] = event.point;
    else if (!last || event.point.t > last.t) this.rows.push(event.point);
    this.set('live');
    this.changed();
  }

  set(link) {
    if (this.link === link) return;
    this.link = link;
    this.changed();
  }
}
