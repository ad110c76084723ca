// The one end of all tabs: it holds key, outbox and connection, and answers the tabs (their side is router.js).
import { Causes } from './causes.js';
import { Dialling } from './dialling.js';
import { Refusal } from './errors.js';
import { Inbox, UNICASTS } from './inbox.js';
import { keyOfSeed, newKey, signWith, verify } from './keys.js';
import { OUTBOX_MESSAGES_MAX, Outbox } from './outbox.js';
import { openStore, removeStore } from './store.js';
import { Malformed, decode, digest, encode, expiryMin, hex, openForGroup, random, readMessage, sealForGroup, sealMulticast, sealUnicast, unhex } from './wire.js';

const CONTROL = { join: 1, joinAck: 2, leave: 3, leaveAck: 4, report: 6, redeem: 9, redeemed: 10, askTerms: 12, terms: 13 };
const CONTROL_LIFE_MIN = 60;
const CLOCK_OFF_MS = 90000;
const LEFT = 25, PEER_REFUSED = 24, BAD_SIGNATURE = 4;
const GOODBYE_MS = 5000;
const COMPOSED_AT_ONCE = 64;
const ALIKE_MAX = 4096;
const JOIN = 1;

export class Engine {
  #tabs = new Map();
  #groups = new Map();
  #joining = new Map();
  #toCompose = [];
  #isComposing = false;
  #alike = new Map();
  #arrivals = Promise.resolve();
  #ahead = 0;
  #pulse = 0;
  state = { state: 'idle', text: '' };

