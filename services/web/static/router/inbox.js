// Messages that the node has handed over: each is given to the loops over its group, in order, until one of them settles it.
import { WINDOW_BYTES, WINDOW_MESSAGES } from './link.js';

const UNREAD_MAX = 3 * WINDOW_MESSAGES;
const CROWD_MESSAGES = WINDOW_MESSAGES / 2, CROWD_BYTES = WINDOW_BYTES / 2;
const QUEUE_FULL_RECIPIENT = 16, PEER_REFUSED = 24;
const LEFT_TEXT = 'nobody in this app reads it';
const SAID_KEEP_MIN = 30 * 1440;
const REFUSED_MAX = 3 * WINDOW_MESSAGES, SAID_MAX = 65536;
export const UNICASTS = '';

export class Inbox {
  #store;
  #handled;
  #link = null;
  #prefix = new Prefix();
  #settledTo = 0;
  #received = 0;
  #redelivered = 0;
  #bytes = 0;
  #unsettled = new Map();
  #refused = new Map();
  #said = new Map();
  #early = new Map();
  #unread = new Unread();
  #reported = new Set();
  #pending = [];
  #isWriting = false;
  #isFlushing = false;

  // `handled`: ids of messages and of signed words; `given(message)` hands one to the loops; `isRead(address)`: whether there are any;
  // `records(address)`: the group's `kept`, `causes` and, if it is read in causal order, `order`.
  constructor(store, handled, { given, isRead, records, problem, nowMin }) {
    this.#store = store;
    this.#handled = handled;
    Object.assign(this, { given, isRead, records, problem, nowMin });
  }

  begin(link) {
    this.#link = link;
    this.#prefix = new Prefix();
    this.#settledTo = this.#received = this.#redelivered = 0;
    this.#unread.clear();
  }

