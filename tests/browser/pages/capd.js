// The vectors of CAPD made anew in a page, its solver, and a wallet that trades over the pool of a node.
import * as capd from '../capd.js';
import { hex, rawId, secretHash, shownId, stage1, unhex } from '../work/message.js';
import * as work from '../work/priority.js';
import { sha256, begin, compress } from '../work/sha256.js';
import { PART, tried } from '../work/tried.js';

const differences = [], bits = text => parseInt(text, 16), digits = target => target.toString(16).padStart(64, '0');

function same(name, found, due) {
  if (found !== due) differences.push(`${name}: ${found} instead of ${due}`);
}

function message(one) {
  const data = one.data_pattern ? one.data_pattern.repeat_byte.toString(16).padStart(2, '0').repeat(one.data_pattern.length) : one.data;
  return { data, created: one.create_time, difficultyBits: bits(one.difficulty_bits), nonce: one.nonce, expiration: one.expiration, rescindHash: one.rescind_hash };
}

function number(value) {
  return Number.isNaN(value) || value === Infinity ? 'nan' : value;
}

const vectors = async name => (await fetch(`../vectors/capd/${name}.json`)).json();

async function all() {
  for (const one of (await vectors('messages')).cases) {
    const made = message(one), size = made.data.length / 2, initial = work.initialPriority(made.difficultyBits, size);
    same(`${one.name} stage 1`, hex(stage1(made)), one.stage1);
    same(`${one.name} id`, hex(rawId(made)), one.id_raw);
    same(`${one.name} shown`, shownId(rawId(made)), one.id_display);
    same(`${one.name} target`, digits(work.targetOf(made.difficultyBits)), one.target_display);
    same(`${one.name} work`, capd.isGenuine({ ...made, hash: one.id_display }), one.pow_ok);
    same(`${one.name} reply`, hex(capd.replyPrefix(one.id_display)), one.reply_prefix_raw16);
    if (one.initial_priority !== 'nan') {
      same(`${one.name} priority`, initial, one.initial_priority);
      for (const [age, due] of Object.entries(one.priority_at_age)) same(`${one.name} at ${age}`, work.aged(initial, Number(age)), due);
    }
  }
  const compact = await vectors('compact');
  for (const { target, bits: due, back } of compact.encode) {
    same(`bits of ${target}`, work.bitsOf(BigInt(`0x${target}`)), bits(due));
    same(`back of ${due}`, digits(work.targetOf(bits(due))), back);
  }
  for (const { bits: given, target } of compact.decode) same(`target of ${given}`, digits(work.targetOf(bits(given))), target);
  const { rows, future } = await vectors('priority');
  for (const [given, size, age, due] of [...rows, ...future.rows]) same(`${given} ${size} ${age}`, work.aged(work.initialPriority(bits(given), size), age), due);
  for (const size of [0, 55, 56, 63, 64, 65, 1000]) {
    const data = new Uint8Array(size).fill(size);
    same(`sha256 of ${size}`, hex(sha256(data)), hex(new Uint8Array(await crypto.subtle.digest('SHA-256', data))));
  }
  return differences;
}

// The nonces of these drafts; each is what Python finds.
const solved = (drafts, workers) => Promise.all(drafts.map(draft => capd.solve(draft, { workers })));

// Nonces a millisecond: of the solver's own loop, and of two bare compressions.
function rates(parts = 4) {
  const target = new Uint32Array(8), stage = new Uint8Array(32).fill(7), w = new Int32Array(64), state = new Int32Array(8), best = [0, 0];
  for (let round = 0; round < 5; round++) {
    let began = performance.now();
    for (let part = 0; part < parts; part++) tried(stage, target, 16842752 + part * PART);
    best[0] = Math.max(best[0], parts * PART / (performance.now() - began));
    began = performance.now();
    for (let i = 0; i < parts * PART; i++) {
      w[8] = i;
      begin(state);
      compress(state, w);
      begin(state);
      compress(state, w);
    }
    best[1] = Math.max(best[1], parts * PART / (performance.now() - began));
  }
  return best;
}

async function cancelled() {
  const control = new AbortController(), draft = { data: '', created: 0, difficultyBits: 0x03000001 };
  const solving = capd.solve(draft, { signal: control.signal, onProgress: () => control.abort(new Error('enough')) });
  return solving.catch(error => error.message);
}

Object.assign(window, { capd, vectors: all, solved, rates, cancelled, secretHashOf: secret => hex(secretHash(unhex(secret))) });