  // `post(tab, message)` reaches a tab; `signer` has `public` and `sign(bytes)`, else a key is made and kept here.
  static async open(name, signer, post) {
    const engine = new Engine();
    Object.assign(engine, { name, post });
    engine.store = await openStore(name, sentence => engine.#gone(sentence));
    await engine.#load(signer);
    return engine;
  }

  async #load(signer) {
    const { store } = this, kept = await store.load(this.nowMin());
    this.handled = new Set(kept.handledKeys);
    this.key = signer ?? await this.#ownKey();
    this.sign = signer ? bytes => signer.sign(bytes) : signWith(this.key.secret);
    this.epoch = await this.#kept('epoch', () => random(8));
    this.where = await store.get('where') ?? null;
    this.invitation = await store.get('invitation') ?? null;
    this.outbox = new Outbox(store, (row, refusal) => this.#sent(row, refusal));
    this.inbox = new Inbox(store, this.handled, { given: message => this.#given(message), isRead: address => this.#readers(address).length > 0,
      records: name => this.#groups.get(name), problem: text => this.#problem(text), nowMin: () => this.nowMin() });
    kept.groupsKeys.forEach((name, i) => this.#remember(name, kept.groups[i]));
    kept.outboxKeys.forEach((key, i) => this.outbox.add(key, kept.outbox[i]));
    this.dialling = new Dialling(() => this.#offer(), (state, text) => this.#state(state, text));
    if (this.where) this.dialling.start();
  }

  async #ownKey() {
    return this.#kept('key', newKey);
  }

  async #kept(name, make) {
    const found = await this.store.get(name);
    if (found) return found;
    const made = await make();
    await this.store.put(name, made);
    return made;
  }

  #remember(name, kept) {
    const group = { name, kept, causes: new Causes(kept), isJoined: false };
    this.#groups.set(name, group);
    return group;
  }

  nowMs() { return Date.now() + this.#ahead; }
  nowMin() { return expiryMin(this.nowMs() / 1000); }

  // -- the tabs -----------------------------------------------------------------------------------------------

  // A tab says hello, or something after it; each answer names the question.
  async hear(tab, said) {
    try {
      const answer = await this.#answer(tab, said);
      if (said.n !== undefined) this.post(tab, { re: said.n, answer });
    } catch (error) {
      this.post(tab, { re: said.n, error: error instanceof Refusal ? { number: error.number, text: error.text } : { kind: error.constructor.name, text: error.message } });
    }
  }

  #answer(tab, said) {
    switch (said.op) {
      case 'hello': return this.#hello(tab, said);
      case 'join': return this.#join(said.group, said.name);
      case 'leave': return this.#leave(said.group);
      case 'publish': return this.#publish(said);
      case 'read': return this.#read(tab, said.address);
      case 'unread': return void this.#tabs.get(tab)?.delete(said.address);
      case 'settle': return this.inbox.settle(said.id);
      case 'refuse': return this.inbox.turnDown(said.id, said.reason, said.text);
      case 'wake': return this.dialling.wake();
      case 'waiting': return this.outbox.ids();
      case 'forget': return this.#forget();
      default: throw new Error(`this page is of another version than the others that are open: close them, then load it again`);
    }
  }

  async #hello(tab, { url, expect, invitation }) {
    if (!this.#tabs.has(tab)) this.#tabs.set(tab, new Set());
    if (url && (url !== this.where?.url || this.dialling.isFinal || invitation)) await this.#moveTo({ url, expect }, invitation);
    return { key: this.key.public, ...this.state, waiting: this.outbox.ids(), rights: this.rights ?? null, expect: this.where?.expect ?? null,
      groups: [...this.#groups.values()].map(one => [one.name, one.kept.name, !!one.kept.signer]) };
  }

  async #moveTo(where, invitation) {
    const redeemed = await this.store.get('redeemed');
    const isNew = invitation && hex(digest(invitation.secret)) !== redeemed;
    if (where.url === this.where?.url && !isNew && !this.dialling.isFinal) return;
    this.where = where;
    await this.store.put('where', where);
    if (isNew) await this.store.put('invitation', this.invitation = invitation);
    this.dialling.stop(LEFT, 'the app dials anew');
    this.dialling = new Dialling(() => this.#offer(), (state, text) => this.#state(state, text));
    this.dialling.start();
  }

  gone(tab) { this.#tabs.delete(tab); }

  #tell(event) {
    for (const tab of this.#tabs.keys()) this.post(tab, event);
  }

  #problem(text) { this.#tell({ event: 'problem', text }); }

  #state(state, text = '') {
    this.state = { state, text };
    if (state === 'ended') this.#denyAll(new Error(text));
    this.#tell({ event: 'state', state, text });
  }

  #gone(text) {
    this.dialling.stop(LEFT, 'the browser has removed this app\'s data');
    this.#state('ended', text);
  }

  async #forget() {
    this.dialling.stop(LEFT, 'the app is forgotten here');
    this.#state('ended', 'forgotten here: the key, the groups and what waited are gone');
    this.store.close();
    await removeStore(this.name);
  }

  // -- the connection -------------------------------------------------------------------------------------------

  #offer() {
    const hear = {
      up: () => this.#up(),
      message: (wire, k) => this.#heard(wire, k),
      settled: keys => { this.outbox.settle(keys); this.#pump(); },
      refused: (key, number, text) => key !== undefined && this.outbox.refuse(key, new Refusal(number, text)),
      outcome: (ids, rows) => this.#outcome(ids, rows),
      missed: (group, count, number) => this.#tell({ event: 'missed', group: group && hex(group), count, number }),
      redelivered: count => this.inbox.redelivered(count),
      pong: (sent, came, answered) => this.#clock(sent, came, answered),
    };
    return { ...this.where, key: this.key.public, sign: this.sign, epoch: this.epoch, hear };
  }

  get link() { return this.dialling.link; }

  // The node's clock comes first: what is signed by a clock that is a year off would be refused as expired.
  #up() {
    this.dialling.up();
    this.inbox.begin(this.link);
    this.link.ping();
  }

  #begun() {
    this.isBegun = this.link;
    if (this.invitation) this.#say([CONTROL.redeem, { inv: this.invitation.secret, ...(this.invitation.as ? { name: this.invitation.as } : {}) }]);
    else this.#signOn();
  }

  #signOn() {
    this.#state('up');
    for (const group of this.#groups.values()) this.#askToJoin(group);
    this.#say([CONTROL.askTerms, {}]);
    this.outbox.restart();
    this.isSignedOn = this.link;
    this.#pump();
  }

