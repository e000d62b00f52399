// How long the scripts of the last frames took, for tests and for whoever wonders: console → tonnageFrames.

const KEPT = 600;

/** By name: the last durations in milliseconds, oldest first. */
export const frames = new Map();
globalThis.tonnageFrames = frames;

/** Runs a part of a frame and notes how long it took. */
export function timed(name, work) {
  const began = performance.now();
  const result = work();
  const list = frames.get(name) ?? [];
  list.push(performance.now() - began);
  if (list.length > KEPT) list.shift();
  frames.set(name, list);
  return result;
}
