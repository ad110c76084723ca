// Solve messages in workers, one a core: the nonce is the first in the reference's order, however many look for it.
import { hex, stage1, targetWords } from './message.js';
import { PART } from './tried.js';

const WORKERS_MAX = 64;
export const cores = () => Math.min(WORKERS_MAX, navigator.hardwareConcurrency || 1);

// Resolve with the nonce of a message that has none yet, as hex. `signal` ends it; `onProgress` gets how many were tried.
export async function solve(draft, { signal, onProgress, workers = cores() } = {}) {
  signal?.throwIfAborted();
  const order = { stage1: stage1(draft), target: targetWords(draft.difficultyBits), count: PART };
  if (order.target.every(word => !word)) throw new RangeError('the target is 0, which no id is below; choose other bits');
  const open = Array.from({ length: workers }, () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }));
  let next = 0, count = 0, found = null;
  const work = one => new Promise((done, failed) => {
    const give = () => {
      if (found !== null && next >= found.first) return done();
      one.postMessage({ ...order, first: next });
      next += PART;
    };
    one.onerror = event => failed(new Error(`a worker that solves has ended: ${event.message || 'its script could not be loaded'}`));
    one.onmessage = ({ data: { first, nonce } }) => {
      count += PART;
      onProgress?.(count);
      if (nonce !== null && (found === null || first < found.first)) found = { first, nonce };
      give();
    };
    signal?.addEventListener('abort', () => failed(signal.reason), { once: true });
    give();
  });
  try {
    await Promise.all(open.map(work));
  } finally {
    for (const one of open) one.terminate();
  }
  return hex(found.nonce);
}
