// The one end of all tabs: it holds key, outbox and connection, and answers the tabs (their side is router.js).
import { CausalOrder } from './causal.js';
import { Causes } from './causes.js';
import { Composer } from './composer.js';
import { Dialling } from './dialling.js';
import { EDITION } from './edition.js';
import { Refusal, reasonOf } from './errors.js';
import { Inbox } from './inbox.js';
import { keyOfSeed, newKey, signWith } from './keys.js';
import { open } from './opening.js';
import { OUTBOX_MESSAGES_MAX, Outbox } from './outbox.js';
import { openStore, removeStore } from './store.js';
import { OTHER_TALK, TALK } from './talk.js';
import { digest, expiryMin, hex, random, unhex, words } from './wire.js';

const CONTROL = { join: 1, joinAck: 2, leave: 3, leaveAck: 4, report: 6, ask: 7, answer: 8, redeem: 9, redeemed: 10, askTerms: 12, terms: 13 };
const CLOCK_OFF_MS = 90000;
const LEFT = 25, PEER_REFUSED = 24, BAD_SIGNATURE = 4, NOT_AUTHORISED = 9;
const GOODBYE_MS = 5000, ASK_AGAIN_MS = 2000, ANSWER_MS = 10000, LEAVE_MS = 3000;
const GAP_S = 30, EDITION_MS = 5000;
const OTHER_EDITION = 'the node serves another version of this page by now: load the page again, in all its tabs, when it suits you. What waits here stays';
const COMPOSED_AT_ONCE = 256;
const JOIN = 1;
const PREKEY_ASKED = '8214a0', NO_PREKEY = '8215f6';

export class Engine {
  #tabs = new Map();
  #groups = new Map();
  #joining = new Map();
  #toCompose = [];
  #isComposing = false;
  #arrivals = Promise.resolve();
  #questions = [];
  #ahead = 0;
  forgets = '';
  state = { state: 'idle', text: '' };

