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
  el.append(...children.flat().filter((c) => c !== undefined && c !== null));
  return el;
}

/** Writes a text only when it differs, so that a selection survives. */
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

export const find = (selector, from = document) => from.querySelector(selector);
