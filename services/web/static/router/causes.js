// What a message names as its causes: the newest few in its header, the heads inside its seal (router/client/custody/causes.py).
const RECENT = 4, HEADS_MAX = 16, NAMED_MAX = 4096;

// A group's record, which is kept, has `recent` and `heads`: lists of [id, expiry in minutes], recent newest first, heads oldest first.
export class Causes {
  #record;
  #named = new Set();
  #own = new Map();

  constructor(record) { this.#record = record; }

  seen(nowMin) { return distinct(this.#record.recent, nowMin); }
  heads(nowMin) { return distinct(this.#record.heads, nowMin).reverse(); }

  received(id, exp) { this.#record.recent = [[id, exp], ...this.#record.recent].slice(0, RECENT); }

  given(id, exp, deps) {
    this.#record.heads = this.#record.heads.filter(([head]) => !deps.includes(head));
    for (const dep of deps) this.#name(dep);
    if (!this.#named.has(id)) this.#add(id, exp);
  }

  published(id, exp, deps) {
    this.received(id, exp);
    this.#own.set(id, this.#record.heads.filter(([head]) => deps.includes(head)));
    this.#record.heads = this.#record.heads.filter(([head]) => !deps.includes(head));
    this.#add(id, exp);
  }

  kept(id) {
    for (const [head] of this.#own.get(id) ?? []) this.#name(head);
    this.#own.delete(id);
  }

  // Nobody will read it: those that it named are heads again.
  refused(id) {
    this.#record.recent = this.#record.recent.filter(([one]) => one !== id);
    this.#record.heads = this.#record.heads.filter(([one]) => one !== id);
    for (const [head, exp] of this.#own.get(id) ?? []) if (!this.#named.has(head)) this.#add(head, exp);
    this.#own.delete(id);
  }

  #add(id, exp) {
    this.#record.heads = [...this.#record.heads.filter(([head]) => head !== id), [id, exp]].slice(-HEADS_MAX);
  }

  #name(id) {
    this.#named.add(id);
    if (this.#named.size > NAMED_MAX) this.#named.delete(this.#named.values().next().value);
  }
}

function distinct(rows, nowMin) {
  return [...new Set(rows.filter(([, exp]) => exp > nowMin).map(([id]) => id))];
}
