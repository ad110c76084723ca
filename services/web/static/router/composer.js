// Makes the messages of one app, signed with its key (router/client/composer.py).
import { Refusal } from './errors.js';
import { digest, encode, expiryMin, hex, random, sealForGroup, sealMulticast, sealUnicast, unhex } from './wire.js';
import { signWith } from './keys.js';

const CONTROL_LIFE_MIN = 60;
const ALIKE_MAX = 4096, SPREAD_MAX = 256;
const DUPLICATE = 5;

export class Composer {
  #app;
  #alike = new Map();
  #pulse = 0;

  // `app` has `key`, `sign(bytes)` and the time.
  constructor(app) { this.#app = app; }

  // A message to the node itself, which acts on each.
  control(router, body) {
    const exp = this.#app.nowMin() + CONTROL_LIFE_MIN + this.#pulse++ % 60;
    return sealUnicast(this.#app.key.public, router, encode(body), { ttl: 0, exp }, this.#app.sign);
  }

  // `group`: its name, its record and the causes of its next message, which bears the record's number.
  async multicast({ name, kept, causes }, { body, ttl, minutes, asked, raw }) {
    if (!kept.signer) throw new Error('the link of this group is for reading only; ask a sender of the group for a full one');
    const nowMin = this.#app.nowMin(), seen = causes.seen(nowMin);
    let life = { ttl, exp: this.#expiry(minutes) }, content = body, deps = [], seq = null;
    if (raw ?? kept.isRaw) life = this.#unlike(`${hex(digest(body))} ${name} ${seen}`, life);
    else {
      deps = causes.heads(nowMin);
      seq = kept.seq;
      content = await sealForGroup({ group: kept.key, contentKey: kept.contentKey, from: this.#app.key.public, seq, deps: deps.map(unhex), content: body }, this.#app.sign);
    }
    const wire = await sealMulticast(kept.key, content, { ...life, sn: seen.map(unhex) }, signWith(kept.signer)), id = idOf(wire);
    if (seq !== null) kept.seq = seq + 1;
    if (seq !== null && ttl > 0) causes.published(id, life.exp, deps);
    else causes.received(id, life.exp);
    return { id, group: name, seq, exp: life.exp, wire, asked };
  }

  async unicast({ to, body, ttl, minutes, asked }) {
    const life = this.#unlike(`${hex(digest(body))} ${hex(to)}`, { ttl, exp: this.#expiry(minutes) });
    const wire = await sealUnicast(this.#app.key.public, to, body, life, this.#app.sign);
    return { id: idOf(wire), group: null, seq: null, exp: life.exp, wire, asked };
  }

  #expiry(minutes) { return expiryMin(this.#app.nowMs() / 1000 + 60 * minutes); }

  // A ttl, or an expiry, with which this body was not said before: two messages that are equal would be one.
  #unlike(said, { ttl, exp }) {
    const least = this.#app.nowMin() + 1, [a, b] = random(2), chance = 256 * a + b, first = chance % Math.min(SPREAD_MAX, Math.floor(ttl / 8) + 1);
    if (!ttl) exp -= chance % Math.min(SPREAD_MAX, Math.floor((exp - least) / 8) + 1);
    for (; exp >= least; exp--) {
      const alike = `${said} ${exp}`, less = (this.#alike.get(alike) ?? first - 1) + 1;
      if (less > ttl) continue;
      this.#alike.set(alike, less);
      if (this.#alike.size > ALIKE_MAX) this.#alike.delete(this.#alike.keys().next().value);
      return { ttl: ttl - less, exp };
    }
    throw new Refusal(DUPLICATE, 'the same body has been sent too often for one more id within its lifetime');
  }
}

// Of a message without VIA, which this app has made.
function idOf(wire) { return hex(digest(wire.subarray(1))); }
