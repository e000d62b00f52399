// The few lines that build elements. Texts are always set as text, never as
// markup: names come from clusters and providers.

/** h('td.num', {title: '…'}, 'text' or element or list) */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  return fill(document.createElement(name), classes, attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), classes, attributes, children);
}

function fill(el, classes, attributes, children) {
  if (classes.length > 0) el.setAttribute('class', classes.join(' '));
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) el.addEventListener(key.slice(2), value);
    else if (key === 'color') el.style.setProperty('--c', `var(${value})`);
    else if (key === 'width%') el.style.width = `${value}%`;
    else el.setAttribute(key, value === true ? '' : value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

/** Writes a text only when it differs, so that a selection survives. */
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

export const find = (selector, from = document) => from.querySelector(selector);

/**
 * Makes the children of one element like a list of fresh ones and keeps what is alike, so that
 * selections, focus and a click that has begun survive a frame. Elements with data-key are found
 * by it, others by their place. Fresh listeners are not taken over: use links, or
 * listen further up.
 */
export function morph(box, fresh) {
  const list = fresh.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(String(c))));
  const known = new Map();
  for (const c of box.children) if (c.dataset.key) known.set(c.dataset.key, c);
  let at = box.firstChild;
  for (const next of list) {
    const key = next.dataset?.key;
    const old = key ? known.get(key) : at && !at.dataset?.key ? at : null;
    if (!old || !alike(old, next)) {
      box.insertBefore(next, at);
      continue;
    }
    if (old !== at) box.insertBefore(old, at);
    become(old, next);
    at = old.nextSibling;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;

/** Makes an element like another of its kind. What people have opened or typed stays. */
function become(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType === Node.TEXT_NODE) {
    old.data = next.data;
    return;
  }
  const kept = (name) => (name === 'open' && old.nodeName === 'DETAILS') || (name === 'value' && old.nodeName === 'INPUT');
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !kept(name)) old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (old.getAttribute(name) !== value && !kept(name)) put(old, next, name, value);
  morph(old, [...next.childNodes]);
}

/** Sets an attribute; the policy refuses the text of a style, and takes its properties. */
function put(old, next, name, value) {
  if (name !== 'style') old.setAttribute(name, value);
  else {
    for (const property of [...old.style]) old.style.removeProperty(property);
    for (const property of next.style) old.style.setProperty(property, next.style.getPropertyValue(property));
  }
}
