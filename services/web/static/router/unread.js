// Messages left with the node because nobody in this app reads them (router/client/custody/unread.py): they are refused
// for now, and until the node starts over, so that none overtakes another.
export class Unread {
  #ids = new Map();
  #last = new Map();

  add(address, id) {
    if (!this.#ids.has(address)) this.#ids.set(address, new Map());
    const ids = this.#ids.get(address);
    if (!ids.has(id)) ids.set(id, ids.size + 1);
    this.#last.set(address, ids.get(id));
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
export class Prefix {
  n = 0;
  #later = new Set();

  add(k) {
    this.#later.add(k);
    while (this.#later.delete(this.n + 1)) this.n++;
  }
}
