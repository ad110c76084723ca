// One engine for all tabs of an app's name: in a SharedWorker, else (or with a signer of the app's) in the tab that holds the lock.
import { Engine } from './engine.js';

export const frontLock = id => `upsycle tab ${id}`;
const engineLock = name => `upsycle link ${name}`;
const channelName = name => `upsycle ${name}`;

// Serve tabs: `begin(post)` opens the engine once; what tabs say before that waits. A tab whose lock is free is gone.
export class Host {
  #engine;
  #tabs = new Map();

  constructor(open) { this.#engine = open((tab, message) => this.#tabs.get(tab)?.(message)); }

  async hear(message, post) {
    const { tab } = message;
    if (!this.#tabs.has(tab)) navigator.locks.request(frontLock(tab), () => this.#gone(tab));
    this.#tabs.set(tab, post);
    try {
      const engine = await this.#engine;
      if (this.#tabs.has(tab)) await engine.hear(tab, message);
    } catch (error) {
      post({ re: message.n, error: { kind: error.constructor.name, text: error.message } });
    }
  }

  async #gone(tab) {
    this.#tabs.delete(tab);
    (await this.#engine.catch(() => null))?.gone(tab);
  }
}

// Hold the lock of the name's engine as long as this page or worker lives; resolve once it is held.
export function holdEngine(name) {
  return new Promise(held => navigator.locks.request(engineLock(name), () => { held(); return new Promise(() => {}); }));
}

// Return a way to the engine: `post(message)`; `heard(message)` is called with answers and events, `begun()` whenever an engine has
// taken the place of one that is gone.
export function openChannel({ name, id, signer, heard, begun }) {
  if (signer || typeof SharedWorker === 'undefined') return throughLocks({ name, id, signer, heard, begun });
  const worker = new SharedWorker(new URL('./worker.js', import.meta.url), { type: 'module', name });
  let channel = { post: message => worker.port.postMessage({ ...message, tab: id }), close: () => worker.port.close() };
  const known = { post: message => channel.post(message), close: () => channel.close() };
  worker.port.onmessage = ({ data }) => heard(data);
  worker.onerror = () => {
    if (known.hasAnswered) return;
    channel = throughLocks({ name, id, signer, heard, begun });
    begun();
  };
  return known;
}

function throughLocks({ name, id, signer, heard, begun }) {
  const mine = new BroadcastChannel(channelName(name));
  mine.onmessage = ({ data }) => {
    if (data.to === id) heard(data.message);
    else if (data.begun) begun();
  };
  holdEngine(name).then(() => {
    const theirs = new BroadcastChannel(channelName(name));
    const host = new Host(post => Engine.open(name, signer, post));
    theirs.onmessage = ({ data }) => {
      if (data.from) host.hear({ ...data.message, tab: data.from }, message => theirs.postMessage({ to: data.from, message }));
    };
    theirs.postMessage({ begun: true });
  });
  return { post: message => mine.postMessage({ from: id, message }), close: () => mine.close() };
}
