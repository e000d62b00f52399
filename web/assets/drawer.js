// What is open beside the page: one Need, machine, cluster, tenant, domain or plan. Its address is part of
// the page's.

import { find, h, morph } from './dom.js';
import { Fresh } from './query.js';
import { go, linkClosed, linkToTab, place } from './router.js';
import { clusterCard, domainCard, planCard, tenantCard } from './cards.js';
import { machineCard } from './machinecard.js';
import { needCard } from './needcard.js';

/** 'c1/0~0123456789abcdef group' → the name, and the key that tells the Need from others. */
export function needOf(name) {
  const [, plain, key] = /^(.*)~([0-9a-f]{16}(?: .*)?)$/s.exec(name) ?? [null, name, ''];
  return { name: plain, key };
}

function domainOf(name) {
  const at = name.indexOf('=');
  return { key: name.slice(0, at), value: name.slice(at + 1) };
}

const KINDS = {
  need: { label: 'Need', title: (n) => needOf(n).name, query: (n) => ['need', needOf(n)], card: needCard },
  machine: { label: 'Machine', title: (n) => n, query: (n) => ['machine', { id: n }], card: machineCard },
  cluster: { label: 'Cluster', title: (n) => n, query: (n) => ['cluster', { name: n }], card: clusterCard },
  tenant: { label: 'Tenant', title: (n) => n, query: () => ['tenants', {}], card: tenantCard },
  domain: { label: 'Domain', title: (n) => domainOf(n).value, query: (n) => ['domain', domainOf(n)], card: domainCard },
  plan: { label: 'Plan of preemption', title: (n) => n, query: (n) => ['plan', { number: n }], card: planCard },
};

export class Drawer {
  constructor(box, redraw) {
    this.box = box;
    this.redraw = redraw;
    this.fresh = new Fresh(redraw);
    this.more = new Fresh(redraw); // what costs much, asked once
    this.asked = null; // the question of this.more
    this.help = new Fresh(redraw); // what would help a Need, asked when somebody wants to know
    this.helped = null; // the question of this.help
    this.kinds = new Fresh(redraw);
    box.addEventListener('click', (e) => this.click(e));
    box.addEventListener('submit', (e) => this.submit(e));
    addEventListener('keydown', (e) => {
      if (e.key === 'Escape' && !box.hidden && !/^(INPUT|SELECT)$/.test(e.target.nodeName)) this.close();
    });
  }

  close() {
    const from = this.from;
    go(linkClosed());
    if (from?.isConnected) from.focus();
  }

  /** Buttons of cards name what they do: they are made anew with every frame. */
  click(e) {
    const button = e.target.closest('button');
    if (!button) return;
    if (button.dataset.do === 'close') this.close();
    if (button.dataset.ask) {
      this.more.forget();
      this.asked = JSON.parse(button.dataset.ask);
      this.redraw();
    }
    if (button.dataset.help) {
      this.help.forget();
      this.helped = ['help', { need: button.dataset.help }];
      this.redraw();
    }
  }

  /** The form of a Need: its question goes to the view that answers it. */
  submit(e) {
    e.preventDefault();
    const of = Object.fromEntries(new FormData(e.target));
    const question = {};
    if (of.priority) Object.assign(question, { need: e.target.dataset.need, priority: of.priority });
    if (of.add) Object.assign(question, { add: of.add, count: of.count || '1' });
    if (Object.keys(question).length > 0) go(linkToTab('whatif', question));
  }

  update(store) {
    const open = place.open && KINDS[place.open.kind] ? place.open : null;
    const key = open ? `${open.kind}/${open.name}` : null;
    if (key !== this.key) {
      this.key = key;
      this.asked = this.helped = null;
      if (open && this.box.hidden) this.from = document.activeElement;
      this.box.hidden = !open;
      this.box.scrollTop = 0;
      this.fresh.forget();
      if (open) queueMicrotask(() => this.box.focus({ preventScroll: true }));
    }
    if (!open) return;
    const kind = KINDS[open.kind];
    this.fresh.want(kind.query(open.name));
    this.more.want(this.asked, true);
    this.help.want(this.helped, true);
    this.kinds.want(open.kind === 'need' ? ['kinds', {}] : null, true);
    const { answer, error } = this.fresh;
    const title = (answer && kind.card.title?.(answer)) ?? kind.title(open.name);
    morph(this.box, [
      h('header', {}, h('div', {}, h('p.kind', {}, kind.label), h('h2', { id: 'drawer-h' }, title)), h('button.close', { type: 'button', 'data-do': 'close', 'aria-label': 'Close', title: 'Close (Escape)' }, '×')),
      h('div.card', {}, error ? h('p.refused', { role: 'alert' }, error.message) : answer ? kind.card(answer, {
        name: open.name, store, more: this.more, help: this.help, kinds: this.kinds.answer ?? [], ask: (what) => { this.asked ??= what; this.more.want(this.asked, true); },
      }) : h('p.empty', {}, 'Asking …')),
    ]);
    find('.card', this.box).toggleAttribute('aria-busy', !answer && !error);
  }
}
