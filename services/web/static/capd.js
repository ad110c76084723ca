// The pool of a node for pages: post, find, watch and rescind messages of CAPD (docs/capd.md), over HTTP. Work is done in
// the page's workers. Data is bytes; ids, secrets and nonces are hex.
import { hex, isGenuine, replyPrefix, secretHash, shownId, rawId, unhex } from './solver/message.js';
import { attemptsFor, bitsFor, bornAt, priorityFor } from './solver/priority.js';
import { cores, solve } from './solver/solver.js';

export { cores, hex, isGenuine, replyPrefix, solve, unhex };
export const text = words => new TextEncoder().encode(words);
export const words = bytes => new TextDecoder().decode(bytes);

const SEEN_MAX = 4096, AGAIN_MS = [500, 1000, 2000, 4000, 8000, 15000], SILENCE_MS = 50_000, HARDER_MAX = 128, RELAY_PRIORITY = 2;

export class PoolError extends Error {
  // `reason`: the word of it, "away" if the node could not be reached; `isLater`: whether to ask again makes sense.
  constructor(text, reason, status = 0) {
    super(text);
    this.name = 'PoolError';
    this.reason = reason;
    this.status = status;
    this.isLater = !status || status === 429 || status === 503;
  }
}

// A message as it is found: data as bytes, and what a reply says behind the bytes that name its message.
class Hit {
  constructor(message) {
    Object.assign(this, message);
    this.data = unhex(message.data);
    this.reply = this.data.subarray(16);
  }
}

export class Pool {
  // `url`: where the pool is, with a slash at the end; usual: that of the node that serves this script.
  constructor(url = new URL('./capd/', import.meta.url)) {
    this.url = new URL(url, globalThis.location?.href);
  }

  info() {
    return this.#ask('info');
  }

  // Do the work of a message that nodes pass on for `relayFor` seconds, and post it.
  async offer(data, { relayFor = 300, expiration, rescindable = false, signal, onProgress, workers } = {}) {
    const info = await this.info(), line = Math.max(RELAY_PRIORITY, Number(info.relayPriority)), now = Math.floor(Date.now() / 1000);
    const secret = rescindable ? hex(crypto.getRandomValues(new Uint8Array(32))) : '';
    const draft = { data: hex(data), created: bornAt(now, relayFor), difficultyBits: bitsFor(priorityFor(relayFor, line), data.length, crypto.getRandomValues(new Uint8Array(1))[0] % HARDER_MAX) };
    if (expiration !== undefined) draft.expiration = expiration;
    if (secret) draft.rescindHash = hex(secretHash(unhex(secret)));
    const message = { ...draft, nonce: await solve(draft, { signal, onProgress, workers }) };
    await this.post(message);
    return { ...message, hash: shownId(rawId(message)), data, secret };
  }

  // Hand in a message whose work is done: {data, created, difficultyBits, nonce}, as hex and numbers; or {data,
  // relayFor}, whose work the node is to do. The same one may be posted again.
  post(message) {
    return this.#ask('messages', { method: 'POST', body: JSON.stringify(message) });
  }

  // Reply to a message: the data begins with 16 bytes of its id.
  reply(to, data, options) {
    const all = new Uint8Array(16 + data.length);
    all.set(replyPrefix(to.hash));
    all.set(data, 16);
    return this.offer(all, options);
  }

  async get(hash) {
    const found = this.#hit(await this.#ask(`messages/${encodeURIComponent(hash)}`));
    if (found.hash !== hash.toLowerCase()) throw new PoolError(`the node was asked for ${hash}, and has sent ${found.hash}`, 'not-genuine', 502);
    return found;
  }

  // The messages whose data begins with `prefix`, or with `value` where the bits of `mask` are set; the newest first.
  async query({ start = 0, limit = 50, ...pattern } = {}) {
    const found = await this.#ask(`messages?${parameters({ start, limit, ...pattern })}`);
    return { count: found.count, messages: found.messages.map(one => this.#hit(one)) };
  }

  // End a message of one's own by its secret.
  async rescind(hash, secret) {
    return (await this.#ask(`messages/${encodeURIComponent(hash)}/rescind`, { method: 'POST', body: JSON.stringify({ secret }) })).rescinded;
  }

  // Each new message that matches, once, for ever: `for await (const hit of pool.watch({ prefix }))`. After a lost connection
  // it goes on behind the last one. `onAway` gets a sentence when the node cannot be reached, `onUp` nothing when it is;
  // `onGap` a sentence if some may be missing.
  async *watch({ prefix, value, mask, since = '', signal, onUp, onAway, onGap } = {}) {
    const seen = new Set();
    for (let failures = 0, isAway = true; ;) {
      try {
        for await (const event of this.#events({ prefix, value, mask }, since, signal)) {
          if (isAway) onUp?.();
          isAway = false;
          failures = 0;
          if (event.event === 'gap') onGap?.(event.text);
          if (event.event === 'begin') ({ since } = event);
          if (event.event !== 'message') continue;
          const { event: _, ...message } = event;
          since = message.hash;
          if (seen.has(since)) continue;
          if (seen.add(since).size > SEEN_MAX) seen.delete(seen.values().next().value);
          yield this.#hit(message);
        }
        isAway = true;
        onAway?.('the node has ended the connection');
      } catch (error) {
        if (signal?.aborted) return;
        if (!(error instanceof PoolError) || !error.isLater) throw error;
        isAway = true;
        onAway?.(error.message);
      }
      await slept(AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)], signal);
      if (signal?.aborted) return;
    }
  }

  async *#events(pattern, since, signal) {
    const ended = new AbortController();
    let silence;
    const end = () => ended.abort();
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS); // a heartbeat comes each 20 s
    };
    signal?.addEventListener('abort', end);
    try {
      const response = await this.#fetch(`watch?${parameters({ ...pattern, ...(since && { since }) })}`, { signal: ended.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      heard();
      for (;;) {
        const { done, value } = await reader.read().catch(() => { throw new PoolError('the connection was lost', 'away'); });
        if (done) return;
        heard();
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        yield* lines.filter(Boolean).map(line => JSON.parse(line));
      }
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener('abort', end);
      ended.abort();
    }
  }

  #hit(message) {
    if (!isGenuine(message)) throw new PoolError(`the node has sent ${message.hash}, which is not the hash of what it sent`, 'not-genuine', 502);
    return new Hit(message);
  }

  async #ask(path, options) {
    return (await this.#fetch(path, options)).json();
  }

  async #fetch(path, options = {}) {
    let response;
    try {
      response = await fetch(new URL(path, this.url), { ...options, headers: { Accept: 'application/json', ...(options.body && { 'Content-Type': 'application/json' }) } });
    } catch (error) {
      throw new PoolError(`the node cannot be reached at ${this.url}: ${error.message}`, 'away');
    }
    if (response.ok) return response;
    const said = await response.json().catch(() => ({ detail: `the node answered ${response.status}`, reason: '' }));
    throw new PoolError(said.detail, said.reason, response.status);
  }
}

function parameters(given) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) found.set(name, value instanceof Uint8Array ? hex(value) : value);
  }
  return found;
}

function slept(ms, signal) {
  return new Promise(done => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
  });
}

// About how many seconds the work of these bits takes here, by a sample of one core.
export async function expectedSeconds(bits) {
  const { tried, PART } = await import('./solver/tried.js'), began = performance.now();
  tried(new Uint8Array(32), new Uint32Array(8), 0, PART >> 3);
  return (performance.now() - began) / (PART >> 3) / 1000 * attemptsFor(bits) / cores();
}
