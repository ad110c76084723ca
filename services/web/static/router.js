// A page's end of a router: the names of docs/apps.md. See router.d.ts.
import { InsecureContext, NodeUnavailable, Refused, RouterError, StorageError, numberOf, reasonOf } from './router/errors.js';
import { EDITION } from './router/edition.js';
import { OTHER_TALK, TALK } from './router/talk.js';
import { frontLock, openChannel } from './router/tabs.js';
import { keyOfSeed } from './router/keys.js';
import { groupLink, random, readLink, hex, text, unhex } from './router/wire.js';

export { InsecureContext, NodeUnavailable, Refused, RouterError, StorageError, reasonOf, readLink };
export { EDITION } from './router/edition.js';
export { hex, text, unhex, words } from './router/wire.js';

const TTL_S = 86400, EXPIRY_MIN = 1440, UINT32_MAX = 0xffffffff;
const TERMINAL = new Set(['delivered', 'acked', 'unconfirmed', 'expired', 'refused', 'dropped', 'evicted']);
const NAME_BYTES_MAX = 64, FOLLOWED_MAX = 10000, SAID_MAX = 1000;
const UNICASTS = '', ALL = null;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;
const RIGHTS = { join: 1, store: 2, relay: 4, why: 8 };

// Why a page cannot take part here, with the remedy; "" if it can.
export function cannotBegin() {
  if (!globalThis.isSecureContext) {
    return `browsers give keys only to pages that came over https, and this one came from ${location.origin}. Open it as https://…, ` +
      'or on the node\'s own machine as http://localhost; the operator gives the page a certificate with `certificate=` and `key=` in `listen`, or puts a proxy with one before it.';
  }
  if (!globalThis.indexedDB || !navigator.locks) return 'this browser keeps nothing for pages, or is too old: take a current Firefox, Chrome, Edge or Safari.';
  return '';
}

async function canEd25519() {
  try {
    await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
  } catch {
    throw new InsecureContext('this browser has no Ed25519 keys: take Firefox 130, Chrome 137, Edge 137 or Safari 17, or newer ones.');
  }
}

export async function connect(options = {}) {
  const why = cannotBegin();
  if (why) throw new InsecureContext(why);
  if (!options.signer) await canEd25519();
  const node = new Node(options);
  await node.begin();
  return node;
}

export class Node {
  #channel;
  #asked = new Map();
  #number = 0;
  #readers = new Set();
  #publishing = new Map();
  #following = new Map();
  #listeners = new AbortController();
  #hello;
  #isClosed = false;
  #id = crypto.randomUUID();
  state = 'idle';
  problems = [];
  missed = [];
  reports = [];

  constructor({ name = 'app', url, invitation, expect, as, signer = null, outcomes = true, ...told }) {
    if (!NAME.test(name)) throw new RouterError('a name has letters, digits, dots, dashes and underscores, 64 at most');
    const link = invitation === undefined ? null : readLinkOf(invitation);
    if (signer && !(signer.public?.length === 32 && signer.sign)) throw new RouterError('a signer has `public`, the 32 bytes of its Ed25519 key, and `sign(bytes)`, which resolves with the 64 of a signature');
    Object.assign(this, { name, signer, asksOutcomes: outcomes, told, link });
    const where = url ?? link?.urls[0];
    if (link && !where) throw new RouterError('the link names no address that a page can dial (ws:// or wss://): ask for one made with `router web invite`');
    const secret = link?.kind === 'invitation' ? { secret: link.secret, as } : undefined;
    this.#hello = { url: where && new URL(where, location.href).href.replace(/^http/, 'ws'), expect: expect ?? link?.router ?? null, invitation: secret, key: signer && hex(signer.public) };
  }

  // -- beginning and leaving --------------------------------------------------------------------------------------