  // `post(tab, message)` reaches a tab; `signer` has `public` and `sign(bytes)`, else a key is made and kept here.
  static async open(name, signer, post) {
    const engine = new Engine();
    Object.assign(engine, { name, post });
    engine.store = await openStore(name, sentence => engine.#trouble(sentence), sentence => engine.#superseded(sentence));
    await engine.#load(signer);
    return engine;
  }

  async #load(signer) {
    const { store } = this, kept = await store.load();
    this.handled = new Set(kept.handledKeys);
    this.key = signer ?? await this.#kept('key', newKey);
    this.sign = signer ? async bytes => signer.sign(bytes) : signWith(this.key.secret);
    this.firstSeq = kept.firstSeq;
    this.composer = new Composer(this);
    this.epoch = await this.#kept('epoch', () => random(8));
    this.where = await store.get('where') ?? null;
    this.invitation = await store.get('invitation') ?? null;
    this.outbox = new Outbox(store, (row, refusal) => this.#sent(row, refusal), () => this.nowMs());
    this.inbox = new Inbox(store, this.handled, { given: message => this.#given(message), isRead: address => this.#readers(address).length > 0,
      records: name => this.#groups.get(name), problem: text => this.#problem(text), nowMin: () => this.nowMin() });
    kept.groupsKeys.forEach((name, i) => this.#remember(name, kept.groups[i]));
    kept.outboxKeys.forEach((key, i) => this.outbox.add(key, kept.outbox[i]));
    this.dialling = new Dialling(() => this.#offer(), (state, text) => this.#state(state, text));
    if (this.where && !store.isOver) this.dialling.start();
  }

  async #kept(name, make) {
    const found = await this.store.get(name);
    if (found) return found;
    const made = await make();
    await this.store.put(name, made);
    return made;
  }

  #remember(name, kept) {
    const group = { name, kept, causes: new Causes(kept), isJoined: false, order: null };
    this.#groups.set(name, group);
    return group;
  }

  nowMs() { return Date.now() + this.#ahead; }
  nowMin() { return expiryMin(this.nowMs() / 1000); }

  // -- the tabs ------------------------------------------------------------------------------------

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
      case 'why': return this.#ask('why', said.id);
      case 'hello': return this.#hello(tab, said);
      case 'join': return this.#join(said);
      case 'leave': return this.#leave(said.group);
      case 'publish': return this.#publish(said);
      case 'read': return this.#read(tab, said);
      case 'unread': return void this.#tabs.get(tab)?.delete(said.address);
      case 'settle': return this.inbox.settle(said.id);
      case 'refuse': return this.inbox.turnDown(said.id, said.reason, said.text, said.later);
      case 'wake': return this.dialling.wake();
      case 'forget': return this.#forget();
      default: throw new Error(OTHER_TALK);
    }
  }

  async #hello(tab, { url, expect, invitation, key, talk = TALK }) {
    if (talk !== TALK) throw new Error(OTHER_TALK);
    this.store.mustBeOurs();
    if (key && key !== hex(this.key.public)) throw new Error('another tab uses this name with another key: close it, or give each key a name of its own');
    if (!this.#tabs.has(tab)) this.#tabs.set(tab, new Set());
    if (url && (url !== this.where?.url || this.dialling.isFinal || invitation)) await this.#moveTo({ url, expect }, invitation);
    else if (this.where && this.dialling.isFinal) this.dialling.start();
    return { takesSeveral: true, talk: TALK, edition: EDITION, forgets: this.forgets, key: this.key.public, ...this.state, waiting: this.outbox.ids(), rights: this.rights ?? null, expect: this.where?.expect ?? null,
      groups: this.#present().map(one => [one.name, one.kept.name, !!one.kept.signer]) };
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

  // The browser keeps nothing: all goes on in memory.
  #trouble(text) {
    this.forgets = text;
    this.#tell({ event: 'forgets', text });
  }

  // A newer version of the page has what is kept: nothing is said from here any more.
  #superseded(text) {
    this.dialling?.stop(LEFT, 'a newer version of the page goes on');
    this.#state('ended', text);
  }

  // The node may have been started again with other files since these were loaded.
  async #askEdition() {
    if (!EDITION || this.isOtherEdition) return;
    const now = await fetch(new URL('./edition.js', import.meta.url), { cache: 'no-store', signal: AbortSignal.timeout(EDITION_MS) }).then(answer => answer.ok ? answer.text() : '', () => '');
    this.isOtherEdition = /'[0-9a-f]+'/.test(now) && !now.includes(`'${EDITION}'`);
    if (this.isOtherEdition) this.#problem(OTHER_EDITION);
  }

  // Resolve with a sentence if the node could not be told, else with "".
  async #forget() {
    const isTold = await this.#leaveAll();
    this.dialling.stop(LEFT, 'the app is forgotten here');
    this.#state('ended', 'forgotten here: the key, the groups and what waited are gone');
    this.store.close();
    await removeStore(this.name);
    return isTold ? '' : 'The node could not be told, and goes on keeping messages for this key.';
  }

  // Leave all groups; resolve with whether the node has acknowledged it.
  async #leaveAll() {
    const isDone = () => [...this.#groups.values()].every(({ kept }) => kept.isHeard);
    for (const name of this.#groups.keys()) await this.#leave(name);
    if (this.link?.isUp && !isDone()) await new Promise(done => { this.onLeft = () => isDone() && done(); setTimeout(done, LEAVE_MS); });
    return isDone();
  }

  // -- the connection ------------------------------------------------------------------------------

  #offer() {
    const hear = {
      up: () => this.#up(),
      message: (wire, k) => this.#heard(wire, k),
      settled: keys => { this.outbox.settle(keys); this.#pump(); },
      refused: (what, number, text) => what?.refused ? what.refused(new Refusal(number, text)) : this.outbox.refuse(what, new Refusal(number, text)),
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
    this.#askEdition();
    this.#follow(this.link.router);
    this.inbox.begin(this.link);
    this.link.ping();
  }

  // The node has another key, and has shown that it follows the one that was expected: from now on only the new one counts.
  #follow(router) {
    if (!this.where?.expect || hex(this.where.expect) === hex(router)) return;
    this.where = { ...this.where, expect: router };
    this.store.put('where', this.where);
  }

  #begun() {
    this.isBegun = this.link;
    if (this.invitation) this.#redeem();
    else this.#signOn();
  }

