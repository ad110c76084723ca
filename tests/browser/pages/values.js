// The deciding parts of the client, by value: each function plays a script, and returns what came of it.
import { CausalOrder } from '../router/causal.js';
import { Causes } from '../router/causes.js';
import { Composer } from '../router/composer.js';
import { Inbox } from '../router/inbox.js';
import { keyOfSeed, signWith, verify } from '../router/keys.js';
import { Link, leads } from '../router/link.js';
import { Gathering } from '../router/tabs.js';
import { Frames, Malformed, decode, digest, encode, hex, openForGroup, unhex } from '../router/wire.js';

// [word, …arguments] of Causes; the heads after each, newest first.
function causes(script) {
  const record = { recent: [], heads: [] }, played = new Causes(record);
  return script.map(([word, ...given]) => { played[word](...given); return played.heads(0); });
}

// ['offer', id, sender, seq, deps, life in ms] or ['settle', id], each with its time; what is given after each.
function causal(script, gapMs) {
  const order = new CausalOrder(() => false, {}, gapMs);
  return script.map(([nowMs, word, id, sender, seq, deps, lifeMs]) => {
    if (word === 'offer') order.offer({ id, sender, seq, deps, size: 1 }, nowMs, lifeMs);
    else if (word === 'settle') order.settle(id);
    return order.turns(nowMs).map(([message, missing, late]) => [message.id, missing, late]);
  });
}

class FarEnd {
  isUp = true;
  said = [];
  settle(n) { this.said.push(['settled', n]); }
  refuse(k, reason) { this.said.push(['refused', k, reason]); }
}

// An inbox with loops over some addresses, and a store that keeps, or fails; `lost()` begins a new connection.
function inbox(read, store = { handle: async () => {} }) {
  const handled = new Set(), given = [], problems = [], found = { handled, given, problems };
  found.box = new Inbox(store, handled, { given: one => { given.push(one.id); return read.includes(one.address); }, isRead: address => read.includes(address),
    records: () => undefined, problem: text => problems.push(text), nowMin: () => 0 });
  found.lost = () => found.box.begin(found.link = new FarEnd());
  found.come = (k, id, address, said = null) => found.box.arrive(found.link, k, { id, address, said, exp: 9, ttl: 1, size: 100, sender: null, deps: [] });
  found.lost();
  return found;
}

// The ids of so many equal unicasts.
async function alike(count, ttl) {
  const { secret, public: key } = await keyOfSeed(new Uint8Array(32)), ids = [];
  const composer = new Composer({ key: { public: key }, sign: signWith(secret), nowMin: () => 1000, nowMs: () => (1577836800 + 60 * 1000) * 1000 });
  for (let i = 0; i < count; i++) ids.push((await composer.unicast({ to: key, body: new Uint8Array(3), ttl, minutes: 600 })).id);
  return ids;
}

// What an end was sent, message by message, of what is said in two turns and at the end.
async function gathered(takesSeveral) {
  const sent = [], way = new Gathering(message => sent.push(message.several ?? message));
  way.takesSeveral = takesSeveral;
  for (const turn of [[1, 2, 3], [4], [5, 6]]) {
    turn.forEach(one => way.post(one));
    await new Promise(done => setTimeout(done, 20));
  }
  for (const one of [7, 8, 9]) way.post(one);
  way.close();
  return sent;
}

// The first byte of each item in each message of a link's WebSocket; the link says so many items of `size` bytes in one turn, then leaves.
async function linked(count, size) {
  const sent = [], real = globalThis.WebSocket;
  globalThis.WebSocket = class { static OPEN = 1; readyState = 1; send(bytes) { sent.push(bytes); } close() { sent.push(null); } };
  try {
    const link = new Link({ url: '', key: new Uint8Array(32), epoch: new Uint8Array(8), hear: { ended: () => {} } });
    for (let i = 0; i < count; i++) link.send(new Uint8Array(size).fill(i), i);
    await null;
    link.send(new Uint8Array(size).fill(99), 99);
    link.leave(25, 'over');
  } finally {
    globalThis.WebSocket = real;
  }
  return sent.map(bytes => bytes && new Frames(1 << 20).take(bytes).map(item => item[0]));
}

// Each item read and written again, as hex; "malformed" if it cannot be read.
function cbor(items) {
  return items.map(item => {
    try {
      return hex(encode(decode(unhex(item))));
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      return 'malformed';
    }
  });
}

// What the page makes of sealed bodies of a group: the member's words, or "malformed".
function words(bodies, group, contentKey) {
  return Promise.all(bodies.map(async body => {
    try {
      const { sender, seq, deps, code, content, said } = await openForGroup(unhex(body), unhex(group), unhex(contentKey), verify);
      return [hex(sender), `${seq}`, deps.map(hex), code, hex(content), said];
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      return 'malformed';
    }
  }));
}

// The digests of so many bytes, each the remainder of its place by 251.
const digests = sizes => sizes.map(size => hex(digest(Uint8Array.from({ length: size }, (_, i) => i % 251))));

// Whether the statements of each hello lead from one key to another, as the page judges it.
const led = hellos => Promise.all(hellos.map(([was, old, key]) => leads(decode(unhex(was)), unhex(old), unhex(key))));

Object.assign(window, { led, gathered, linked, digests, cbor, words, causes, causal, inbox, alike });
