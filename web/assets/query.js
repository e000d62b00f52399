// Questions to the process, GET /api/v1/NAME.

import { timed } from './frames.js';

/** What went wrong with a question; code is that of HTTP. */
export class Refused extends Error {
  constructor(code, says) {
    super(says);
    this.code = code;
  }
}

export async function ask(name, params = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== null && v !== undefined && v !== ''));
  const answer = await fetch(`/api/v1/${name}?${query}`, { signal });
  const text = await answer.text();
  if (answer.ok) return timed(`parse ${name}`, () => JSON.parse(text));
  throw new Refused(answer.status, text.trim() || answer.statusText);
}

/** Held: what has been answered is not asked again. Answers: whether the process has any, null = not known yet. */
export const pace = { held: false, answers: null };

const REST_FACTOR = 4; // an answer that took long is asked for less often
const REST_MIN_MS = 900;

/**
 * Keeps one answer fresh: asks when it is told that something may have changed, one
 * question at a time. Another question forgets the answer of the one before.
 */
export class Fresh {
  constructor(changed) {
    this.changed = changed;
    this.turn = 0;
    this.forget();
  }

  /** Forgets what was asked, so that the next want asks again. */
  forget() {
    this.turn++;
    this.aborter?.abort(); // nobody waits for it any more; the process stops at it
    this.aborter = null;
    this.key = undefined;
    this.answer = null;
    this.error = null;
    this.waiting = false;
    this.restUntil = 0;
  }

  /** what: [name, params]; null = nothing is wanted. once = an answer is good for ever. */
  want(what, once = false) {
    const key = JSON.stringify(what);
    if (key !== this.key) {
      this.forget();
      this.key = key;
    }
    if (what && pace.answers === false) this.error = new Refused(404, 'This process shows the fleet as a whole only.');
    if (!what || !pace.answers || this.waiting || performance.now() < this.restUntil || ((once || pace.held) && (this.answer || this.error))) return;
    this.run(what);
  }

  async run(what) {
    const turn = this.turn;
    const began = performance.now();
    this.waiting = true;
    this.aborter = new AbortController();
    let error = null, answer = null;
    try {
      answer = await ask(...what, this.aborter.signal);
    } catch (e) {
      error = e;
    }
    if (turn !== this.turn) return;
    this.waiting = false;
    this.restUntil = performance.now() + Math.max(REST_MIN_MS, REST_FACTOR * (performance.now() - began));
    // A process that is away has its word at the top of the page; what was shown stays.
    if (error && this.answer && !(error instanceof Refused)) return;
    this.error = error;
    this.answer = answer;
    this.changed();
  }
}