  #redeem() {
    const { secret, as } = this.invitation, again = () => this.invitation && this.#redeem();
    this.#say([CONTROL.redeem, { inv: secret, ...(as ? { name: as } : {}) }], refusal => this.#later(refusal, again, () => this.#denyAll(refusal)));
  }

  // Groups are joined, and left, before anything is said in them.
  async #signOn() {
    const { link } = this;
    this.isSignedOn = link;
    this.isDenied = false;
    for (const group of this.#groups.values()) group.isJoined = false;
    this.#state('up');
    await Promise.all([...this.#groups.values()].map(group => !group.kept.left ? this.#askToJoin(group) : group.kept.isHeard || this.#askToLeave(group)));
    this.#say([CONTROL.askTerms, {}]);
    if (link !== this.link) return;
    this.outbox.restart();
    this.mayPump = link;
    this.#pump();
  }

  #pump() {
    const { link } = this;
    if (!link?.isUp) return;
    while (link.toSay.length && link.windowRoom) link.send(...link.toSay.shift());
    if (this.mayPump === link) this.outbox.pump(link);
  }

  // Say something to the node itself, on this connection alone, before what waits; `refused(refusal)` is called if it does not take it.
  async #say(body, refused = () => {}) {
    const { link } = this;
    if (!link?.isUp) return;
    try {
      link.toSay.push([await this.composer.control(link.router, body), { refused }]);
    } catch (error) {
      this.#problem(`the node could not be asked, as the key does not sign: ${error.message}`);
    }
    this.#pump();
  }

  // What is refused for now is said again on the same connection.
  #later(refusal, again, never) {
    const { link } = this;
    if (reasonOf(refusal.number).later) setTimeout(() => link === this.link && again(), ASK_AGAIN_MS);
    else never();
  }

  // -- questions -----------------------------------------------------------------------------------

  // The node's answer, one after the other, since answers come in the order of asking.
  async #ask(word, argument) {
    const { link } = this;
    if (!link?.isUp || this.isSignedOn !== link) throw new Error('the node is away, so it cannot be asked now');
    return new Promise((done, failed) => {
      const question = { link, done, failed, timer: setTimeout(() => failed(new Error(`the node did not answer within ${ANSWER_MS / 1000} s`)), ANSWER_MS) };
      this.#questions = [...this.#questions.filter(one => one.link === link), question];
      this.#say([CONTROL.ask, { ask: word, arg: argument }], refusal => {
        this.#questions = this.#questions.filter(one => one !== question);
        clearTimeout(question.timer);
        failed(refusal);
      });
    });
  }

  #answered(text) {
    const question = this.#questions.shift();
    clearTimeout(question?.timer);
    question?.done(JSON.parse(words(text)));
  }

  #clock(sent, came, answered) {
    const now = Date.now(), ahead = Math.round((came - sent + answered - now) / 2), doubt = Math.abs(now - sent - answered + came) / 2, isOff = Math.abs(ahead) > CLOCK_OFF_MS + doubt;
    if (isOff && Math.abs(ahead - this.#ahead) > CLOCK_OFF_MS) {
      this.#problem(`the clock here is ${Math.abs(Math.round(ahead / 60000))} minutes ${ahead > 0 ? 'behind' : 'ahead of'} the node's: the node's is used; set yours`);
    }
    if (doubt < CLOCK_OFF_MS) this.#ahead = isOff ? ahead : 0;
    if (!this.isBegun) this.store.purge(this.nowMin(), this.nowMs());
    if (this.isBegun !== this.link) this.#begun();
  }

  // -- groups --------------------------------------------------------------------------------------

  // `order`, `gap_s` and `raw` say how the group is read, by all tabs: from arrival to causal only.
  async #join({ group: given, name, order, gap_s = GAP_S, raw }) {
    const group = given ? await this.#groupOf(given, raw) : this.#present().find(one => one.name === name);
    if (!group) throw new Error('no such group here: give its link, or an invitation to it');
    const { kept } = group, known = { name: group.name, title: kept.name, maySend: !!kept.signer };
    if (order === 'causal' && kept.isRaw) throw new Error('order: "causal" needs sealed bodies, which name their causes: this group is read raw');
    if (order === 'causal') group.order ??= new CausalOrder(id => this.handled.has(id), kept.newest ??= {}, 1000 * gap_s);
    if (group.isJoined || kept.wasJoined) return known;
    const granted = new Promise((done, failed) => this.#joining.set(group.name, [...(this.#joining.get(group.name) ?? []), { done, failed }]));
    if (this.state.state === 'ended') this.#denyAll(new Error(this.state.text));
    if (this.isSignedOn && this.isSignedOn === this.link) this.#askToJoin(group);
    await granted;
    return known;
  }

  #present() { return [...this.#groups.values()].filter(({ kept }) => !kept.left); }

  // A group that is known keeps its numbers and causes, whatever another tab publishes meanwhile.
  async #groupOf({ key, contentKey, seed, name }, isRaw) {
    const signer = seed ? await keyOfSeed(seed) : null, id = hex(signer ? signer.public : key);
    const group = this.#groups.get(id) ?? this.#remember(id, { key: unhex(id), seq: this.firstSeq, recent: [], heads: [], wasJoined: false, signer: null });
    Object.assign(group.kept, { contentKey, name, left: false, isHeard: false });
    if (isRaw !== undefined) group.kept.isRaw = isRaw;
    if (signer) group.kept.signer = signer.secret;
    await this.store.putGroup(id, group.kept);
    return group;
  }

  #askToJoin(group) {
    return this.#say([CONTROL.join, { addr: group.kept.key, local: false }], refusal => this.#later(refusal, () => this.#askToJoin(group), () => this.#notJoined(group, refusal)));
  }

  #askToLeave(group) { return this.#say([CONTROL.leave, { addr: group.kept.key }]); }

  // What remains of a group that is left is its next number, which is not used twice, and that the node is to hear of it.
  async #leave(name) {
    const group = this.#groups.get(name);
    if (!group || group.kept.left) return;
    clearTimeout(group.order?.timer);
    this.inbox.leaveGroup(name);
    const { key, seq } = group.kept;
    const left = this.#remember(name, { key, seq, recent: [], heads: [], wasJoined: false, signer: null, left: true });
    await this.store.putGroup(name, left.kept);
    if (this.isSignedOn && this.isSignedOn === this.link) this.#askToLeave(left);
  }

  #joined({ addr, result }) {
    const name = hex(addr), group = this.#groups.get(name), waiting = this.#joining.get(name) ?? [];
    if (!group || group.kept.left) return;
    if (result) return this.#notJoined(group, new Refusal(NOT_AUTHORISED, 'the node does not let this key into the group'));
    this.#joining.delete(name);
    group.isJoined = true;
    if (this.isDenied && this.#present().every(one => one.isJoined)) {
      this.isDenied = false;
      this.#state('up');
    }
    if (!group.kept.wasJoined) {
      group.kept.wasJoined = true;
      this.store.putGroup(name, group.kept);
    }
    for (const one of waiting) one.done();
  }

  #notJoined({ name, kept }, refusal) {
    for (const one of this.#joining.get(name) ?? []) one.failed(refusal);
    this.#joining.delete(name);
    this.#deny(`into ${kept.name ?? name.slice(0, 8)}: ask for a new invitation, that grants join`);
  }

  #deny(where) {
    const text = `the node does not let this key ${where}`;
    this.isDenied = true;
    this.#state('up', text);
    this.#problem(text);
  }

  #denyAll(error) {
    for (const waiting of this.#joining.values()) for (const one of waiting) one.failed(error);
    this.#joining.clear();
  }

  // -- publishing ----------------------------------------------------------------------------------

  // Resolve with the id once the message is signed and on disk; that it is in custody, or refused, is told to all tabs.
  async #publish(request) {
    const underWay = this.#publishing.get(request.asked);
    if (underWay) return underWay;
    const answer = this.#signedOnce(request);
    this.#publishing.set(request.asked, answer);
    try {
      return await answer;
    } finally {
      this.#publishing.delete(request.asked);
    }
  }

  // A request that came to this engine just before its tab heard of it is asked again, and signed once.
  #publishing = new Map();
  // None is signed before those that came before it, also where these are looked up first.
  #lookedUp = Promise.resolve();

  async #signedOnce(request) {
    const turn = this.#lookedUp.then(() => request.isNew ? null : this.store.asked(request.asked));
    this.#lookedUp = turn.catch(() => {});
    const before = await turn;
    if (before) {
      if (!this.outbox.has(before.id)) this.#tell(before.refusal ? { event: 'refused', ...before.refusal, asked: request.asked, id: before.id } : { event: 'custody', asked: request.asked, id: before.id });
      return { id: before.id, onDisk: !this.forgets };
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
        rows.push(await this.#composed(one.request));
        made.push(one);
      } catch (error) {
        one.failed(error);
      }
    }
    try {
      const groups = [...before.keys()].map(name => [name, this.#groups.get(name).kept]);
      const { keys, onDisk } = await this.store.publish(rows, groups, this.nowMs());
      keys.forEach((key, i) => this.outbox.add(key, rows[i]));
      for (const row of rows) if (row.group) this.handled.add(row.id);
      made.forEach((one, i) => one.done({ id: rows[i].id, seq: rows[i].seq, onDisk }));
    } catch (error) {
      for (const row of rows) this.#groups.get(row.group)?.causes.refused(row.id);
      for (const [name, seq] of before) this.#groups.get(name).kept.seq = seq;
      for (const one of made) one.failed(error);
    }
    this.#pump();
  }

  #composed(request) {
    if (!request.group) return this.composer.unicast(request);
    const group = this.#groups.get(request.group);
    if (!group || group.kept.left) throw new Error('this group was left; join it again');
    return this.composer.multicast(group, request);
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

  // -- receiving -----------------------------------------------------------------------------------

  // Messages are opened side by side, and arrive in their order.
  #heard(wire, k) {
    const { link } = this, opened = open(wire, link.router, this.#groups);
    this.#arrivals = this.#arrivals.then(async () => this.#arrive(link, k, await opened)).catch(error => this.#problem(`a message could not be handled: ${error.message}`));
  }

  #arrive(link, k, found) {
    const { error } = found;
    if (error) {
      if (link === this.link) this.#problem(`a message could not be opened: ${error.message}`);
      return this.inbox.unreadable(link, k, found, /signature|signed/.test(error.message) ? BAD_SIGNATURE : PEER_REFUSED, error.message.slice(0, 200));
    }
    if (found.control) {
      this.inbox.pass(link, k);
      return this.#hearNode(found.control, link);
    }
    if (found.source && hex(found.body) === PREKEY_ASKED) return this.#answerNull(link, k, found.source);
    if (found.address) this.#groups.get(found.address)?.causes.received(found.id, found.exp);
    return this.inbox.arrive(link, k, found);
  }

  // Who asks for a prekey is told to send in the open: this app opens nothing that is sealed to it alone.
  async #answerNull(link, k, to) {
    const { wire } = await this.composer.unicast({ to, body: unhex(NO_PREKEY), ttl: 86400, minutes: 1440 });
    if (link.isUp) link.toSay.push([wire, { refused() {} }]);
    this.inbox.pass(link, k);
    this.#pump();
  }

  #readers(address) {
    return [...this.#tabs].filter(([, reads]) => reads.has(address) || reads.has(null)).map(([tab]) => tab);
  }

  #given(message) {
    const readers = this.#readers(message.address);
    for (const tab of readers) this.post(tab, shown(message));
    return readers.length > 0;
  }

  // What came before is not for this loop.
  #read(tab, { address, reader }) {
    this.post(tab, { event: 'begun', n: reader });
    this.#tabs.get(tab)?.add(address);
    this.inbox.read(address, message => this.post(tab, shown(message)));
  }

  // -- what the node itself says -------------------------------------------------------------------

  // What it said before a goodbye counts too, but for the answers to what is asked again on each connection.
  #hearNode([type, fields], link) {
    switch (type) {
      case CONTROL.joinAck: return link === this.link ? this.#joined(fields) : undefined;
      case CONTROL.report: return this.#tell({ event: 'report', id: hex(fields.id), to: hex(fields.dst), state: fields.state, number: fields.reason });
      case CONTROL.answer: return link === this.link ? this.#answered(fields) : undefined;
      case CONTROL.leaveAck: return link === this.link ? this.#hasLeft(fields) : undefined;
      case CONTROL.redeemed: return this.#redeemed(fields, link);
      case CONTROL.terms: return this.#terms(fields);
      default: return undefined;
    }
  }

  // It has been heard: what stays of the group is its number.
  #hasLeft({ addr }) {
    const { kept } = this.#groups.get(hex(addr)) ?? {};
    if (!kept?.left || kept.isHeard) return;
    kept.isHeard = true;
    this.store.putGroup(hex(addr), kept);
    this.onLeft?.();
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

  // A node does not answer a stranger that asks to join, so that the terms tell.
  #terms({ result, gr, exp }) {
    const isOut = this.#present().some(one => one.kept.wasJoined && !one.isJoined);
    if (this.rights & ~gr & JOIN || !(gr & JOIN) && isOut) this.#deny('in any more: ask for a new invitation');
    this.rights = gr;
    this.#tell({ event: 'terms', rights: gr, exp, number: result });
  }
}

function shown({ id, address, source, sender, seq, deps, body, via, at, redelivered, missing, late }) {
  return { event: 'message', missing, late, id, address, source: source && hex(source), sender, seq, deps, body, via: via && hex(via), at, redelivered };
}
