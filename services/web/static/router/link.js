// One connection to a node: hello, proofs, frames, windows. What it hears it hands on; it never dials again by itself.
import { verify } from './keys.js';
import { Frames, Malformed, FRAME_BYTES_MAX, allJoined, decode, encode, frameHead, hex, joined, proofBytes, random, text } from './wire.js';

const SUBPROTOCOL = 'upsycle.1';
const UNSUPPORTED = 2, BAD_SIGNATURE = 4, NOT_AUTHORISED = 9;
const BEGIN_MS = 15000;
const OTHER_VERSION = 'this page and the node are of versions that do not speak with each other: load the page again, in all its tabs. What waits here stays';
const ADDED_BYTES_MAX = 40;
const SENT_AT_ONCE = 1 << 18;
export const WINDOW_MESSAGES = 1024, WINDOW_BYTES = 8 << 20;
const TYPE = { hello: 2, proof: 3, settled: 4, refused: 5, ping: 6, pong: 7, goodbye: 8, outcome: 9, missed: 10, redelivered: 11 };

const FORMERS_MAX = 5, SUCCESSION = text('upsycle succession 1');

// Whether the statements in a hello lead from the key `old` to the proven `key`, each signed by both of its keys (cddl/succession.cddl).
export async function leads(was, old, key) {
  const formers = Array.isArray(was) && was.length <= FORMERS_MAX && was.every(one => Array.isArray(one) && one.slice(0, 1).concat(one.slice(3)).every(part => part instanceof Uint8Array)) ? was : [];
  const chain = [...formers.map(one => hex(one[0])), hex(key)];
  const first = chain.indexOf(hex(old));
  if (first < 0 || first >= formers.length || new Set(chain).size < chain.length) return false;
  for (let at = first; at < formers.length; at++) {
    const [from, since, until, byOld, byNew] = formers[at], to = formers[at + 1]?.[0] ?? key;
    const said = joined(SUCCESSION, encode([from, to, since, until]));
    if (!await verify(byOld, said, from) || !await verify(byNew, said, to)) return false;
  }
  return true;
}

export class Link {
  // `hear` has the methods up, message, settled, refused, outcome, missed, redelivered, pong, ended(sentence, reason, isTheirs).
  constructor({ url, key, sign, epoch, expect, name, hear }) {
    Object.assign(this, { url, key, sign, expect, hear, isUp: false, isOver: false, router: null, heardAt: 0 });
    this.received = 0;
    this.sent = new Map();
    this.nSent = this.settledByNode = 0;
    this.bytesInFlight = 0;
    this.unread = [];
    this.unsent = [];
    this.unsentBytes = 0;
    this.toSay = [];
    this.isReading = false;
    this.frames = new Frames(FRAME_BYTES_MAX + ADDED_BYTES_MAX);
    this.hello = encode([TYPE.hello, { v: [1], role: 'app', epoch, dur: true, frame: FRAME_BYTES_MAX, msgs: WINDOW_MESSAGES,
      bytes: WINDOW_BYTES, feat: ['outcome'], nonce: random(16), key, ...(name ? { name } : {}) }]);
    this.socket = new WebSocket(url, SUBPROTOCOL);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onopen = () => this.#write(this.hello);
    this.socket.onmessage = ({ data }) => this.#heard(data);
    this.socket.onclose = ({ code }) => this.end(this.isUp ? `the connection was lost (${code})` : 'the node could not be reached');
    this.begun = setTimeout(() => this.end('what listens there does not answer: it is no node, or is held up'), BEGIN_MS);
  }

  get windowRoom() {
    return this.isUp && this.inFlight < this.theirs.msgs;
  }

  get inFlight() {
    return this.nSent - this.settledByNode;
  }

  // Whether a message of this length may be sent now; one may always be on its way.
  takes(size) {
    return this.windowRoom && (!this.inFlight || this.bytesInFlight + size <= this.theirs.bytes);
  }

  get frameBytesMax() {
    return this.theirs.frame;
  }

  // Send a message; `what` comes back in refused(), and in settled() if it is a number.
  send(wire, what) {
    this.sent.set(++this.nSent, { what, size: wire.length });
    this.bytesInFlight += wire.length;
    this.#write(wire);
  }

