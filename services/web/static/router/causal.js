// Causal order of one group's messages (router/client/custody/causal.py): each is given after all its causes and after its
// sender's earlier ones that are here. Nothing waits for ever, and nothing is dropped: what is given too early names what is missing.
const WAITING_MAX = 512, WAITING_BYTES_MAX = 4 << 20;
const GIVEN_MAX = 65536, MISSED_MAX = 4096, SENDERS_MAX = 256, WALK_MAX = 16;
const OLD_MS = 1000;

export class CausalOrder {
  #isHandled;
  #gapMs;
  #newest;
  #given = new Set();
  #missed = new Map();
  #waiting = new Map();
  #effects = new Map();
  #bytes = 0;
  #number = 0;
  timer = null;

  // `isHandled(id)`: whether this app has handled or published it before; `newest`: the highest number given of each sender, which is kept.
  constructor(isHandled, newest, gapMs) {
    this.#isHandled = isHandled;
    this.#newest = newest;
    this.#gapMs = gapMs;
  }

  get size() { return this.#waiting.size; }

  // A message has come. It may wait `lifeMs` at the longest; one of a sender who was never heard, and that follows nothing
  // that is known here, has causes from before this app's time, which are waited for only a moment.
  offer(message, nowMs, lifeMs) {
    const { id, sender, deps } = message, missing = new Set(deps.filter(dep => dep !== id && !this.#knows(dep)));
    const isOld = missing.size === deps.length && !(sender in this.#newest), longest = isOld ? Math.min(this.#gapMs, OLD_MS) : this.#gapMs;
    const row = { message, number: ++this.#number, dueMs: nowMs + Math.max(0, Math.min(longest, lifeMs)), missing,
      waitsFor: new Set([...missing].filter(cause => !this.#missed.get(cause))) };
    this.#waiting.set(id, row);
    this.#bytes += message.size;
    for (const cause of row.waitsFor) this.#effects.set(cause, (this.#effects.get(cause) ?? new Set()).add(row));
  }

  // Return what is to be given by now, in order: [message, ids of the missing causes, whether one was given before that names it].
  turns(nowMs) {
    const turns = [];
    for (let row; (row = this.#ready() ?? this.#overdue(nowMs)); ) turns.push(this.#give(row));
    return turns;
  }

  // When `turns` may have something though nothing comes.
  get wakeMs() { return Math.min(...[...this.#waiting.values()].map(row => row.dueMs)); }

  // This message came and cannot be given, or is the app's own: nothing waits for it any more.
  settle(id) {
    this.#given.add(id);
    if (this.#given.size > GIVEN_MAX) this.#given.delete(this.#given.values().next().value);
    const wasMissed = this.#missed.delete(id);
    for (const row of this.#effects.get(id) ?? []) { row.missing.delete(id); row.waitsFor.delete(id); }
    this.#effects.delete(id);
    return wasMissed;
  }

  // This message goes back to the node, and comes again.
  withdraw(id) {
    const row = this.#waiting.get(id);
    if (row) this.#take(row);
    this.#given.delete(id);
  }

  #knows(id) { return this.#given.has(id) || this.#isHandled(id); }

  #ready() {
    for (const row of this.#waiting.values()) if (!row.waitsFor.size && !this.#earlier(row)) return row;
    return null;
  }

  // A message that has waited too long or, if too many wait, the oldest; or that which it waits for, if it is here.
  #overdue(nowMs) {
    const rows = [...this.#waiting.values()], due = rows.filter(row => row.dueMs <= nowMs);
    if (due.length) {
      const row = this.#root(due.reduce((first, one) => one.dueMs < first.dueMs ? one : first));
      for (const cause of [...row.waitsFor]) if (!this.#waiting.has(cause)) this.#giveUp(cause);
      return row;
    }
    return rows.length >= WAITING_MAX || this.#bytes >= WAITING_BYTES_MAX ? this.#root(rows[0]) : null;
  }

  // Only forged ids can form a circle.
  #root(row) {
    for (let step = 0; step < WALK_MAX; step++) {
      const cause = [...row.waitsFor].find(id => this.#waiting.has(id)), inner = cause ? this.#waiting.get(cause) : row.waitsFor.size ? null : this.#earlier(row);
      if (!inner) break;
      row = inner;
    }
    return row;
  }

  #earlier({ message: { id, sender, seq } }) {
    let found = null;
    for (const row of this.#waiting.values()) {
      const other = row.message;
      if (other.sender === sender && other.seq < seq && !row.waitsFor.has(id) && !(found?.message.seq >= other.seq)) found = row;
    }
    return found;
  }

  #give(row) {
    for (const cause of row.waitsFor) this.#miss(cause, this.#missed.get(cause) ?? false);
    this.#take(row);
    const { message } = row, { id, sender, seq } = message, missing = [...row.missing].filter(cause => !this.#knows(cause));
    if (!(this.#newest[sender] >= seq)) {
      delete this.#newest[sender];
      this.#newest[sender] = seq;
    }
    const [first] = Object.keys(this.#newest);
    if (Object.keys(this.#newest).length > SENDERS_MAX) delete this.#newest[first];
    return [message, missing, this.settle(id)];
  }

  #take(row) {
    this.#waiting.delete(row.message.id);
    this.#bytes -= row.message.size;
    for (const cause of row.waitsFor) {
      const effects = this.#effects.get(cause);
      effects?.delete(row);
      if (!effects?.size) this.#effects.delete(cause);
    }
  }

  #giveUp(cause) {
    this.#miss(cause, true);
    for (const row of this.#effects.get(cause) ?? []) row.waitsFor.delete(cause);
    this.#effects.delete(cause);
  }

  // `forAll`: no further message waits for it.
  #miss(cause, forAll) {
    this.#missed.set(cause, forAll);
    if (this.#missed.size > MISSED_MAX) this.#missed.delete(this.#missed.keys().next().value);
  }
}
