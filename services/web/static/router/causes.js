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

  // `kept` or `refused` follows. Until then it is known which heads it replaced, and which messages were published after it.
  published(id, exp, deps) {
    const named = new Map(deps.flatMap(dep => this.#record.heads.filter(([head]) => head === dep)));
    for (const head of named.keys()) this.#own.get(head)?.heirs.push(id);
    this.#own.set(id, { named, heirs: [] });
    this.#record.heads = this.#record.heads.filter(([head]) => !named.has(head));
    this.received(id, exp);
    this.#add(id, exp);
  }

  kept(id) {
    for (const head of this.#own.get(id)?.named.keys() ?? []) this.#name(head);
    this.#own.delete(id);
  }

  // Nobody will read it: messages that named it now name those that it named; without any, these are heads again.
  refused(id) {
    const own = this.#own.get(id);
    this.#own.delete(id);
    this.#record.recent = this.#record.recent.filter(([one]) => one !== id);
    this.#record.heads = this.#record.heads.filter(([one]) => one !== id);
    if (!own) return;
    const heirs = own.heirs.map(heir => this.#own.get(heir)).filter(Boolean);
    for (const { named } of heirs) {
      named.delete(id);
      for (const [head, exp] of own.named) named.set(head, exp);
    }
    for (const [head, exp] of own.named) {
      if (!heirs.length && !this.#named.has(head)) this.#add(head, exp);
      this.#own.get(head)?.heirs.push(...own.heirs);
    }
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