  settle(n) { this.#write(encode([TYPE.settled, n])); }
  refuse(k, reason, why) { this.#write(encode([TYPE.refused, k, reason, ...(why ? [why] : [])])); }
  ping() { this.#write(encode([TYPE.ping, now()])); }

  leave(reason, why) {
    if (this.isOver) return;
    if (this.socket.readyState === WebSocket.OPEN) this.#write(encode([TYPE.goodbye, reason, why]));
    this.end(why, reason);
  }

  // End this connection, once. `isTheirs`: the node has said so.
  end(why, reason = null, isTheirs = false) {
    if (this.isOver) return;
    this.isOver = true;
    this.isUp = false;
    clearTimeout(this.begun);
    this.socket.onclose = this.socket.onmessage = this.socket.onopen = null;
    this.#flush();
    this.socket.close();
    this.hear.ended(why, reason, isTheirs);
  }

  // What is said in one turn goes in one message of the WebSocket.
  #write(item) {
    if (!this.unsent.length) queueMicrotask(() => this.#flush());
    this.unsent.push(frameHead(item.length), item);
    this.unsentBytes += item.length;
    if (this.unsentBytes >= SENT_AT_ONCE) this.#flush();
  }

  #flush() {
    const parts = this.unsent;
    this.unsent = [];
    this.unsentBytes = 0;
    if (parts.length && this.socket.readyState === WebSocket.OPEN) this.socket.send(allJoined(parts));
  }

  #heard(data) {
    this.heardAt = performance.now();
    try {
      if (typeof data === 'string') throw new Malformed('a text, where bytes are due');
      this.unread.push(...this.frames.take(new Uint8Array(data)));
    } catch (error) {
      this.#protest(error);
    }
    this.#read();
  }

  #protest(error) {
    this.leave(1, `the node broke the protocol: ${error.message}`.slice(0, 200));
  }

  // Take what has come, in order: an item whose signature is being verified holds up those behind it.
  async #read() {
    if (this.isReading) return;
    this.isReading = true;
    try {
      while (this.unread.length && !this.isOver) {
        const taken = this.#take(this.unread.shift());
        if (taken) await taken;
      }
    } catch (error) {
      this.#protest(error);
    } finally {
      this.isReading = false;
    }
  }

  #take(wire) {
    if (wire[1] <= 1) {
      if (!this.isUp) throw new Malformed('a message before the handshake is done');
      this.hear.message(wire.slice(), ++this.received);
      return;
    }
    const item = decode(wire);
    switch (item[0]) {
      case TYPE.hello: return this.#hello(wire.slice(), item[1]);
      case TYPE.proof: return this.#proof(item[1]);
      case TYPE.settled: return this.#settled(item[1]);
      case TYPE.refused: return this.hear.refused(this.sent.get(item[1])?.what, item[2], item[3] ?? '');
      case TYPE.ping: return this.#write(encode([TYPE.pong, item[1], now(), now()]));
      case TYPE.pong: return this.hear.pong(Number(item[1]) / 1e6, Number(item[2]) / 1e6, Number(item[3]) / 1e6);
      case TYPE.goodbye: return this.end(item[2] || 'the node ended the connection', item[1], true);
      case TYPE.outcome: return this.hear.outcome([hex(item[1]), ...pieces(item[3])], item[2]);
      case TYPE.missed: return this.hear.missed(item[1], item[2], item[5]);
      case TYPE.redelivered: return this.hear.redelivered(item[1]);
      default: throw new Malformed(`an item of type ${item[0]}`);
    }
  }

  async #hello(wire, hello) {
    if (this.theirs) throw new Malformed('a second hello');
    if (!hello.v?.includes(1)) return this.leave(UNSUPPORTED, OTHER_VERSION);
    if (!(hello.key instanceof Uint8Array)) throw new Malformed('its hello names no key');
    Object.assign(this, { theirs: hello, theirHello: wire });
    const proof = await this.sign(proofBytes('dialler', this.hello, wire)).catch(error => this.end(`the key cannot sign: ${error.message}`));
    if (proof) this.#write(encode([TYPE.proof, proof]));
  }

  async #proof(signature) {
    const { key } = this.theirs ?? {};
    if (!key || this.isUp) throw new Malformed('a proof out of turn');
    if (this.expect && hex(this.expect) !== hex(key) && !await leads(this.theirs.was, this.expect, key)) return this.end('another node answers there than the one that invited: its key has changed, or somebody stands between. Ask for a new invitation', NOT_AUTHORISED);
    if (!await verify(signature, proofBytes('listener', this.hello, this.theirHello), key)) return this.leave(BAD_SIGNATURE, 'the node does not prove its key');
    if (this.isOver) return;
    clearTimeout(this.begun);
    this.router = key;
    this.isUp = true;
    this.hear.up();
  }

  #settled(n) {
    if (n > this.nSent) throw new Malformed(`it settled ${n} messages of ${this.nSent}`);
    const ended = [];
    while (this.settledByNode < n) {
      const { what, size } = this.sent.get(++this.settledByNode);
      this.sent.delete(this.settledByNode);
      this.bytesInFlight -= size;
      if (typeof what === 'number') ended.push(what);
    }
    this.hear.settled(ended);
  }
}

function now() {
  return BigInt(Date.now()) * 1000000n;
}

function pieces(more) {
  return more ? Array.from({ length: more.length / 32 }, (_, i) => hex(more.subarray(32 * i, 32 * i + 32))) : [];
}