  async begin() {
    await new Promise(held => navigator.locks.request(frontLock(this.#id), () => { held(); return new Promise(done => { this.#letGo = done; }); }));
    this.#channel = openChannel({ name: this.name, id: this.#id, signer: this.signer, heard: message => this.#heard(message), begun: () => this.#again() });
    Object.assign(this, await this.#greet());
    for (const [target, event] of [[globalThis, 'online'], [globalThis, 'pageshow'], [document, 'visibilitychange'], [document, 'resume']]) {
      target.addEventListener(event, () => document.visibilityState === 'hidden' || this.wake(), { signal: this.#listeners.signal });
    }
    this.keeps = await navigator.storage?.persist?.().catch(() => false) ?? false;
  }

  #letGo = () => {};

  async #greet() {
    this.#channel.takeSeveral(false);
    const found = await this.#ask({ op: 'hello', takesSeveral: true, talk: TALK, ...this.#hello }), { key, state, text, waiting, groups, rights, forgets, talk = TALK, edition = EDITION } = found;
    if (talk !== TALK) throw new RouterError(OTHER_TALK);
    this.#channel.takeSeveral(!!found.takesSeveral);
    if (this.#hello.invitation) this.#hello.invitation = undefined;
    if (forgets) this.#forgets(forgets);
    if (edition !== EDITION) this.#note(this.problems, 'a page of another version holds the connection, in another tab or behind the browser\'s back button: load all tabs of it again, or close them, when it suits you. What waits here stays', 'onProblem');
    return { key: hex(key), state, stateText: text, waiting: new Set(waiting), groups, rights };
  }

  get mayForget() {
    if (this.forgetsNow) return this.forgetsNow;
    return this.keeps ? '' : 'This browser may remove the key and what waits here when it needs room, and Safari after seven days without a visit: add the page to the home screen, or set a bookmark.';
  }

  #forgets(text) {
    if (text !== this.forgetsNow) this.#note(this.problems, this.forgetsNow = text, 'onProblem');
  }

  wake() { this.#post({ op: 'wake' }); }

  close() {
    this.#isClosed = true;
    this.#listeners.abort();
    for (const reader of this.#readers) reader.end();
    this.#fail(new NodeUnavailable('this connection to the node has been left; connect again'));
    this.#letGo();
    this.#channel.close();
  }

  async forget() {
    const untold = await this.#ask({ op: 'forget' });
    this.close();
    return untold;
  }

  #fail(error) {
    for (const { failed } of this.#asked.values()) failed(error);
    for (const one of this.#publishing.values()) one.failed(error);
    this.#asked.clear();
    this.#publishing.clear();
  }

  async whenUp() {
    while (this.state !== 'up') {
      if (this.state === 'ended' || this.#isClosed) throw new NodeUnavailable(this.stateText);
      await new Promise(done => this.#stateWaiters.push(done));
    }
  }

  #stateWaiters = [];

  #isGreeting = false;

  // -- speaking with the engine -------------------------------------------------------------------------------------

  #post(message) { if (!this.#isClosed && (!this.#isGreeting || message.op === 'hello')) this.#channel.post(message); }

  #ask(message) {
    if (this.#isClosed) return Promise.reject(new NodeUnavailable('this connection to the node has been left; connect again'));
    return new Promise((done, failed) => {
      const n = ++this.#number;
      this.#asked.set(n, { message: { ...message, n }, done, failed });
      this.#post({ ...message, n });
    });
  }

  // The engine is another one: it is told everything that it should know, and asked again. What is asked meanwhile comes behind that.
  async #again() {
    this.#channel.drop();
    this.#isGreeting = true;
    try {
      if (this.state !== 'idle') await this.#greet();
    } finally {
      this.#isGreeting = false;
    }
    for (const reader of this.#readers) this.#read(reader);
    for (const { message } of [...this.#asked.values()]) this.#post({ ...message, isNew: false });
    for (const { request, isKept } of this.#publishing.values()) if (isKept) this.#post({ ...request, isNew: false });
  }

  #heard(message) {
    this.#channel.hasAnswered = true;
    if (message.several) return message.several.forEach(one => { try { this.#heard(one); } catch (error) { reportError(error); } });
    if (message.re !== undefined) return this.#answered(message);
    switch (message.event) {
      case 'message': return this.#message(message);
      case 'begun': for (const reader of this.#readers) reader.isBegun ||= reader.n === message.n; return undefined;
      case 'custody': case 'refused': return this.#fate(message);
      case 'outcome': return this.#outcome(message);
      case 'state': return this.#stateIs(message);
      case 'problem': return this.#note(this.problems, message.text, 'onProblem');
      case 'missed': return this.#note(this.missed, { ...message, reason: reasonOf(message.number).word }, 'onMissed');
      case 'report': return this.#note(this.reports, { ...message, reason: reasonOf(message.number).word }, 'onReport');
      case 'turned-away': return this.#call('onTurnedAway', new Refused({ number: message.number, text: '' }));
      case 'forgets': return this.#forgets(message.text);
      case 'terms': this.rights = message.rights; return this.#call('onTerms', rightsOf(message.rights), message);
      default: return undefined;
    }
  }

  #answered({ re, answer, error }) {
    const asked = this.#asked.get(re);
    this.#asked.delete(re);
    if (error) asked?.failed(errorOf(error));
    else asked?.done(answer);
  }

  #stateIs({ state, text }) {
    const was = this.state;
    Object.assign(this, { state, stateText: text });
    for (const done of this.#stateWaiters.splice(0)) done();
    if (state !== was || state !== 'up') this.#call(state === 'up' ? 'onUp' : 'onAway', text, state);
  }

  #note(list, what, call) {
    list.push(what);
    if (list.length > SAID_MAX) list.shift();
    this.#call(call, what);
  }

  #call(name, ...what) { this.told[name]?.(...what); }

  // -- groups and messages ------------------------------------------------------------------------------------------

  async join(given = this.link?.group ?? undefined, { order = 'arrival', gap_s, raw } = {}) {
    if (order !== 'arrival' && order !== 'causal') throw new RouterError(`order is "arrival" or "causal", not "${order}"`);
    const how = { op: 'join', order, gap_s, raw };
    const group = typeof given === 'string' && given.includes('upsycle:') ? readLinkOf(given).group : given;
    if (!group) throw new RouterError('which group? Give its link, an invitation to it, or its name here');
    const found = await this.#ask(typeof group === 'string' ? { ...how, name: this.#nameOf(group) } : { ...how, group });
    this.groups = [...this.groups.filter(([name]) => name !== found.name), [found.name, found.title, found.maySend]];
    return new Group(this, found.name, found.title, found.maySend);
  }

  group(given) {
    const found = this.groups.find(([name]) => name === this.#nameOf(given));
    if (!found) throw new RouterError(`no group "${given}" has been joined here`);
    return new Group(this, ...found);
  }

  #nameOf(given) {
    return this.groups.find(([name, title]) => name === given || title === given)?.[0] ?? given;
  }

  async leave(group) {
    await this.#ask({ op: 'leave', group: group.key });
    this.groups = this.groups.filter(([name]) => name !== group.key);
  }

  send(key, body, options = {}) {
    return this.publish({ to: typeof key === 'string' ? unhex(key) : key }, body, options);
  }

  // Resolve with the id on custody. `onKept(id, onDisk)`: it is signed and kept here, and will be sent.
  async publish(to, body, { ttl_s = TTL_S, expiry_min = EXPIRY_MIN, wait = false, raw, onKept, key: given } = {}) {
    if (!(body instanceof Uint8Array)) throw new TypeError(`a body is bytes, not ${typeof body}${typeof body === 'string' ? '; say new TextEncoder().encode(body)' : ''}`);
    if (!Number.isInteger(ttl_s) || ttl_s < 0 || ttl_s > UINT32_MAX) throw new RangeError(`a ttl has 0 to ${UINT32_MAX} seconds, not ${ttl_s}`);
    if (!Number.isInteger(expiry_min) || expiry_min < 1) throw new RangeError(`an expiry of ${expiry_min} minutes is over at once; give at least 1`);
    if (wait && !this.asksOutcomes) throw new RouterError('outcomes are told to apps that ask for them: connect({ outcomes: true })');
    const key = given ?? crypto.randomUUID(), request = { op: 'publish', isNew: !given, ...to, body: body.slice(), ttl: ttl_s, minutes: expiry_min, asked: key, raw };
    const custody = new Promise((done, failed) => this.#publishing.set(key, { request, done, failed, early: null, isKept: false }));
    custody.catch(() => {});
    try {
      const { id, onDisk } = await this.#ask(request), one = this.#publishing.get(key);
      const outcomes = wait ? this.follow(id) : null;
      if (one) Object.assign(one, { id, isKept: true });
      onKept?.(id, onDisk);
      if (one?.early) this.#end(key, one.early);
      await custody;
      return outcomes ?? id;
    } finally {
      this.#publishing.delete(key);
    }
  }

  async why(id) {
    const { why, error } = await this.#ask({ op: 'why', id });
    if (!why) throw new RouterError(`the node did not tell: ${error}`);
    return { problem: why.problem, outcomes: why.outcomes.map(([state, reason, count, , beyond]) => ({ state, reason, count, beyond })) };
  }

  follow(id) {
    const found = this.#following.get(id) ?? new Outcomes(id);
    this.#following.set(id, found);
    if (this.#following.size > FOLLOWED_MAX) this.#following.delete(this.#following.keys().next().value);
    return found;
  }

  #fate(fate) {
    this.waiting?.delete(fate.id);
    const one = this.#publishing.get(fate.asked);
    if (one && !one.isKept) one.early = fate;
    else if (one) this.#end(fate.asked, fate);
    if (fate.event === 'custody') this.#call('onCustody', fate.id);
    else this.#call('onRefused', fate.id, new Refused(fate, fate.id));
  }

  #end(key, fate) {
    const one = this.#publishing.get(key);
    this.#publishing.delete(key);
    if (fate.event === 'custody') one.done();
    else one.failed(new Refused(fate, fate.id));
  }

  #outcome({ id, recipients }) {
    const outcomes = this.#following.get(id), rows = recipients.map(one => ({ ...one, reason: one.number === null ? null : reasonOf(one.number).word }));
    outcomes?.hear(rows);
    if (outcomes?.complete) this.#following.delete(id);
    this.#call('onOutcome', id, rows);
  }

  messages(options) { return new Reader(this, ALL, options); }
  unicasts(options) { return new Reader(this, UNICASTS, options); }
  [Symbol.asyncIterator]() { return this.messages(); }

  #message(found) {
    for (const reader of this.#readers) if (reader.isBegun && (reader.address === ALL || reader.address === found.address)) reader.hear(new Message(this, found));
  }

  // Used by readers and messages.
  begins(reader) {
    reader.n = ++this.#number;
    this.#readers.add(reader);
    const left = this.#left.get(reader.address);
    this.#left.delete(reader.address);
    if (left && !left.isDone) reader.takesOver(left);
    this.#read(reader);
  }

  #read({ address, n }) { this.#post({ op: 'read', address, reader: n }); }

  #left = new Map();

  ends(reader, held) {
    this.#readers.delete(reader);
    if (held) this.#left.set(reader.address, held);
    if (![...this.#readers].some(({ address }) => address === reader.address)) this.#post({ op: 'unread', address: reader.address });
  }

  settle(id) { return this.#ask({ op: 'settle', id }).then(() => this.#over(id)); }

  refuse(id, { number, later }, why) {
    this.#over(id);
    return this.#ask({ op: 'refuse', id, reason: number, text: why, later });
  }

  // Should it come again, it is another turn of it.
  #over(id) { for (const reader of this.#readers) reader.over(id); }
}

export class Group {
  constructor(node, key, name, maySend) { Object.assign(this, { node, key, name, maySend }); }

  publish(body, options) { return this.node.publish({ group: this.key }, body, options); }
  messages(options) { return new Reader(this.node, this.key, options); }
  leave() { return this.node.leave(this); }
  [Symbol.asyncIterator]() { return this.messages(); }
}

export class Message {
  #node;
  isDone = false;

  constructor(node, { event, address, ...found }) {
    this.#node = node;
    Object.assign(this, found, { group: address || null });
  }

  async settle() {
    if (this.isDone) return;
    this.isDone = true;
    await this.#node.settle(this.id).catch(error => { this.isDone = false; throw error; });
  }

  async refuse(reason = 'peer-refused', why = '') {
    const found = reasonOf(numberOf(reason));
    if (this.isDone) return;
    this.isDone = true;
    await this.#node.refuse(this.id, found, why.slice(0, 200));
  }
}

// A loop. Asking for the next message settles the one before, unless `settleOnNext` is false.
class Reader {
  #queue = [];
  #ids = new Set();
  #held = null;
  #waiters = [];
  #isEnded = false;
  #settles;
  #node;

  constructor(node, address, { settleOnNext = true } = {}) {
    this.#node = node;
    this.#settles = settleOnNext;
    this.address = address;
    node.begins(this);
  }

  hear(message) {
    if (this.#isEnded || this.#ids.has(message.id)) return;
    this.#ids.add(message.id);
    this.#queue.push(message);
    this.#waiters.shift()?.();
  }

  over(id) { this.#ids.delete(id); }

  // What the loop before this one held when it was left is settled when this one asks.
  takesOver(message) {
    this.#ids.add(message.id);
    this.#held = message;
  }

  [Symbol.asyncIterator]() { return this; }

  async next() {
    if (this.#held) this.#settled(this.#held);
    this.#held = null;
    while (!this.#queue.length) {
      if (this.#isEnded) return { done: true, value: undefined };
      await new Promise(done => this.#waiters.push(done));
    }
    const message = this.#queue.shift();
    if (this.#settles) this.#held = message;
    return { done: false, value: message };
  }

  // What was handled is gathered on its way to the disk, and not waited for; a message that could not be kept comes again.
  #settled(message) {
    message.settle().catch(error => this.#node.problems.push(`a message could not be kept as handled, and comes again: ${error.message}`));
  }

  async return() {
    this.end();
    return { done: true, value: undefined };
  }

  end() {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#queue = [];
    this.#node.ends(this, this.#held);
    for (const done of this.#waiters.splice(0)) done();
  }
}

// What becomes of a published message, recipient by recipient, or in numbers.
export class Outcomes {
  #states = new Map();
  #numbers = new Map();
  #unread = [];
  #waiters = [];
  #isHeard = false;

  constructor(id) { this.id = id; }

  get recipients() {
    return [...this.#states.values(), ...[...this.#numbers].filter(([, count]) => count).map(([state, recipient]) => ({ recipient, state, number: null, reason: null }))];
  }

  get complete() { return this.#isHeard && this.recipients.every(({ state }) => TERMINAL.has(state)); }

  hear(rows) {
    for (const row of rows) {
      if (typeof row.recipient === 'number') this.#count(row.recipient, row.state);
      else this.#states.set(row.recipient, row);
    }
    this.#isHeard = true;
    this.#unread.push(...rows);
    for (const done of this.#waiters.splice(0)) done();
  }

  #count(number, state) {
    if (this.#isHeard && TERMINAL.has(state)) this.#numbers.set('queued', Math.max(0, (this.#numbers.get('queued') ?? 0) - number));
    this.#numbers.set(state, (this.#numbers.get(state) ?? 0) + number);
  }

  // All recipients once all have come to an end, or as they are after that many seconds.
  async final(timeout_s = Infinity) {
    const over = timeout_s === Infinity ? new Promise(() => {}) : new Promise(done => setTimeout(done, 1000 * timeout_s, true));
    while (!this.complete) if (await Promise.race([over, new Promise(done => this.#waiters.push(done))])) break;
    return this.recipients;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#unread.length) yield this.#unread.shift();
      if (this.complete) return;
      await new Promise(done => this.#waiters.push(done));
    }
  }
}

// The link of a new group: whoever has it may read and send there.
export async function newGroup(name = '') {
  if (text(name).length > NAME_BYTES_MAX) throw new RouterError(`a group's name has ${NAME_BYTES_MAX} bytes at most`);
  const seed = random(32), { public: key } = await keyOfSeed(seed);
  return groupLink({ key, contentKey: random(32), seed, name });
}

export function rightsOf(number) {
  return Object.keys(RIGHTS).filter(one => number & RIGHTS[one]);
}

function readLinkOf(given) {
  try {
    return readLink(given);
  } catch (error) {
    throw new RouterError(error.message);
  }
}

function errorOf({ kind, text, number }) {
  if (number !== undefined) return new Refused({ number, text });
  return kind === 'StoreError' ? new StorageError(text) : new RouterError(text);
}