  #pump() {
    if (this.link?.isUp && this.isSignedOn === this.link) this.outbox.pump(this.link);
  }

  // Say something to the node itself, on this connection alone.
  async #say(body) {
    const link = this.link;
    const wire = await sealUnicast(this.key.public, link.router, encode(body), { ttl: 0, exp: this.nowMin() + CONTROL_LIFE_MIN + this.#pulse++ % 60 }, this.sign);
    if (link.isUp) link.send(wire);
  }

  #clock(sent, came, answered) {
    const ahead = Math.round((came - sent + answered - Date.now()) / 2);
    if (Math.abs(ahead) > CLOCK_OFF_MS && Math.abs(ahead - this.#ahead) > CLOCK_OFF_MS) {
      this.#problem(`the clock here is ${Math.abs(Math.round(ahead / 60000))} minutes ${ahead > 0 ? 'behind' : 'ahead of'} the node's: the node's is used; set yours`);
    }
    this.#ahead = Math.abs(ahead) > CLOCK_OFF_MS ? ahead : 0;
    if (this.isBegun !== this.link) this.#begun();
  }

  // -- groups ---------------------------------------------------------------------------------------------------

  async #join(given, name) {
    let group = given ? await this.#groupOf(given) : this.#groups.get(name);
    if (!group) throw new Error('no such group here: give its link, or an invitation to it');
    const known = { name: group.name, title: group.kept.name, maySend: !!group.kept.signer };
    if (group.isJoined || group.kept.wasJoined) return known;
    const granted = new Promise((done, failed) => this.#joining.set(group.name, [...(this.#joining.get(group.name) ?? []), { done, failed }]));
    if (this.state.state === 'ended') this.#denyAll(new Error(this.state.text));
    if (this.isSignedOn && this.isSignedOn === this.link) this.#askToJoin(group);
    await granted;
    return known;
  }

  async #groupOf({ key, contentKey, seed, name }) {
    const signer = seed ? await keyOfSeed(seed) : null;
    const id = hex(signer ? signer.public : key), known = this.#groups.get(id);
    const kept = { ...(known?.kept ?? { seq: 0, recent: [], heads: [], wasJoined: false, signer: null }), key: unhex(id), contentKey, name };
    if (signer) kept.signer = signer.secret;
    await this.store.putGroup(id, kept);
    if (!known) return this.#remember(id, kept);
    Object.assign(known.kept, kept);
    return known;
  }

  #askToJoin(group) { this.#say([CONTROL.join, { addr: group.kept.key, local: false }]); }

  async #leave(name) {
    const group = this.#groups.get(name);
    if (!group) return;
    this.#groups.delete(name);
    await this.store.dropGroup(name);
    if (this.isSignedOn && this.isSignedOn === this.link) this.#say([CONTROL.leave, { addr: group.kept.key }]);
  }

  #joined({ addr, result }) {
    const name = hex(addr), group = this.#groups.get(name), waiting = this.#joining.get(name) ?? [];
    if (!group) return;
    this.#joining.delete(name);
    group.isJoined = result === 0;
    if (group.isJoined && !group.kept.wasJoined) {
      group.kept.wasJoined = true;
      this.store.putGroup(name, group.kept).catch(error => this.#problem(error.message));
    }
    if (group.isJoined) for (const one of waiting) one.done();
    else {
      for (const one of waiting) one.failed(new Refusal(9, 'the node does not let this key into the group'));
      this.#problem(`the node does not let this key into ${group.kept.name ?? name.slice(0, 8)}: ask for an invitation that grants join`);
    }
  }

  #denyAll(error) {
    for (const waiting of this.#joining.values()) for (const one of waiting) one.failed(error);
    this.#joining.clear();
  }

  // -- publishing -----------------------------------------------------------------------------------------------

  // Resolve with the id once the message is signed and on disk; that it is in custody, or refused, is told to all tabs.
  async #publish(request) {
    if (request.asked) {
      const before = await this.store.asked(request.asked);
      if (before) {
        if (!this.outbox.has(before.id)) this.#tell(before.refusal ? { event: 'refused', ...before.refusal, asked: request.asked, id: before.id } : { event: 'custody', asked: request.asked, id: before.id });
        return { id: before.id };
      }
    }
    if (this.outbox.isFull) throw new Refusal(16, `${OUTBOX_MESSAGES_MAX} messages, or 64 MiB, wait here for the node already`);
    return new Promise((done, failed) => {
      this.#toCompose.push({ request, done, failed });
      this.#compose();
    });
  }

  // One transaction writes what was signed since the last; a number is taken with the message that bears it, or not at all.
  async #compose() {
    if (this.#isComposing) return;
    this.#isComposing = true;
    while (this.#toCompose.length) await this.#composeSome(this.#toCompose.splice(0, COMPOSED_AT_ONCE));
    this.#isComposing = false;
  }

  async #composeSome(some) {
    const rows = [], made = [], before = new Map();
    for (const one of some) {
      try {
        const name = one.request.group;
        if (name && this.#groups.has(name) && !before.has(name)) before.set(name, this.#groups.get(name).kept.seq);
        rows.push(await (name ? this.#multicast(one.request) : this.#unicast(one.request)));
        made.push(one);
      } catch (error) {
        one.failed(error);
      }
    }
    try {
      const groups = [...before.keys()].map(name => [name, this.#groups.get(name).kept]);
      const keys = rows.length ? await this.store.publish(rows, groups) : [];
      keys.forEach((key, i) => this.outbox.add(key, rows[i]));
      made.forEach((one, i) => one.done({ id: rows[i].id, seq: rows[i].seq }));
    } catch (error) {
      for (const row of rows) this.#groups.get(row.group)?.causes.refused(row.id);
      for (const [name, seq] of before) this.#groups.get(name).kept.seq = seq;
      for (const one of made) one.failed(error);
    }
    this.#pump();
  }

  async #multicast({ group: name, body, ttl, minutes, asked }) {
    const group = this.#groups.get(name);
    if (!group) throw new Error('this group was left; join it again');
    const { kept, causes } = group;
    if (!kept.signer) throw new Error('the link of this group is for reading only; ask a sender of the group for a full one');
    const nowMin = this.nowMin(), exp = expiryMin(this.nowMs() / 1000 + 60 * minutes), deps = causes.heads(nowMin), seq = kept.seq;
    const sealed = await sealForGroup({ group: kept.key, contentKey: kept.contentKey, from: this.key.public, seq, deps: deps.map(unhex), content: body }, this.sign);
    const wire = await sealMulticast(kept.key, sealed, { ttl, exp, sn: causes.seen(nowMin).map(unhex) }, signWith(kept.signer));
    const { id } = readMessage(wire);
    kept.seq = seq + 1;
    if (ttl > 0) causes.published(id, exp, deps);
    else causes.received(id, exp);
    return { id, group: name, seq, wire, asked };
  }

  async #unicast({ to, body, ttl, minutes, asked }) {
    const exp = expiryMin(this.nowMs() / 1000 + 60 * minutes), alike = `${hex(digest(body))} ${hex(to)} ${exp}`;
    const spread = Math.min(256, Math.floor(ttl / 8) + 1), less = this.#alike.get(alike) ?? random(1)[0] % spread;
    this.#alike.set(alike, less + 1);
    if (this.#alike.size > ALIKE_MAX) this.#alike.delete(this.#alike.keys().next().value);
    const wire = await sealUnicast(this.key.public, to, body, { ttl: Math.max(0, ttl - less), exp }, this.sign);
    return { id: readMessage(wire).id, group: null, seq: null, wire, asked };
  }

  #sent(row, refusal) {
    const causes = this.#groups.get(row.group)?.causes;
    if (refusal) causes?.refused(row.id);
    else causes?.kept(row.id);
    this.#tell(refusal ? { event: 'refused', asked: row.asked, id: row.id, number: refusal.number, text: refusal.text } : { event: 'custody', asked: row.asked, id: row.id });
  }

  #outcome(ids, rows) {
    const recipients = rows.map(([who, state, number]) => ({ recipient: typeof who === 'number' ? who : hex(who), state, number: number ?? null }));
    for (const id of ids) this.#tell({ event: 'outcome', id, recipients });
  }

  // -- receiving ------------------------------------------------------------------------------------------------

  // Messages are opened side by side, and arrive in their order.
  #heard(wire, k) {
    const link = this.link, opened = this.#open(wire, link).catch(error => error);
    this.#arrivals = this.#arrivals.then(async () => this.#arrive(link, k, await opened)).catch(error => this.#problem(`a message could not be handled: ${error.message}`));
  }

  async #open(wire, link) {
    const message = readMessage(wire), from = { id: message.id, exp: message.exp, ttl: message.ttl, via: message.via, at: Date.now() };
    if (message.type === 0) {
      const isNode = hex(message.source) === hex(link.router);
      if (!isNode && !await verify(message.signature, message.signed, message.source)) throw new Malformed('its signature does not fit');
      return isNode ? { control: decode(message.body) } : { ...from, address: UNICASTS, source: message.source, sender: null, body: message.body, deps: [], said: null };
    }
    const address = hex(message.group), group = this.#groups.get(address);
    if (!group) throw new Malformed('this app has left the group');
    const said = await openForGroup(message.body, group.kept.key, group.kept.contentKey, verify);
    return { ...from, address, source: null, sender: said.sender, seq: said.seq, code: said.code, body: said.content, deps: said.deps.map(hex), said: said.said };
  }

  #arrive(link, k, found) {
    if (found instanceof Error) {
      if (link === this.link) this.#problem(`a message could not be opened: ${found.message}`);
      return this.inbox.refuse(link, k, /signature|signed/.test(found.message) ? BAD_SIGNATURE : PEER_REFUSED, found.message.slice(0, 200));
    }
    if (found.control) {
      this.inbox.pass(link, k);
      return this.#hearNode(found.control, link);
    }
    if (found.sender) this.#groups.get(found.address)?.causes.received(found.id, found.exp);
    return this.inbox.arrive(link, k, found);
  }

  #readers(address) {
    return [...this.#tabs].filter(([, reads]) => reads.has(address) || reads.has(null)).map(([tab]) => tab);
  }

  #given(message) {
    const readers = this.#readers(message.address);
    for (const tab of readers) this.post(tab, shown(message));
    return readers.length > 0;
  }

  #read(tab, address) {
    this.#tabs.get(tab)?.add(address);
    this.inbox.read(address, message => this.post(tab, shown(message)));
  }

  // -- what the node itself says ----------------------------------------------------------------------------------

  // What it said before a goodbye counts too, but for the answers to what is asked again on each connection.
  #hearNode([type, fields], link) {
    switch (type) {
      case CONTROL.joinAck: return link === this.link ? this.#joined(fields) : undefined;
      case CONTROL.report: return this.#tell({ event: 'report', id: hex(fields.id), to: hex(fields.dst), state: fields.state, number: fields.reason });
      case CONTROL.redeemed: return this.#redeemed(fields, link);
      case CONTROL.terms: return this.#terms(fields);
      default: return undefined;
    }
  }

  async #redeemed({ result, gr, had }, link) {
    if (!this.invitation) return;
    const { secret } = this.invitation;
    this.invitation = null;
    await this.store.drop('invitation');
    if (result) {
      this.#denyAll(new Refusal(result));
      this.#tell({ event: 'turned-away', number: result });
    } else {
      await this.store.put('redeemed', hex(digest(secret)));
      this.#terms({ result: 0, gr, exp: 0 });
    }
    if (result || had || !(gr & JOIN)) this.#signOnAt(link);
    else setTimeout(() => this.#signOnAt(link), GOODBYE_MS);  // a newcomer that may join is told to sign on again
  }

  #signOnAt(link) {
    if (link === this.link && link.isUp && this.isSignedOn !== link) this.#signOn();
  }

  #terms({ result, gr, exp }) {
    this.rights = gr;
    this.#tell({ event: 'terms', rights: gr, exp, number: result });
  }
}

function shown({ id, address, source, sender, seq, deps, body, via, at, redelivered }) {
  return { event: 'message', id, address, source: source && hex(source), sender: sender && hex(sender), seq, deps, body, via: via && hex(via), at, redelivered };
}
