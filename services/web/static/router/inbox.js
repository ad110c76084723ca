// Messages that the node has handed over: each is given to the loops over its group, in order, until one of them settles it.
import { Prefix, Unread } from './unread.js';

const UNREAD_MAX = 512;
const QUEUE_FULL_RECIPIENT = 16, PEER_REFUSED = 24;
const LEFT_TEXT = 'nobody in this app reads it';
const SAID_KEEP_MIN = 30 * 1440;
export const UNICASTS = '';

export class Inbox {
  #store;
  #handled;
  #link = null;
  #prefix = new Prefix();
  #settledTo = 0;
  #redelivered = 0;
  #unsettled = new Map();
  #unread = new Unread();
  #pending = [];
  #isWriting = false;
  #isFlushing = false;

  // `handled`: ids of messages and of signed words; `given(message)` hands one to the loops and says whether there are any.
  constructor(store, handled, { given, isRead, records, problem, nowMin }) {
    this.#store = store;
    this.#handled = handled;
    Object.assign(this, { given, isRead, records, problem, nowMin });
  }

  begin(link) {
    this.#link = link;
    this.#prefix = new Prefix();
    this.#settledTo = this.#redelivered = 0;
    this.#unread.clear();
  }

  redelivered(count) { this.#redelivered = count; }

  // A message whose bytes need no loop: it is done with.
  pass(link, k) { this.#done(link, k); }

  refuse(link, k, reason, why) {
    if (link === this.#link) link.refuse(k, reason, why);
    this.#done(link, k);
  }

  async arrive(link, k, message) {
    if (link !== this.#link) return;
    const first = this.#unsettled.get(message.id);
    if (first) {
      Object.assign(first, { link, k });
      return;
    }
    if (this.#handled.has(message.id) || (message.said && this.#handled.has(message.said))) {
      this.#done(link, k);
      return;
    }
    if (this.#unread.holds(message.address, message.id, this.isRead(message.address))) {
      this.#leave(link, k, message);
      return;
    }
    Object.assign(message, { link, k, isGiven: false, redelivered: k <= this.#redelivered });
    this.#unsettled.set(message.id, message);
    this.#give(message);
    if (!message.isGiven) this.#leaveUnread(message.address);
  }

  // A loop over this address begins: what is not settled is its.
  read(address, give) {
    for (const message of [...this.#unsettled.values()]) {
      if (address !== null && message.address !== address) continue;
      this.#count(message);
      give(message);
    }
  }

  #give(message) {
    if (this.given(message)) this.#count(message);
  }

  #count(message) {
    if (message.isGiven) return;
    message.isGiven = true;
    if (message.sender && message.ttl) this.records(message.address)?.causes.given(message.id, message.exp, message.deps);
  }

  #leaveUnread(address) {
    const unread = [...this.#unsettled.values()].filter(one => one.address === address && !one.isGiven);
    if (unread.length < UNREAD_MAX) return;
    this.problem(`${unread.length} messages wait in this page, and no loop reads them: they stay with the node until one does`);
    for (const one of unread) {
      this.#unsettled.delete(one.id);
      this.#leave(one.link, one.k, one);
    }
  }

  #leave(link, k, message) {
    this.#unread.add(message.address, message.id);
    this.refuse(link, k, QUEUE_FULL_RECIPIENT, LEFT_TEXT);
  }

  // -- what loops say of messages ---------------------------------------------------------------------------

  // Resolve once the id is on disk as handled; the node is told then.
  settle(id) {
    const message = this.#unsettled.get(id);
    if (!message) return Promise.resolve();
    return new Promise((done, failed) => {
      this.#pending.push({ message, done, failed });
      this.#write();
    });
  }

  turnDown(id, reason, why) {
    const message = this.#unsettled.get(id);
    if (!message) return;
    this.#unsettled.delete(id);
    this.refuse(message.link, message.k, reason ?? PEER_REFUSED, why);
  }

  // One transaction at a time; what is settled meanwhile goes into the next.
  async #write() {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#pending.length) {
      const some = this.#pending.splice(0), rows = [], groups = new Map();
      for (const { message } of some) {
        rows.push([message.id, message.exp]);
        if (message.said) rows.push([message.said, Math.max(message.exp, this.nowMin() + SAID_KEEP_MIN)]);
        const record = this.records(message.address);
        if (record) groups.set(message.address, record.kept);
      }
      try {
        await this.#store.handle(rows, groups);
      } catch (error) {
        for (const { failed } of some) failed(error);
        continue;
      }
      for (const [id] of rows) this.#handled.add(id);
      for (const { message, done } of some) {
        if (this.#unsettled.delete(message.id)) this.#done(message.link, message.k);
        done();
      }
    }
    this.#isWriting = false;
  }

  #done(link, k) {
    if (link !== this.#link) return;
    this.#prefix.add(k);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => this.#flush());
  }

  #flush() {
    this.#isFlushing = false;
    if (!this.#link?.isUp || this.#prefix.n <= this.#settledTo) return;
    this.#settledTo = this.#prefix.n;
    this.#link.settle(this.#settledTo);
  }
}
