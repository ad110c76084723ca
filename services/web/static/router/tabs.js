// One engine for all tabs of an app's name: in a SharedWorker, else (or with a signer of the app's) in the tab that holds the lock.
import { Engine } from './engine.js';

export const frontLock = id => `upsycle tab ${id}`;
const engineLock = name => `upsycle link ${name}`;
const channelName = name => `upsycle ${name}`;
const WORKER_MS = 4000;

// What is said in one turn: the first goes at once, the others together. An end of another version takes one at a time.
export class Gathering {
  #send;
  #some = null;
  #turn = new MessageChannel();
  takesSeveral = false;

  constructor(send) {
    this.#send = send;
    this.#turn.port1.onmessage = () => this.flush();
  }

  post(message) {
    if (this.#some) return void this.#some.push(message);
    this.#send(message);
    if (!this.takesSeveral) return;
    this.#some = [];
    this.#turn.port2.postMessage(0);
  }

  flush() {
    const some = this.#some ?? [];
    this.#some = null;
    if (some.length) this.#send(some.length > 1 ? { several: some } : some[0]);
  }

  // Forget what waits for the end of the turn.
  drop() { this.#some = null; }

  close() {
    this.flush();
    this.#turn.port1.close();
  }
}

// Serve tabs: `begin(post)` opens the engine once; what tabs say before that waits. A tab whose lock is free is gone. What a tab
// says before its hello was meant for the engine before this one: the tab asks again behind its hello, in the order of asking.
export class Host {
  #engine;
  #tabs = new Map();
  #greeted = new Set();

  constructor(open) { this.#engine = open((tab, message) => this.#tabs.get(tab)?.post(message)); }

  // Resolve with whether this app was forgotten here.
  // `isLeft()`: the tab has taken another way meanwhile, and asks there again.
  async hear({ tab, several, ...message }, send, isLeft = () => false) {
    if (!this.#tabs.has(tab)) {
      this.#tabs.set(tab, new Gathering(send));
      navigator.locks.request(frontLock(tab), () => this.#gone(tab));
    }
    const way = this.#tabs.get(tab), all = several ?? [message], isForgotten = all.some(({ op }) => op === 'forget');
    if (message.op === 'hello') way.takesSeveral = !!message.takesSeveral;
    await Promise.all(all.map(one => this.#hear(tab, one, way, isLeft)));
    if (isForgotten) way.flush();
    return isForgotten;
  }

  async #hear(tab, message, way, isLeft) {
    try {
      const engine = await this.#engine;
      if (!this.#tabs.has(tab) || isLeft()) return;
      if (message.op === 'hello') this.#greeted.add(tab);
      if (this.#greeted.has(tab)) await engine.hear(tab, message);
    } catch (error) {
      way.post({ re: message.n, error: { kind: error.constructor.name, text: error.message } });
    }
  }

  async #gone(tab) {
    this.#tabs.get(tab).close();
    this.#tabs.delete(tab);
    this.#greeted.delete(tab);
    (await this.#engine.catch(() => null))?.gone(tab);
  }
}

// Hold the lock of the name's engine as long as this page or worker lives; resolve once it is held.
export function holdEngine(name) {
  return new Promise(held => navigator.locks.request(engineLock(name), () => { held(); return new Promise(() => {}); }));
}

// Hear what tabs say on the channel that all of them have; `after(isForgotten)` is called behind each. The engine may be in a worker
// that some of them have not reached.
export function hearChannel(name, host, after = () => {}) {
  const theirs = new BroadcastChannel(channelName(name));
  theirs.onmessage = ({ data }) => {
    if (data.from) host.hear({ ...data.message, tab: data.from }, message => theirs.postMessage({ to: data.from, message })).then(after);
  };
  theirs.postMessage({ begun: true });
}

// Return a way to the engine: `post(message)`; `heard(message)` is called with answers and events, `begun()` whenever an engine has
// taken the place of one that is gone. A worker that fails, or does not answer in time, as its script does not come, is done without.
export function openChannel({ name, id, signer, heard, begun }) {
  if (signer || typeof SharedWorker === 'undefined') return throughLocks({ name, id, signer, heard, begun });
  const worker = new SharedWorker(new URL('./worker.js', import.meta.url), { type: 'module', name });
  let channel = wayTo(message => worker.port.postMessage({ ...message, tab: id }), () => worker.port.close());
  const known = { post: message => channel.post(message), drop: () => channel.drop(), takeSeveral: is => channel.takeSeveral(is), close: () => { clearTimeout(waiting); channel.close(); } };
  const without = () => {
    if (known.hasAnswered || known.isWithout) return;
    known.isWithout = true;
    worker.port.postMessage({ left: true });
    channel = throughLocks({ name, id, signer, heard, begun });
    begun();
  };
  const waiting = setTimeout(without, WORKER_MS);
  worker.port.onmessage = ({ data }) => heard(data);
  worker.onerror = without;
  return known;
}

function wayTo(send, close) {
  const way = new Gathering(send);
  return { post: message => way.post(message), drop: () => way.drop(), takeSeveral: is => { way.flush(); way.takesSeveral = is; }, close: () => { way.close(); close(); } };
}

function throughLocks({ name, id, signer, heard, begun }) {
  const mine = new BroadcastChannel(channelName(name));
  mine.onmessage = ({ data }) => {
    if (data.to === id) heard(data.message);
    else if (data.begun) begun();
  };
  holdEngine(name).then(() => {
    hearChannel(name, new Host(post => Engine.open(name, signer, post)));
  });
  return wayTo(message => mine.postMessage({ from: id, message }), () => mine.close());
}
