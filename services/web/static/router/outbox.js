// What an app has said and its node has not taken: kept as signed, sent in order once a connection, ended once.
import { Refusal } from './errors.js';

export const OUTBOX_MESSAGES_MAX = 10000, OUTBOX_BYTES_MAX = 64 << 20;

export class Outbox {
  #store;
  #tell;
  #rows = new Map();
  #waiting = [];
  #refused = new Map();
  #ends = [];
  #isEnding = false;
  bytes = 0;

  // `tell(kind, row, refusal)`: a row is in custody, or refused.
  constructor(store, tell, nowMs) {
    this.#store = store;
    this.nowMs = nowMs;
    this.#tell = tell;
  }

  get size() { return this.#rows.size; }
  get isFull() { return this.size >= OUTBOX_MESSAGES_MAX || this.bytes >= OUTBOX_BYTES_MAX; }
  ids() { return [...this.#rows.values()].map(row => row.id); }
  has(id) { return this.ids().includes(id); }

  add(key, row) {
    this.#rows.set(key, row);
    this.bytes += row.wire.length;
    this.#waiting.push(key);
  }

  // A new connection: all that is not settled goes again, with the same bytes, in its order.
  restart() {
    for (const [key, refusal] of this.#refused) this.#end(key, refusal);
    this.#waiting = [...this.#rows.keys()].sort((a, b) => a - b);
  }

  pump(link) {
    while (this.#waiting.length) {
      const key = this.#waiting[0], row = this.#rows.get(key);
      if (row && row.wire.length > link.frameBytesMax) {
        this.#waiting.shift();
        this.#end(key, new Refusal(3, `${row.wire.length} bytes; this node takes ${link.frameBytesMax}`));
      } else if (row && !link.takes(row.wire.length)) {
        return;
      } else {
        this.#waiting.shift();
        if (row) link.send(row.wire, key);
      }
    }
  }

  refuse(key, refusal) { if (this.#rows.has(key)) this.#refused.set(key, refusal); }
  settle(keys) { for (const key of keys) this.#end(key, this.#refused.get(key) ?? null); }

  #end(key, refusal) {
    const row = this.#rows.get(key);
    this.#refused.delete(key);
    if (!row) return;
    this.#rows.delete(key);
    this.bytes -= row.wire.length;
    this.#ends.push([key, row, refusal]);
    this.#tell(row, refusal);
    this.#write();
  }

  // One transaction at a time; what ends meanwhile goes into the next. A row that stays is sent again, and known by its id.
  async #write() {
    if (this.#isEnding) return;
    this.#isEnding = true;
    try {
      while (this.#ends.length) await this.#store.end(this.#ends.splice(0), this.nowMs()).catch(() => {});
    } finally {
      this.#isEnding = false;
    }
  }
}