  redelivered(count) { this.#redelivered = count; }

  pass(link, k) { this.#done(link, k); }

  refuse(link, k, reason, why) {
    if (link === this.#link) link.refuse(k, reason, why);
    this.#done(link, k);
  }

  unreadable(link, k, { id, address }, reason, why) {
    const order = this.records(address)?.order;
    order?.settle(id);
    this.refuse(link, k, reason, why);
    if (order) this.#turns(order);
  }

  arrive(link, k, message) {
    if (link !== this.#link) return;
    this.#received = k;
    const { id, said, address } = message, first = this.#unsettled.get(id), refusal = this.#refused.get(id);
    if (first) Object.assign(first, { link, k });
    else if (refusal) this.refuse(link, k, ...refusal);
    else if (this.#handled.has(id) || (said && this.#isSaidAgain(said, id))) this.#done(link, k);
    else if (this.#early.delete(id)) {
      this.#unsettled.set(id, Object.assign(message, { link, k }));
      this.#bytes += message.size;
      this.#count(message);
      this.settle(id);
    } else if (this.#unread.holds(address, id, this.isRead(address))) this.#leave(Object.assign(message, { link, k }));
    else this.#take(Object.assign(message, { link, k, isGiven: false, isWaiting: false, missing: [], late: false, redelivered: k <= this.#redelivered }));
    if (this.#isCrowded) this.#leaveUnread();
  }

  // A member's signed words come once, in however many messages.
  #isSaidAgain(said, id) {
    const first = this.#said.get(said);
    if (first === id || (first === undefined && !this.#handled.has(said))) {
      keep(this.#said, said, id, SAID_MAX);
      return false;
    }
    this.problem('a member\'s words came again, in a message that another member has sealed: they are shown once');
    return true;
  }

  #take(message) {
    this.#unsettled.set(message.id, message);
    this.#bytes += message.size;
    const order = this.records(message.address)?.order;
    if (!order || !message.sender) return this.#give(message);
    message.isWaiting = true;
    order.offer(message, performance.now(), 60000 * (message.exp - this.nowMin()));
    return this.#turns(order);
  }

  // Give what has waited for its causes, in its order, now or when the wait for some is over.
  #turns(order) {
    for (const [message, missing, late] of order.turns(performance.now())) {
      Object.assign(message, { missing, late, isWaiting: false });
      this.#unsettled.delete(message.id);
      this.#unsettled.set(message.id, message);
      this.#give(message);
    }
    clearTimeout(order.timer);
    if (order.size) order.timer = setTimeout(() => this.#turns(order), Math.max(0, order.wakeMs - performance.now()));
  }

  #forget(message) {
    if (this.#unsettled.delete(message.id)) this.#bytes -= message.size;
  }

  // A loop over this address begins: what is not settled is its.
  read(address, give) {
    for (const message of [...this.#unsettled.values()]) {
      if (message.isWaiting || message.isOver || (address !== null && message.address !== address)) continue;
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

  // Half the window is taken, if only because of one message that nobody reads.
  get #isCrowded() { return this.#received - this.#prefix.n >= CROWD_MESSAGES || this.#bytes >= CROWD_BYTES; }

  #leaveUnread() {
    for (const message of [...this.#unsettled.values()]) {
      const { address } = message;
      if (this.isRead(address)) continue;
      if (!this.#reported.has(address)) {
        this.#reported.add(address);
        this.problem(`messages ${address === UNICASTS ? 'to this app alone' : 'of a group'} wait here, and no loop reads them: they stay with the node until one does`);
      }
      this.#leave(message);
    }
  }

  #leave(message) {
    this.#forget(message);
    this.records(message.address)?.order?.withdraw(message.id);
    this.#unread.add(message.address, message.id);
    this.refuse(message.link, message.k, QUEUE_FULL_RECIPIENT, LEFT_TEXT);
  }

  // The app has left this group: nobody will settle what is here of it.
  leaveGroup(address) {
    for (const message of [...this.#unsettled.values()]) if (message.address === address) this.turnDown(message.id, PEER_REFUSED, 'this app has left the group');
  }

  // -- what loops say of messages ---------------------------------------------------------------------------

  // Resolve once the id is on disk as handled; one that another tab gave may come here only later.
  settle(id) {
    const message = this.#unsettled.get(id);
    if (!message) {
      if (!this.#handled.has(id)) keep(this.#early, id, true, REFUSED_MAX);
      return Promise.resolve();
    }
    message.isOver = true;
    return new Promise(done => {
      this.#pending.push({ message, done });
      this.#write();
    });
  }

  // `later`: it comes again; otherwise it is refused once more should its connection have been lost.
  turnDown(id, reason, why, later = false) {
    const message = this.#unsettled.get(id);
    if (!message) return;
    this.#forget(message);
    if (later) this.records(message.address)?.order?.withdraw(id);
    else keep(this.#refused, id, [reason ?? PEER_REFUSED, why], REFUSED_MAX);
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
      await this.#store.handle(rows, groups);
      for (const [id] of rows) this.#handled.add(id);
      for (const { message, done } of some) {
        if (this.#unsettled.has(message.id)) this.#done(message.link, message.k);
        this.#forget(message);
        this.#said.delete(message.said);
        done();
      }
    }
    this.#isWriting = false;
  }

  #done(link, k) {
    if (link !== this.#link) return;
    this.#received = Math.max(this.#received, k);
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

function keep(map, key, value, most) {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value);
}

// Messages left with the node because nobody in this app reads them (router/client/custody/unread.py): they are refused
// for now, and until the node starts over, so that none overtakes another.
class Unread {
  #ids = new Map();
  #last = new Map();

  add(address, id) {
    if (!this.#ids.has(address)) this.#ids.set(address, new Map());
    const ids = this.#ids.get(address);
    if (!ids.has(id)) ids.set(id, (this.#last.get(address) ?? 0) + 1);
    this.#last.set(address, Math.max(ids.get(id), this.#last.get(address) ?? 0));
    if (ids.size > UNREAD_MAX) ids.delete(ids.keys().next().value);
  }

  // Whether this message is to be refused.
  holds(address, id, isRead) {
    const ids = this.#ids.get(address);
    if (!ids) return false;
    if (isRead && (ids.get(id) ?? this.#last.get(address) + 1) <= this.#last.get(address)) {
      this.#ids.delete(address);
      this.#last.delete(address);
      return false;
    }
    return true;
  }

  clear() {
    this.#ids.clear();
    this.#last.clear();
  }
}

// How many messages from the first on are done without a gap.
class Prefix {
  n = 0;
  #later = new Set();

  add(k) {
    this.#later.add(k);
    while (this.#later.delete(this.n + 1)) this.n++;
  }
}
